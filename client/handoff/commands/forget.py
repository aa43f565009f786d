import argparse
import sys
from typing import Any

from handoff import fast
from handoff.cli import add_json, current_directory
from handoff.client import Client
from handoff.common.errors import EXIT_CHOICE_NEEDED
from handoff.common.plain_text import PlainText

EXAMPLE = "handoff forget .        (what would go is shown before it is asked for)"
# The databases are rewritten, which takes long if they are large.
REPLY_SECONDS = 120.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        metavar="PROJECT|SESSION",
        help="a directory of the project, or a session's id or how it begins (default: here)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    params: dict[str, Any] = {"cwd": current_directory(), "render": fast.rendering(given.json)}
    if given.target is not None:
        params["target"] = given.target
    client = Client(REPLY_SECONDS)
    if not given.yes:
        planned = client.call("forget", dry_run=True, **params)
        print(PlainText(planned["text"]), end="", flush=True)
        if planned["data"]["nothing"]:
            return 0
        if given.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            again = f"handoff forget {given.target or '.'} --yes"
            sys.stderr.write(f"Nothing was erased. To erase this: {again}\n")
            return EXIT_CHOICE_NEEDED
        if input("Erase this? [y/N] ").strip().lower() not in ("y", "yes"):
            print("Nothing was erased.")
            return 0
    print(PlainText(client.call("forget", **params)["text"]), end="", flush=True)
    return 0
