import argparse

from handoff import tracks

EXAMPLE = "handoff create --track auth_20260301 --phase 'Phase 2'"


def arguments(parser: argparse.ArgumentParser) -> None:
    tracks.add_request(parser)
    parser.add_argument(
        "--trigger", choices=tracks.TRIGGERS, default="manual", help="default: manual"
    )
    tracks.add_parallel(parser)
    tracks.add_session(parser)


def run(given: argparse.Namespace) -> int:
    return tracks.run("create", tracks.request(given, "trigger"), given)
