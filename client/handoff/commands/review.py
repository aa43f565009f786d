import argparse

from handoff.cli import add_json, add_project, with_or_without

EXAMPLE = "handoff review"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: this one)")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return with_or_without("review", {"project": given.project}, as_json=given.json)
