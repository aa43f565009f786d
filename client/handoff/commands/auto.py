import argparse

from handoff import track_commands

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
    track_commands.add_request(parser)
    track_commands.add_parallel(parser)
    track_commands.add_session(parser)


def run(given: argparse.Namespace) -> int:
    return track_commands.run("auto", track_commands.request(given, "slash"), given)
