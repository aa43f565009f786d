import argparse
import os
import select
import stat
import sys

from handoff.cli import add_json, run_online_or_offline
from handoff.common import paths
from handoff.common.errors import HandoffError

EXAMPLE = "handoff close --done 'tax rounds per line' --next 'the same for shipping'"
SECTIONS = (
    ("done", "what was accomplished"),
    ("next", "what should happen next"),
    ("gotcha", "a surprise, a trap"),
    ("risk", "an unresolved concern"),
    ("reflection", "what was learned"),
)
_INPUT_MAX_BYTES = 512 << 10
_WAIT_SECONDS = 5.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Leave a handoff: your own words, completed by what is known of the session. What you say "
        "is added to what is there. Sections may also come as markdown on stdin (## Done, ## Next, "
        "## Gotchas, ## Risks, ## Reflection)."
    )
    for name, text in SECTIONS:
        parser.add_argument(
            f"--{name}", action="append", default=[], metavar="TEXT", help=f"{text}; repeatable"
        )
    parser.add_argument("--purpose", metavar="TEXT", help="one line (default: the session's goal)")
    parser.add_argument(
        "--escalate",
        action="append",
        default=[],
        metavar="REASON",
        help="call for a person before anybody goes on",
    )
    parser.add_argument(
        "--session",
        default=paths.variable("CLAUDE_CODE_SESSION_ID"),
        metavar="ID",
        help="default: $CLAUDE_CODE_SESSION_ID, else the session at work here",
    )
    parser.add_argument(
        "--project", metavar="DIR", help="a directory of the project (default: this one)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what is known by itself, and write nothing"
    )
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    own = ("purpose", "escalate", "session", "project", "dry_run")
    names = (*(name for name, _ in SECTIONS), *own)
    params = {name: getattr(given, name) for name in names}
    return run_online_or_offline("close", {**params, "text": _input()}, as_json=given.json)


def _input() -> str:
    """Return the markdown on stdin, or an empty string if stdin has none."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return ""
    piped = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
    if not piped and not stat.S_ISREG(kind):
        return ""
    # The parent process may have left us a pipe that is never written to.
    if piped and not select.select([0], [], [], _WAIT_SECONDS)[0]:
        sys.stderr.write(f"Nothing came on stdin for {_WAIT_SECONDS:g} s; it was not read.\n")
        return ""
    data = sys.stdin.buffer.read(_INPUT_MAX_BYTES + 1)
    if len(data) > _INPUT_MAX_BYTES:
        raise HandoffError(f"stdin has more than {_INPUT_MAX_BYTES} bytes.", "Shorten it.")
    return data.decode("utf-8", "replace")
