import argparse

from handoff.cli import add_json, add_project, run_hot

EXAMPLE = "handoff unpause"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: end every pause)")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return run_hot("unpause", given)
