import argparse

from handoff import tracks

EXAMPLE = "handoff trigger epic-end --bead shop-1 --dry-run"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make the record of a trigger as if it had fired: parallel workers are included, "
        "and nothing is asked. With --dry-run nothing is written."
    )
    parser.add_argument(
        "trigger", choices=tracks.TRIGGERS, metavar="NAME", help=", ".join(tracks.TRIGGERS)
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be written")
    tracks.add_request(parser)
    tracks.add_session(parser)


def run(given: argparse.Namespace) -> int:
    return tracks.run("trigger", tracks.request(given, "trigger", "dry_run"), given)
