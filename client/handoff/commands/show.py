import argparse

from handoff.cli import add_json, add_project, hot

EXAMPLE = "handoff show ~/code/shop"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: this one)")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return hot("show", given)
