import argparse
import sys

from handoff import statusline
from handoff.common.plain_text import PlainText

EXAMPLE = "handoff statusline --beside 'my-own-status-line --short'"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "One line for Claude Code's status line, whose JSON is read from stdin: the goal, how long "
        "ago the last handoff was left, unread entries of threads, the track's progress. "
        'In settings.json: {"statusLine": {"type": "command", "command": "handoff statusline"}}'
    )
    parser.add_argument(
        "--beside", metavar="COMMAND", help="a status line of your own, which is shown above ours"
    )


def run(given: argparse.Namespace) -> int:
    sys.stdout.write(PlainText(statusline.run(given.beside or "")))
    return 0
