import argparse

from handoff import track_commands
from handoff.cli import positive

EXAMPLE = "handoff triggers --all"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="of every project")
    parser.add_argument("--limit", type=positive, default=20, metavar="N", help="default: 20")
    parser.add_argument(
        "--retry", action="store_true", help="try again to send the notes and mails given up"
    )
    parser.add_argument(
        "--drop",
        action="store_true",
        help="give up records that cannot be made, and forget letters that were given up",
    )
    track_commands.add_place(parser)


def run(given: argparse.Namespace) -> int:
    names = ("all", "limit", "retry", "drop", "project")
    return track_commands.run("triggers", {name: getattr(given, name) for name in names}, given)
