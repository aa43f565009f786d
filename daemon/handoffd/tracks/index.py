"""index.md: the log of a track's records, one escaped row per record. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from handoffd.session.text import keep
from handoffd.tracks import front_matter
from handoffd.tracks.record import GENERAL, utc

COLUMNS = ("Timestamp", "Trigger", "Bead", "Summary", "File")
ARCHIVED = "Archived"
ARCHIVE = "archive/"
_GENERAL_LINE = "Handoffs for work outside of specific tracks."
_CELL_MAX = 120
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HEADER = re.compile(r"\|\s*Timestamp\s*\|")
_LINK = re.compile(r"\]\( ?<?(?:\./)?([^()<>]+?\.md)>? ?\)")
_PIPE = re.compile(r"(\\*)\|")
_BETWEEN = re.compile(r"(?<!\\)\|")
_UPDATED = re.compile(r"last_updated:[^\r\n]*")
_CREATED = re.compile(r"created:[ \t]*(\S[^\r\n]*)")


class Row(NamedTuple):
    """`file` is relative to the index: `x.md`, or `archive/x.md`."""

    timestamp: str
    trigger: str
    bead: str
    summary: str
    file: str


def files_of(text: str) -> set[str]:
    """Return the files that have a row, relative to the index."""
    lines = _LINE.findall(text)
    return {file for number in _table(lines) if (file := _file_of(lines[number]))}


def is_sound(text: str | None) -> bool:
    """Return True if rows can be added to an index; otherwise it has to be rebuilt."""
    return bool(_table(_LINE.findall(text or "")))


def with_rows(text: str | None, track_id: str, rows: Sequence[Row], now: str) -> tuple[str, bool]:
    """Return an index that has each of these rows once, and whether it had to be repaired.

    `rows` are all records on disk, oldest first. A record that has a row already keeps that row.
    """
    if text is None or not is_sound(text):
        new = not (text or "").strip() and len(rows) <= 1
        return _rebuilt(text or "", track_id, rows, now), not new
    # A record that was moved to the archive already has its row.
    known = {_base(file) for file in files_of(text)}
    missing = [row for row in rows if _base(row.file) not in known]
    return (_added(text, missing, now) if missing else text), False


def _base(file: str) -> str:
    return file.rsplit("/", 1)[-1]


def _file_of(line: str) -> str:
    """Return the file of a row: its last link, since a summary may hold links, too."""
    links = _LINK.findall(line)
    return unquote(links[-1]) if links else ""


def _table(lines: Sequence[str]) -> range:
    """Return the line numbers of the table; none if it lacks a column for the file."""
    for start, line in enumerate(lines):
        if _HEADER.match(line) and "file" in _columns(line):
            end = start + 1
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            return range(start, end)
    return range(0)


def _columns(header: str) -> list[str]:
    cells = _BETWEEN.split(header.strip().removeprefix("|").removesuffix("|"))
    return [cell.strip().casefold() for cell in cells]


# Adding


def _added(text: str, rows: Sequence[Row], now: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = _LINE.findall(text)
    table = _table(lines)
    last = lines[table[-1]]
    if not last.endswith("\n"):
        lines[table[-1]] = last + newline
    columns = _columns(lines[table[0]])
    lines[table.stop : table.stop] = [_line(row, columns) + newline for row in rows]
    _update(lines, now, newline)
    return "".join(lines)


def _update(lines: list[str], now: str, newline: str) -> None:
    """Set `last_updated`, if the index has front matter."""
    end = _front_end(lines)
    for number in range(1, end):
        if _UPDATED.match(lines[number]):
            lines[number] = _UPDATED.sub(lambda _: f"last_updated: {now}", lines[number])
            return
    if end:
        lines.insert(end, f"last_updated: {now}{newline}")


def _front_end(lines: Sequence[str]) -> int:
    """Return the number of the line that ends the front matter; 0 without front matter."""
    if not lines or lines[0].removeprefix("\ufeff").rstrip() != "---":
        return 0
    return next((n for n, line in enumerate(lines) if n and line.rstrip() == "---"), 0)


def _line(row: Row, columns: Sequence[str]) -> str:
    archived = row.file.startswith(ARCHIVE)
    moment = utc(row.timestamp)
    cells = {
        "timestamp": moment[:-1].replace("T", " ") if moment else _cell(row.timestamp),
        "trigger": _cell(row.trigger),
        "bead": _cell(row.bead),
        "summary": _cell(row.summary),
        "file": f"[→](./{quote(row.file.encode('utf-8', 'surrogateescape'), safe='/')})",
        ARCHIVED.casefold(): "✅" if archived else "-",
    }
    return f"| {' | '.join(cells.get(name, '-') for name in columns)} |"


def _cell(text: str) -> str:
    """Return a text that stays in its cell: backslashes before a pipe must not unescape it."""
    return _PIPE.sub(r"\1\1\\|", keep(text, _CELL_MAX)) or "-"


# Repairing


def _rebuilt(text: str, track_id: str, rows: Sequence[Row], now: str) -> str:
    lines = _LINE.findall(text)
    general = track_id == GENERAL
    title = "General" if general else front_matter.one_line(track_id)
    columns = [*COLUMNS, ARCHIVED] if any(r.file.startswith(ARCHIVE) for r in rows) else COLUMNS
    parts = [
        "---",
        f"track_id: {front_matter.scalar(track_id)}",
        f"created: {_created(lines) or now}",
        f"last_updated: {now}",
        "---",
        "",
        f"# Handoff Log: {title}",
        "",
        *([_GENERAL_LINE, ""] if general else []),
        f"| {' | '.join(columns)} |",
        f"|{'|'.join('-' * (len(name) + 2) for name in columns)}|",
        *(_line(row, [name.casefold() for name in columns]) for row in rows),
    ]
    persons = "".join(_persons_lines(lines)).strip("\r\n")
    newline = "\r\n" if "\r\n" in text else "\n"
    made = newline.join(parts) + newline
    return f"{made}{newline}{persons}{newline}" if persons else made


def _created(lines: Sequence[str]) -> str:
    found = (_CREATED.match(line) for line in lines[1 : _front_end(lines)])
    return next((front_matter.scalar(match[1].strip("'\" ")) for match in found if match), "")


def _persons_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yield a person's lines: no front matter, no heading of ours, no log of records."""
    end = _front_end(lines)
    body = lines[end + 1 :] if end else lines
    number = 0
    while number < len(body):
        start = number
        while number < len(body) and body[number].lstrip("\ufeff").startswith("|"):
            number += 1
        block = body[start:number]
        if block and not _is_log(block):
            yield from block
        if not block:
            if not _is_ours(body[number]):
                yield body[number]
            number += 1


def _is_log(block: Sequence[str]) -> bool:
    return any(_LINK.search(line) for line in block) or bool(_HEADER.match(block[0]))


def _is_ours(line: str) -> bool:
    said = line.lstrip("\ufeff").strip()
    return said.startswith("# Handoff Log:") or said == _GENERAL_LINE
