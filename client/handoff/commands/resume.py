import argparse
import os

from handoff import track_commands

EXAMPLE = "handoff resume auth_20260301"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        metavar="PATH|TRACK",
        help="a record's file, or a track (default: the newest record; of several tracks, choose)",
    )
    parser.add_argument(
        "--implement",
        action="store_true",
        help="begin to implement the track: an epic-start record is made, too",
    )
    track_commands.add_session(parser)


def run(given: argparse.Namespace) -> int:
    names = ("target", "implement", "session", "project")
    params = {name: getattr(given, name) for name in names}
    # The path of a file is relative to this directory; the name of a track is not.
    if given.target and os.path.isfile(given.target):
        params["target"] = os.path.realpath(given.target)
    return track_commands.run("resume", params, given)
