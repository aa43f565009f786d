import argparse
import sys

from handoff import fast, local
from handoff.cli import add_json, current_directory
from handoff.client import Client
from handoff.common.errors import NotAnsweringError, NotRunningError
from handoff.common.plain_text import PlainText

EXAMPLE = "handoff save -m 'debugging token expiry' --hypothesis 'off by one in auth.py'"
STATUSES = ("in_progress", "completed", "blocked")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", "--message", metavar="TEXT", help="sets now, and goal if there is none"
    )
    parser.add_argument("--goal", metavar="TEXT", help="what you want to reach")
    parser.add_argument("--now", metavar="TEXT", help="what you are doing")
    parser.add_argument("--hypothesis", metavar="TEXT", help="your working theory")
    parser.add_argument("--outcome", metavar="TEXT", help="what became of it")
    parser.add_argument("--status", choices=STATUSES)
    parser.add_argument(
        "-t", "--tag", action="append", default=[], metavar="TAG", help="repeatable"
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print only the session's id, if it is known"
    )
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    fields = ("message", "goal", "now", "hypothesis", "outcome", "status")
    values = {name: getattr(given, name) for name in fields}
    cwd = current_directory()
    style = fast.rendering(given.json)
    note = ""
    try:
        changes = {name: value for name, value in values.items() if value is not None}
        saved = Client().call("save", cwd=cwd, tags=given.tag, render=style, **changes)
        data, text = saved["data"], saved["text"]
    except (NotRunningError, NotAnsweringError) as reason:
        data, text = local.daemon_code().save_text(cwd, values, given.tag, style)
        note = f"{reason.title} Saved without it.\n"
    if given.quiet and not given.json:
        session_id = data["document"].get("session_id")
        text, note = f"{session_id}\n" if session_id else "", ""
    print(PlainText(text), end="", flush=True)
    sys.stderr.write(note)
    return 0
