import argparse

from handoff.cli import add_json, add_project, positive, run_hot

EXAMPLE = "handoff sessions . --limit 5"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: every project)")
    parser.add_argument("--limit", type=positive, metavar="N", help="how many (default: 20)")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return run_hot("sessions", given)
