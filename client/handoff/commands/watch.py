import argparse
import time

from handoff.cli import add_json, add_project, current_directory, end_on_interrupt
from handoff.client import Client
from handoff.common.plain_text import plain_json

EXAMPLE = "handoff watch ."


def arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser, "a directory of the project (default: every project)")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    params = {"cwd": current_directory()}
    if given.project:
        params["project"] = given.project
    end_on_interrupt()
    changes = Client().watch(**params)
    watching = next(changes)["data"]["watching"]
    if not given.json:
        print(
            f"Watching {'every project' if watching == '*' else watching}. Ctrl-C ends it.",
            flush=True,
        )
    for change in changes:
        if given.json:
            print(plain_json(change, indent=None), flush=True)
        else:
            document = change["document"]
            print(
                f"{time.strftime('%H:%M:%S')}  {change['project']}  {document['now']}", flush=True
            )
    return 0
