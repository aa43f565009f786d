import argparse
import os
import secrets
import select
import sys
import time
from typing import Any

from handoff import fast
from handoff.cli import ASKED_SECONDS, add_json, call, current_directory, end_on_interrupt
from handoff.client import Client
from handoff.common import paths, wire
from handoff.common.errors import (
    EXIT_CHOICE_NEEDED,
    EXIT_USAGE,
    HandoffError,
    NotAnsweringError,
    NotRunningError,
)
from handoff.common.plain_text import PlainText, plain_json

EXAMPLE = "handoff thread create 'Implement login' 'JWT with refresh tokens; 30 days'"
TYPES = ("context", "task", "progress", "question", "decision", "done")
CLIENTS = ("chat", "code")
_TYPES_HELP = (
    "context (background, requirements), task (something to do), progress (how far it is), "
    "question (the other side's word is needed), decision (an answer), done (it is finished)"
)
_EXAMPLES = {
    "create": "'Implement login' 'JWT with refresh tokens; 30 days'",
    "get": "hof_V1StGXR8Z5jdHi6B-myT1 --watch",
    "add": "hof_V1StGXR8Z5jdHi6B-myT1 decision '30 days'",
    "read": "hof_V1StGXR8Z5jdHi6B-myT1 --up-to 12",
    "close": "hof_V1StGXR8Z5jdHi6B-myT1",
}
_STDIN_SECONDS = 5.0
_AGAIN_SECONDS = 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "A conversation between Claude Chat and Claude Code, by its id: the same that their tools "
        "create_handoff, get_handoff, add_to_handoff, mark_handoff_read and close_handoff use."
    )
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    create = _action(actions, "create", "open a thread with its first entry, and print its id")
    create.add_argument("title", metavar="TITLE", help="short; 500 characters at most")
    _add_content(create)
    create.add_argument("--project", metavar="TAG", help="a tag; informational only")
    get = _action(actions, "get", "show a thread, and what of it is unread", named=True)
    get.add_argument(
        "--new", action="store_true", help="only what is unread (--json has it as new_entries)"
    )
    get.add_argument(
        "--watch", action="store_true", help="go on with each new entry, until it is closed"
    )
    add = _action(actions, "add", "append an entry", named=True)
    add.add_argument("type", choices=_Types(TYPES), metavar="TYPE", help=_TYPES_HELP)
    _add_content(add)
    read = _action(actions, "read", "mark what you have acted on as read", named=True)
    read.add_argument("--up-to", type=_seq, metavar="SEQ", help="default: the latest entry")
    close = _action(actions, "close", "delete the entries for good, and close it", named=True)
    close.add_argument("--yes", action="store_true", help="do not ask")
    for action in (create, get, add, read):
        action.add_argument(
            "--as",
            dest="as_client",
            choices=CLIENTS,
            default="code" if paths.variable("CLAUDECODE") else "chat",
            help="the side you speak for (default: chat, or code inside Claude Code)",
        )


class _Types(tuple[str, ...]):
    """The choices for help and completion; `_require_type` refuses other values with advice."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        return True


def _require_type(given: argparse.Namespace) -> None:
    if given.type in TYPES:
        return
    import difflib
    import shlex

    near = [*difflib.get_close_matches(given.type, TYPES, 1), "progress"][0]
    # Most likely TYPE was left out, and this is the text.
    content = given.type if given.content is None else given.content
    words = ["handoff", "thread", "add", given.id, near, content]
    problem = HandoffError(
        f"Before the text comes its TYPE, and {given.type!r} is none: {', '.join(TYPES)}.",
        f"Example: {shlex.join(words)}",
    )
    problem.exit_code = EXIT_USAGE
    raise problem


def _seq(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number


def _action(actions: Any, name: str, text: str, *, named: bool = False) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"Example: handoff thread {name} {_EXAMPLES[name]}",
    )
    if named:
        parser.add_argument("id", metavar="ID", help="the thread's id (hof_…)")
    add_json(parser)
    return parser


def _add_content(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "content", nargs="?", metavar="CONTENT", help="256 KiB at most; - or none: from stdin"
    )


def run(given: argparse.Namespace) -> int:
    if given.action == "add":
        _require_type(given)
    words = vars(given).items()
    own = ("run", "json", "yes", "watch")
    params = {name: value for name, value in words if name not in own and value is not None}
    params["cwd"] = current_directory()
    if given.action in ("create", "add"):
        params["content"] = _content(given.content)
    if given.action in ("create", "add", "read"):
        # The daemon may end after the action and before its reply. By this key the action is not
        # done again here.
        params["once"] = secrets.token_hex(16)
    if given.action == "close" and not given.yes:
        answer = _ask_first(params, given)
        if answer is not None:
            return answer
    if given.action == "get" and given.watch:
        return _watch(params, as_json=given.json)
    data, text, note = call("thread", params)
    if given.action == "create" and not given.json:
        # A script reads the id on stdout; the hint is for a person, on stderr.
        text, _, hint = text.partition("\n")
        text, note = f"{text}\n", hint + note
    _print(data, text, as_json=given.json)
    sys.stderr.write(note)
    return 0


def _print(data: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the rendered text, or the result of the tool as JSON."""
    text = plain_json(data["result"]) + "\n" if as_json else text
    sys.stdout.write(PlainText(text))
    sys.stdout.flush()


def _content(given: str | None) -> str:
    text = _from_stdin(waits=given == "-") if given in (None, "-") else str(given)
    if not text.strip():
        raise _usage("There is no content.")
    return text


def _from_stdin(*, waits: bool) -> str:
    if sys.stdin is None or (os.isatty(0) and not waits):
        return ""
    # The parent process may have left us a pipe that is never written to.
    if not waits and not select.select([0], [], [], _STDIN_SECONDS)[0]:
        raise _usage(f"Nothing came on stdin for {_STDIN_SECONDS:g} s.")
    data = sys.stdin.buffer.read(2 * wire.ENTRY_MAX_BYTES)
    if len(data.replace(b"\r\n", b"\n")) > wire.ENTRY_MAX_BYTES:
        raise HandoffError(
            f"An entry may have {wire.ENTRY_MAX_BYTES >> 10} KiB; there is more on stdin.",
            "Say it in several entries, or name a file that holds it.",
        )
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise HandoffError(
            "What comes on stdin is no text in UTF-8.", "Name the file that holds it instead."
        ) from None


def _usage(title: str) -> HandoffError:
    problem = HandoffError(title, "Give it as an argument, or on stdin.")
    problem.exit_code = EXIT_USAGE
    return problem


def _ask_first(params: dict[str, Any], given: argparse.Namespace) -> int | None:
    """Ask a person to agree; return None to go on, else the exit code."""
    asked = {"action": "get", "id": given.id, "cwd": params["cwd"], "peek": True}
    found = call("thread", asked)[0]["result"]
    if found["handoff"]["status"] == "completed":
        return None
    title, number = found["handoff"]["title"], len(found["entries"])
    if given.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stderr.write(
            f"Nothing was deleted. To delete the entries of {title!r} ({number}) for good: "
            f"handoff thread close {given.id} --yes\n"
        )
        return EXIT_CHOICE_NEEDED
    question = f"Delete the entries of {title!r} ({number}) for good? [y/N] "
    if _agrees(question):
        return None
    print("Nothing was deleted.")
    return 0


def _agrees(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D
        print()
        return False


def _watch(params: dict[str, Any], *, as_json: bool) -> int:
    """Print the thread, then each entry as it comes, until the thread is closed.

    A change is only a hint: the entries are always asked for, from the last printed one on. So no
    entry is lost or printed twice when the daemon is restarted in between.
    """
    end_on_interrupt()
    shown = _Shown(params, as_json)
    is_outage_reported = False
    while True:
        try:
            for change in Client(ASKED_SECONDS).watch("thread", **params | {"action": "watch"}):
                if is_outage_reported:
                    is_outage_reported = False
                    sys.stderr.write("It is back.\n")
                if shown.is_news(change) and shown.ask():
                    return 0
        except (NotRunningError, NotAnsweringError):
            if not shown.begun:
                raise
        if not is_outage_reported:
            is_outage_reported = True
            sys.stderr.write("handoffd has ended; waiting for it. Ctrl-C ends this.\n")
        time.sleep(_AGAIN_SECONDS)


class _Shown:
    """The part of a thread that is on the screen."""

    def __init__(self, params: dict[str, Any], as_json: bool) -> None:
        self.params, self.as_json = params, as_json
        self.begun = False
        self.last = 0

    def is_news(self, change: dict[str, Any]) -> bool:
        """Return True if there may be an entry that was not printed yet."""
        if "thread" not in change:
            return True
        return bool(change["status"] == "completed" or change.get("seq", 0) > self.last)

    def ask(self) -> bool:
        """Print the new entries; return True if the thread is closed."""
        params = self.params
        if self.begun:
            params = {**params, "after": self.last, "new": False}
        result = Client(ASKED_SECONDS).call(
            "thread", render=fast.rendering(as_json=False), **params
        )
        found = result["data"]["result"]
        if self.as_json:
            self._print_lines(found)
        else:
            sys.stdout.write(PlainText(result["text"]))
        sys.stdout.flush()
        first, self.begun = not self.begun, True
        self.last = max((entry["seq"] for entry in found["entries"]), default=self.last)
        closed = bool(found["handoff"]["status"] == "completed")
        if first and not closed:
            sys.stderr.write("Watching. Ctrl-C ends it.\n")
        if closed and not first:
            sys.stderr.write("It was closed, and its entries were deleted.\n")
        return closed

    def _print_lines(self, found: dict[str, Any]) -> None:
        """Print the whole thread once, then one line per entry."""
        for item in found["entries"] if self.begun else [found]:
            print(plain_json(item, indent=None))
