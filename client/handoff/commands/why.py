import argparse

from handoff.cli import add_json, add_project, run_hot

EXAMPLE = "handoff why goal"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("field", metavar="FIELD", help="goal, now, status, next.0, ...")
    add_project(parser, "a directory of the project (default: this one)")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return run_hot("why", given)
