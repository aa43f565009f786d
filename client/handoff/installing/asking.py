"""Questions to a person at a terminal; whoever is not there is not asked."""

import argparse
import sys
from collections.abc import Sequence


def can_ask(given: argparse.Namespace) -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and not (given.yes or given.dry_run)


def agrees(question: str, *, default: bool = True) -> bool:
    """Ask until it is yes or no; an end of the input is no."""
    while True:
        try:
            said = input(question).strip().lower()
        except EOFError:
            print()
            return False
        if said in ("", "y", "yes", "n", "no"):
            return said.startswith("y") if said else default


def choice(question: str, words: Sequence[str], default: str) -> str:
    """Ask for one of some words; its beginning is enough."""
    while True:
        try:
            said = input(f"{question} [{default}] ").strip().lower()
        except EOFError:
            print()
            return default
        found = [word for word in words if said and word.startswith(said)]
        if found or not said:
            return found[0] if found else default
