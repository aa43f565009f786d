import argparse

from handoff.cli import add_json, add_project, run_online_or_offline

EXAMPLE = "handoff review"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: this one)")
    parser.add_argument(
        "--settle", action="store_true", help="take the call for a person out: it was seen to"
    )
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    params = {"project": given.project, "settle": given.settle}
    return run_online_or_offline("review", params, as_json=given.json)
