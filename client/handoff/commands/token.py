import argparse

from handoff import local

EXAMPLE = "handoff token show        (the daemon need not run; a new token holds at once)"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("show", "rotate"),
        help="print the token, which is made when there is none; or put a new one in its place",
    )


def run(given: argparse.Namespace) -> int:
    print(local.daemon_code().token(rotate=given.action == "rotate"))
    return 0
