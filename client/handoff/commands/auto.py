import argparse

from handoff import tracks

EXAMPLE = "handoff auto"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Resume at the first message of a session, if a record is younger than 7 days; else create."
    )
    parser.add_argument(
        "--slash",
        action="store_true",
        help="a slash command asks: its own message is not in the transcript yet",
    )
    tracks.add_request(parser)
    tracks.add_parallel(parser)
    tracks.add_session(parser)


def run(given: argparse.Namespace) -> int:
    return tracks.run("auto", tracks.request(given, "slash"), given)
