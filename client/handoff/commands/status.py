import argparse

from handoff.cli import add_json, hot

HELP = "what the daemon is doing: progress, lag, what was skipped or redacted"
EXAMPLE = "handoff status --json"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return hot("status", given)
