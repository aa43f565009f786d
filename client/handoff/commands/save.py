import argparse
import json
import sys

from handoff import local
from handoff.cli import add_json, here
from handoff.client import Client
from handoff.errors import NotAnsweringError, NotRunningError

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
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    fields = ("message", "goal", "now", "hypothesis", "outcome", "status")
    values = {name: getattr(given, name) for name in fields}
    cwd = here()
    note = ""
    try:
        told = {name: value for name, value in values.items() if value is not None}
        result = Client().call("save", cwd=cwd, tags=given.tag, **told)
        data = result["data"]
        note = "".join(f"warning: {item['text']}\n" for item in result["warnings"])
    except (NotRunningError, NotAnsweringError) as reason:
        data = local.daemon_code().save(cwd, values, given.tag)
        note = f"{reason.title} Saved without it.\n"
    if given.json:
        print(json.dumps(data, ensure_ascii=False, indent=2))
    else:
        masked = f"Secrets masked: {data['redacted']}\n" if data["redacted"] else ""
        cut = f"Cut to {data['cut_to']} characters.\n" if data["cut_to"] else ""
        print(f"Saved {data['path']}\n{cut}{masked}now: {data['document']['now']}", flush=True)
    sys.stderr.write(note)
    return 0
