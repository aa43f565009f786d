import argparse

from handoff.item_closing import add_item, close_item

EXAMPLE = "handoff drop 2 --untrue"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_item(parser)
    parser.add_argument(
        "--untrue", action="store_true", help="it was wrong: `handoff show --log` says so"
    )


def run(given: argparse.Namespace) -> int:
    return close_item("drop", given, untrue=given.untrue)
