"""The shared part of the commands about track records: arguments, progress and choices."""

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from handoff.cli import add_json, call, positive, stated
from handoff.common import paths, triggers
from handoff.common.plain_text import PlainText

# In the order of the help: the most usual trigger first.
TRIGGERS = tuple(reversed(triggers.TRIGGERS))
_POLL_SECONDS = 2.0
_WAIT_MINUTES = 30


def add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--session",
        default=paths.variable("CLAUDE_CODE_SESSION_ID"),
        metavar="ID",
        help="default: $CLAUDE_CODE_SESSION_ID, else the session at work here",
    )
    add_place(parser)


def add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project", metavar="DIR", help="a directory of the project (default: this one)"
    )
    add_json(parser)


def add_request(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a track record to be made."""
    parser.add_argument("--track", metavar="T", help="a track's id, or `general`")
    parser.add_argument("--bead", metavar="ID", help="the epic it is about")
    parser.add_argument("--phase", metavar="P", help="where the work is (default: by the plan)")
    parser.add_argument(
        "--general", action="store_true", help="make conductor/ for it where there is none"
    )
    parser.add_argument(
        "--strict", action="store_true", help="refuse if there are secrets to be masked"
    )


def add_parallel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--if-parallel",
        choices=("wait", "include", "cancel"),
        help="what to do while parallel workers run (default: ask; exit code 4 where nobody can)",
    )
    parser.add_argument(
        "--wait-minutes",
        type=positive,
        default=_WAIT_MINUTES,
        metavar="N",
        help=f"give up waiting after this time (default: {_WAIT_MINUTES})",
    )


def request(given: argparse.Namespace, *more: str) -> dict[str, Any]:
    names = ("session", "project", "track", "bead", "phase", "general", "strict", *more)
    author = "agent" if paths.variable("CLAUDECODE") or given.session else "human"
    return {**{name: getattr(given, name) for name in names}, "author": author}


def run(command: str, params: dict[str, Any], given: argparse.Namespace) -> int:
    """Run a command, put its choice to a person at the terminal, and print the result."""
    wanted = getattr(given, "if_parallel", None)
    waits_until = 0.0
    if wanted == "wait":
        waits_until = time.monotonic() + given.wait_minutes * 60
    elif wanted:
        params["if_parallel"] = wanted
    on_step: Callable[[dict[str, Any]], None] = print_step
    while True:
        data, text, note = call(command, stated(params), on_step, as_json=given.json)
        choice: dict[str, Any] = data.get("choice") or {}
        workers = isinstance(choice.get("options"), dict)
        if workers and waits_until and time.monotonic() < waits_until:
            if on_step is print_step:
                _print_waiting(choice)
            on_step = _ignore_step
            time.sleep(_POLL_SECONDS)
            continue
        asks = choice and not (workers and waits_until) and not given.json
        answer = _choose(choice, text) if asks else ""
        if answer == "wait":
            waits_until = time.monotonic() + given.wait_minutes * 60
        elif answer:
            params.update(_chosen(command, choice, answer))
        else:
            break
    if workers and waits_until:
        sys.stderr.write(f"They still run after {given.wait_minutes} minutes.\n")
    sys.stdout.write(PlainText(text))
    sys.stdout.flush()
    sys.stderr.write(note)
    return int(data.get("exit", 0))


def print_step(step: dict[str, Any]) -> None:
    """Print a step when it is taken, on stderr: stdout stays clean for a program that reads it."""
    sys.stderr.write(f"{step['line']}\n")
    sys.stderr.flush()


def _ignore_step(_step: dict[str, Any]) -> None:
    """Print nothing: the step was printed before."""


def _print_waiting(choice: dict[str, Any]) -> None:
    names = ", ".join(worker["name"] for worker in choice.get("workers", ()))
    sys.stderr.write(f"… waiting for {names}\n")
    sys.stderr.flush()


def _choose(choice: dict[str, Any], text: str) -> str:
    """Ask a person at the terminal and return the answer; empty if there is no terminal."""
    if not os.isatty(0) or not os.isatty(2):
        return ""
    sys.stderr.write(PlainText(text.rpartition("\n\n")[0] + "\n\n"))
    options = choice["options"]
    if isinstance(options, dict):
        letters = dict(zip("abc", options, strict=False))
        return str(letters.get(_answer("Choose [A/B/C]: ").lower(), "cancel"))
    number = _answer(f"Select [1-{len(options)}] or enter path: ")
    if number.isdigit() and 1 <= int(number) <= len(options):
        return str(options[int(number) - 1]["path"])
    return number


def _answer(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _chosen(command: str, choice: dict[str, Any], answer: str) -> dict[str, str]:
    if isinstance(choice["options"], dict):
        return {"if_parallel": answer}
    return {"track" if command == "auto" else "target": answer}
