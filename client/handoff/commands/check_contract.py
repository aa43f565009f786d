import argparse
import os
import sys

from handoff import local
from handoff.cli import add_json
from handoff.common.plain_text import PlainText, escaped_json

EXAMPLE = "handoff check-contract ~/.claude/handoffs"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory",
        nargs="?",
        default=".",
        metavar="DIR",
        help="a directory of handoffs, that of all of them, or a project (default: this one)",
    )
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    directory = os.path.expanduser(given.directory)
    code, text = local.daemon_code().check_contract(directory, as_json=given.json)
    sys.stdout.write(PlainText(escaped_json(text)) if given.json else text)
    return int(code)
