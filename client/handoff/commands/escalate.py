import argparse

from handoff.cli import add_json, with_or_without

EXAMPLE = "handoff escalate 'the migration drops a column; check before the next step'"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reason", metavar="REASON", help="why a person is needed")
    parser.add_argument(
        "--project", metavar="DIR", help="a directory of the project (default: this one)"
    )
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    params = {"reason": given.reason or " ", "project": given.project}
    return with_or_without("escalate", params, as_json=given.json)
