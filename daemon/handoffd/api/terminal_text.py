"""Lay out text for a terminal: widths, tables, ages. The daemon renders, the client prints."""

import unicodedata
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, Field

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


class Style(BaseModel):
    """The abilities of the client's terminal."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: int = Field(default=80, ge=20, le=1000)
    colour: bool = False
    as_json: bool = Field(default=False, alias="json")

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text


def width(text: str) -> int:
    """Return the number of columns of a text; wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def fit(text: str, columns: int) -> str:
    """Return a text cut to a number of columns, with an ellipsis if it was cut."""
    if width(text) <= columns:
        return text
    kept: list[str] = []
    room = columns - 1
    for character in text:
        room -= width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + "…"


def table(rows: Iterable[Sequence[str]], columns: int) -> list[str]:
    """Return the lines of a table; the last column takes the rest of the line."""
    rows = [tuple(row) for row in rows]
    if not rows:
        return []
    widths = [max(width(row[index]) for row in rows) for index in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        head = "".join(
            cell + " " * (wide - width(cell) + 2)
            for cell, wide in zip(row[:-1], widths, strict=True)
        )
        lines.append(fit(head + row[-1], columns).rstrip())
    return lines


def wrap(label: str, text: str, columns: int, indent: int = 12) -> list[str]:
    """Return the lines of a labelled paragraph with a hanging indent."""
    lines: list[str] = []
    line, empty = label.ljust(indent), True
    for word in text.split():
        if not empty and width(line) + 1 + width(word) > columns:
            lines.append(line)
            line, empty = " " * indent, True
        line += word if empty else f" {word}"
        empty = False
    lines.append(line.rstrip())
    return [fit(each, columns) for each in lines]


def age(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.0f} h"
    return f"{seconds / _DAY:.0f} days"


def size(octets: float) -> str:
    for unit in ("B", "KB", "MB"):
        if octets < 1000:  # noqa: PLR2004
            return f"{octets:.0f} {unit}"
        octets /= 1000
    return f"{octets:.1f} GB"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shorten_path(path: str, home: str) -> str:
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path
