import argparse

from handoff.cli import add_json, run_hot

EXAMPLE = "handoff status --json"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return run_hot("status", given)
