import argparse

from handoff.cli import add_json, hot

EXAMPLE = "handoff status --json"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return hot("status", given)
