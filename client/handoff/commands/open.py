import argparse
import sys

from handoff.cli import add_json, add_project, with_or_without

EXAMPLE = "handoff open ~/code/shop"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: this one)")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    # Text that goes into a session must carry our mark.
    framed = not sys.stdout.isatty() and not given.json
    return with_or_without("open", {"project": given.project, "framed": framed}, as_json=given.json)
