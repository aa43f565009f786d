import argparse

from handoff import track_commands

EXAMPLE = "handoff trigger epic-end --bead shop-1 --dry-run"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make the record of a trigger as if it had fired: parallel workers are included, "
        "and nothing is asked. With --dry-run nothing is written."
    )
    parser.add_argument(
        "trigger",
        choices=track_commands.TRIGGERS,
        metavar="NAME",
        help=", ".join(track_commands.TRIGGERS),
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be written")
    track_commands.add_request(parser)
    track_commands.add_session(parser)


def run(given: argparse.Namespace) -> int:
    return track_commands.run("trigger", track_commands.request(given, "trigger", "dry_run"), given)
