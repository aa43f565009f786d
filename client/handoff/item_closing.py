"""Close an open item: by the daemon, or without it in the file on disk."""

import argparse
import sys

from handoff import fast, local
from handoff.cli import add_json, current_directory, positive, stated
from handoff.client import Client
from handoff.common.errors import HandoffError, NotAnsweringError, NotRunningError
from handoff.common.plain_text import PlainText


def add_item(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "number", metavar="N", type=positive, help="its number in the list that handoff show prints"
    )
    parser.add_argument(
        "--stamp",
        metavar="STAMP",
        help="the `stamp` of `show --json` (default: that of the list that was printed last)",
    )
    add_json(parser)


def close_item(command: str, given: argparse.Namespace, *, untrue: bool = False) -> int:
    """Close an item and print the items that are left."""
    params = stated({"number": given.number, "stamp": given.stamp, "untrue": untrue})
    cwd, style = current_directory(), fast.rendering(given.json)
    note = ""
    try:
        text = Client().call(command, cwd=cwd, render=style, **params)["text"]
    except (NotRunningError, NotAnsweringError) as reason:
        if untrue:
            raise HandoffError(
                f"{reason.title} Only the daemon notes that an item was not true.",
                "Start it: handoff up. Without it: handoff drop N",
            ) from None
        _, text = local.daemon_code().close_text(command, cwd, params, style)
        note = f"{reason.title} Deleted from handoff.yaml without it, as dropped.\n"
    print(PlainText(text), end="", flush=True)
    sys.stderr.write(note)
    return 0
