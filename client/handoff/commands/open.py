import argparse
import sys

from handoff.cli import add_json, add_project, run_online_or_offline

EXAMPLE = "handoff open ~/code/shop"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: this one)")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    # Text that goes into a session must carry our mark.
    framed = not sys.stdout.isatty() and not given.json
    return run_online_or_offline(
        "open", {"project": given.project, "framed": framed}, as_json=given.json
    )
