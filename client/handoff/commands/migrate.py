import argparse
import sys

from handoff import local
from handoff.cli import add_json
from handoff.common.plain_text import PlainText, escaped_json

EXAMPLE = "handoff migrate --dry-run"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    code, text = local.daemon_code().migrate(dry_run=given.dry_run, as_json=given.json)
    sys.stdout.write(PlainText(escaped_json(text)) if given.json else text)
    return int(code)
