import argparse

from handoff.cli import add_json, add_project, run_hot

EXAMPLE = "handoff show --receipts ~/code/shop"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: this one)")
    parser.add_argument(
        "--receipts",
        action="store_const",
        const=True,
        help="say where each value comes from (or one: handoff why FIELD)",
    )
    parser.add_argument(
        "--log",
        action="store_const",
        const=True,
        help="say how goal, status, next and tests changed, and why",
    )
    parser.add_argument(
        "--dropped",
        action="store_const",
        const=True,
        help="list the open items and rules that the last compaction's summary does not mention",
    )
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return run_hot("show", given)
