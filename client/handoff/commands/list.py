import argparse

from handoff.cli import add_json, add_project, positive, run_online_or_offline

EXAMPLE = "handoff list --limit 5"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: this one)")
    parser.add_argument("--limit", type=positive, default=20, metavar="N", help="default: 20")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    return run_online_or_offline(
        "list", {"project": given.project, "limit": given.limit}, as_json=given.json
    )
