import argparse

from handoff.cli import add_json, add_project, run_hot

EXAMPLE = "handoff pause .        (and `handoff unpause .` to go on)"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: everything)")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return run_hot("pause", given)
