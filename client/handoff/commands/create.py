import argparse

from handoff import track_commands

EXAMPLE = "handoff create --track auth_20260301 --phase 'Phase 2'"


def arguments(parser: argparse.ArgumentParser) -> None:
    track_commands.add_request(parser)
    parser.add_argument(
        "named",
        nargs="?",
        choices=track_commands.TRIGGERS,
        metavar="TRIGGER",
        help="the same as --trigger",
    )
    parser.add_argument(
        "--trigger", choices=track_commands.TRIGGERS, default="manual", help="default: manual"
    )
    track_commands.add_parallel(parser)
    track_commands.add_session(parser)


def run(given: argparse.Namespace) -> int:
    given.trigger = given.named or given.trigger
    return track_commands.run("create", track_commands.request(given, "trigger"), given)
