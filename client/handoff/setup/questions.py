"""Questions to a person at a terminal; without a terminal no question is asked."""

import argparse
import sys
from collections.abc import Sequence

from handoff.common.errors import EXIT_CHOICE_NEEDED


def add_consent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show the changes, make none")


def can_ask(given: argparse.Namespace) -> bool:
    # A question would stand in the middle of JSON output.
    is_answered = given.yes or given.dry_run or vars(given).get("json")
    return sys.stdin.isatty() and sys.stdout.isatty() and not is_answered


def refusal(given: argparse.Namespace, command: str, question: str) -> int | None:
    """Return the exit code of a command without consent, or None if it may go on."""
    if given.yes:
        return None
    if not can_ask(given):
        sys.stderr.write(f"Nothing was changed. To do this, say --yes: handoff {command} --yes\n")
        return EXIT_CHOICE_NEEDED
    if agrees(question):
        return None
    print("Nothing was changed.")
    return 0


def agrees(question: str, *, default: bool = True) -> bool:
    """Ask until the answer is yes or no; the end of the input means no."""
    while True:
        try:
            said = input(question).strip().lower()
        except EOFError:
            print()
            return False
        if said in ("", "y", "yes", "n", "no"):
            return said.startswith("y") if said else default


def choice(question: str, words: Sequence[str], default: str) -> str:
    """Ask for one of the words; its beginning is enough."""
    while True:
        try:
            said = input(f"{question} [{default}] ").strip().lower()
        except EOFError:
            print()
            return default
        found = [word for word in words if said and word.startswith(said)]
        if found or not said:
            return found[0] if found else default
