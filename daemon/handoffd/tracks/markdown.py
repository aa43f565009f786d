"""Finds the code fences in markdown. Pure."""

import re
from collections.abc import Iterable, Iterator

_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<info>[^\r\n]*)")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, for all line endings, without a byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def marked(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each line with the mark of the fence that it opens, is in or closes; "" outside."""
    mark = ""
    for line in lines:
        before, mark = mark, mark_after(line, mark)
        yield line, before or mark


def mark_after(line: str, mark: str) -> str:
    """Return the mark of the fence that is open after a line, given the one before it."""
    found = _FENCE.match(line)
    if not found:
        return mark
    if not mark:
        # Inline code in any number of backticks is no fence.
        inline = found["mark"][0] == "`" and "`" in found["info"]
        return "" if inline else found["mark"]
    closes = found["mark"].startswith(mark) and not found["info"].strip()
    return "" if closes else mark


def info_of(line: str) -> str:
    """Return the info string of an opening fence, which names the language."""
    found = _FENCE.match(line)
    return found["info"].strip().lower() if found else ""


def stripped(lines: list[str]) -> list[str]:
    """Return lines without the blank ones at both ends."""
    said = [number for number, line in enumerate(lines) if line.strip()]
    return lines[said[0] : said[-1] + 1] if said else []
