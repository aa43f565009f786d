import argparse
import contextlib
import io
import shlex
import sys

from handoff import cli
from handoff.common.plain_text import PlainText, plain

EXAMPLE = "handoff slash conductor-handoff resume auth_20260301"
# Claude Code ends a program that takes too long, and drops the slash command with it.
_PATIENCE = ("--wait-minutes", "1")
_NOTHING = "This project has no handoff yet.\n"
_HANDOFF_USAGE = """\
Usage: /conductor-handoff                       resume at the session's first message, else create
       /conductor-handoff create [TRIGGER] [OPTIONS]    (handoff create --help)
       /conductor-handoff resume [PATH|TRACK]   (handoff resume --help)
"""
_THREAD_USAGE = """\
Usage: /handoff-thread create TITLE      open a thread; its id is for the other side
       /handoff-thread get ID            what was said, and what of it is unread
       /handoff-thread add ID TYPE       TYPE: context, task, progress, question, decision, done
       /handoff-thread read ID           mark it as read
       /handoff-thread close ID          delete its entries for good
"""
_CREATE_THREAD = """\
Say first in one text what the other side must know. Then open the thread with it:

handoff thread create 'A SHORT TITLE' - <<'ENTRY'
WHAT THE OTHER SIDE MUST KNOW
ENTRY

The first line it prints is the id. Tell it to the user.
"""
_ADD_TO_THREAD = """\
Append the entry, with a TYPE of context, task, progress, question, decision or done:

handoff thread add ID TYPE - <<'ENTRY'
WHAT IS TO BE SAID
ENTRY
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Do what a slash command of Claude Code says, and tell all of it on stdout, errors and "
        "choices, too. It always exits 0: a slash command whose call fails is dropped."
    )
    parser.add_argument("name", metavar="NAME", help=", ".join(_ACTIONS))
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="WORDS",
        help="what was typed behind it; -: it comes on stdin",
    )


def run(given: argparse.Namespace) -> int:
    # Claude Code reads UTF-8 in every locale.
    inner = getattr(sys.stdout, "inner", None)
    if isinstance(inner, io.TextIOWrapper):
        inner.reconfigure(encoding="utf-8", errors="replace")
    try:
        sys.stdout.write(PlainText(_answer(given.name, _words(given.words))))
    except Exception as problem:  # noqa: BLE001  a failure would not be shown
        sys.stdout.write(f"handoff slash {given.name}: {problem!r}\n")
    return 0


def _words(given: list[str]) -> list[str]:
    """Return the words as they are, or split the single text that stdin or another agent gives."""
    if len(given) > 1:
        return given
    text = "".join(given)
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        return shlex.split(text)
    except ValueError:  # a quote without its partner
        return text.split()


def _answer(name: str, words: list[str]) -> str:
    if name not in _ACTIONS:
        return plain(f"There is no slash command {name}. There are: {', '.join(_ACTIONS)}.\n")
    return _ACTIONS[name](words)


def _output_of(*words: str) -> str:
    """Run a command in this process, and return all its output."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        cli.main("handoff", list(words))
    return said.getvalue()


def _conductor(words: list[str]) -> str:
    if not words:
        return _output_of("auto", "--slash", *_PATIENCE)
    actions = {"create": _create, "resume": _resume}
    return actions[words[0]](words[1:]) if words[0] in actions else _HANDOFF_USAGE


def _create(words: list[str]) -> str:
    return _output_of("create", *_PATIENCE, *words)


def _resume(words: list[str]) -> str:
    return _output_of("resume", *words)


def _open(_words: list[str]) -> str:
    return _output_of("open") or _NOTHING


def _close(_words: list[str]) -> str:
    return _output_of("close", "--dry-run")


def _thread(words: list[str]) -> str:
    action = words[0] if words else ""
    if action.startswith("hof_"):
        return _output_of("thread", "get", *words)
    if action in ("get", "read", "close"):
        # --watch would never end.
        return _output_of("thread", *(word for word in words if not word.startswith("--w")))
    return {"create": _CREATE_THREAD, "add": _ADD_TO_THREAD}.get(action, _THREAD_USAGE)


_ACTIONS = {
    "conductor-handoff": _conductor,
    "create_handoff": _create,
    "resume_handoff": _resume,
    "open": _open,
    "close": _close,
    "handoff-thread": _thread,
}
