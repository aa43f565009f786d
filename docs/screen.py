"""The output of the demo: its steps, the changed lines, and the output of programs."""

import difflib
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

COLUMNS = 80
BOLD, DIM, RED, GREEN, CYAN = 1, 2, 31, 32, 36
# Lines that would only make noise in a diff: the time, and empty fields.
NOISE = re.compile(r"[-+](?:timestamp: .*|\w+: (?:null|\[\]))")


@dataclass(frozen=True)
class DemoScreen:
    """Prints the story, in colour on request."""

    colour: bool
    home: str

    def paint(self, text: str, *codes: int) -> str:
        return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m" if self.colour else text

    def introduce(self) -> None:
        print(self.paint("A scripted session in ~/shop, the real daemon, the real client.", BOLD))
        how = (
            f"~ is {self.home}, removed at the end. Under each step: the lines of handoff.yaml "
            "that changed (without its timestamp and empty fields), and how soon they did: the "
            "daemon writes at once after quiet, then every 2 s at most."
        )
        print("\n".join(self.paint(line, DIM) for line in fold(how)))

    def begin(self, who: str, what: str) -> None:
        """Print a step before it is taken; the rest of its line follows after its effect."""
        print(f"\n{self.paint(who, BOLD, CYAN)} {what}", end="", flush=True)

    def end(self, used: int, seconds: float) -> None:
        print(self.paint(f"  {seconds:.2f} s".rjust(COLUMNS - used), DIM))

    def change(self, line: str) -> None:
        colour = GREEN if line.startswith("+") else RED
        print(self.paint(f"  {line[0]} {line[1:]}", colour))

    def note(self, text: str) -> None:
        print(self.paint(f"  {text}", DIM))

    def command(self, words: str, why: str) -> None:
        print(f"\n{self.paint(f'~/shop $ {words}', BOLD)}  {self.paint(f'# {why}', DIM)}")

    def output(self, text: str) -> None:
        """Print the output of a program; long lines are folded at a space, not by the terminal."""
        for line in text.replace(self.home, "~").splitlines():
            print("\n".join(fold(line)))


def fold(line: str) -> list[str]:
    return textwrap.wrap(line, COLUMNS, break_long_words=False, break_on_hyphens=False)


def wants_colour(asked: bool) -> bool:
    return asked or (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def changes(before: str, after: str) -> Iterator[str]:
    """Yield the lines that differ, each with its sign."""
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    for line in list(found)[2:]:
        if not line.startswith("@@") and not NOISE.fullmatch(line):
            yield line
