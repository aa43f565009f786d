"""Run a program and keep its output, colours included, as an SVG picture of a terminal.

python docs/picture.py --output docs/demo.svg --title "make demo" -- COMMAND...
"""

import argparse
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import escape

# At these sizes 80 columns make 800 pixels, the width of a README.
CELL, LINE, FONT = 9.3, 20, 15.5
MARGIN, BAR = 28, 44
COLUMNS_MIN = 80
FAMILY = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
BACKGROUND, BAR_COLOUR, EDGE = "#14171f", "#1e222d", "#343a49"
TEXT, BRIGHT, FAINT = "#d3d8e2", "#ffffff", "#8f98aa"
COLOURS = {
    31: "#ff8080", 32: "#85e08a", 33: "#f0c674", 34: "#82aaff", 35: "#d6a4f0", 36: "#6fd6e0",
}  # fmt: skip
DOTS = ("#ff5f57", "#febc2e", "#28c840")

ESCAPE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


@dataclass(frozen=True)
class Look:
    """The look of text after the escapes so far."""

    bold: bool = False
    dim: bool = False
    colour: int = 0

    @property
    def fill(self) -> str:
        if self.colour:
            return COLOURS[self.colour]
        return FAINT if self.dim else BRIGHT if self.bold else TEXT


def changed(look: Look, codes: str) -> Look:
    """Return the look after one escape; codes that are not drawn here change nothing."""
    for code in (int(part or 0) for part in codes.split(";")):
        if code == 0:
            look = Look()
        elif code in (1, 2):
            look = replace(look, bold=look.bold or code == 1, dim=look.dim or code != 1)
        elif code in COLOURS:
            look = replace(look, colour=code)
    return look


def runs(text: str) -> Iterator[list[tuple[str, Look]]]:
    """Yield each line as pieces, each of which has one look."""
    look = Look()
    for line in text.expandtabs().splitlines():
        pieces, start = [], 0
        for found in ESCAPE.finditer(line):
            pieces.append((line[start : found.start()], look))
            start = found.end()
            if found[2] == "m":
                look = changed(look, found[1])
        pieces.append((line[start:], look))
        yield [piece for piece in pieces if piece[0]]


def width(text: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def draw_line(pieces: list[tuple[str, Look]], y: float) -> str:
    """Return a line as SVG; each piece has a place and a length, so any font keeps the columns."""
    spans, column = [], 0
    for text, look in pieces:
        wide = width(text)
        if text.strip():
            weight = ' font-weight="bold"' if look.bold else ""
            spans.append(
                f'<tspan x="{MARGIN + column * CELL:.1f}" textLength="{wide * CELL:.1f}"'
                f' fill="{look.fill}"{weight}>{escape(text)}</tspan>'
            )
        column += wide
    # Spaces count. Each text needs the attribute: browsers do not inherit it.
    return f'<text y="{y:g}" xml:space="preserve">{"".join(spans)}</text>' if spans else ""


def draw(text: str, title: str) -> str:
    lines = list(runs(text))
    columns = max(COLUMNS_MIN, *(sum(width(piece) for piece, _ in line) for line in lines))
    wide, high = round(columns * CELL + 2 * MARGIN), BAR + LINE * len(lines) + MARGIN
    body = [draw_line(line, BAR + LINE * (number + 1)) for number, line in enumerate(lines)]
    return "\n".join([*frame(wide, high, title), *filter(None, body), "</g></svg>", ""])


def frame(wide: int, high: int, title: str) -> Iterator[str]:
    """Yield the window, up to the beginning of the text."""
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}"'
        f' height="{high}" role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">'
    )
    rest = f'width="{wide - 1}" height="{high - 1}" rx="10"'
    yield f'<rect x=".5" y=".5" {rest} fill="{BACKGROUND}" stroke="{EDGE}"/>'
    bar = f"M1 32V11A10 10 0 0 1 11 1H{wide - 11}a10 10 0 0 1 10 10V32Z"
    yield f'<path d="{bar}" fill="{BAR_COLOUR}"/>'
    for number, colour in enumerate(DOTS):
        yield f'<circle cx="{20 + 20 * number}" cy="16.5" r="6" fill="{colour}"/>'
    yield f'<g font-family="{FAMILY}" font-size="{FONT}">'
    place = f'x="{wide / 2:g}" y="21" font-size="13" text-anchor="middle"'
    yield f'<text {place} fill="{FAINT}">{escape(title)}</text>'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", required=True, type=Path, metavar="FILE")
    parser.add_argument("--title", help="default: the command")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    given = parser.parse_args()
    done = subprocess.run(given.command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"No picture: the command ended with {done.returncode}.", file=sys.stderr)
        return 1
    title = given.title or " ".join(given.command)
    given.output.write_text(draw(done.stdout.rstrip(), title), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
