import argparse

from handoff.cli import add_json, run_online_or_offline

EXAMPLE = "handoff escalate 'the migration drops a column; check before the next step'"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reason", metavar="REASON", help="why a person is needed")
    parser.add_argument(
        "--project", metavar="DIR", help="a directory of the project (default: this one)"
    )
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    params = {"reason": given.reason or " ", "project": given.project}
    return run_online_or_offline("escalate", params, as_json=given.json)
