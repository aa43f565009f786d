"""Reads conductor/tracks.md, the list of all tracks with their marks. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from handoffd.session.text import keep
from handoffd.tracks.markdown import lines_of, marked

OPEN, BEGUN, DONE = " ", "~", "x"
_TITLE_MAX = 300
_ENTRY = re.compile(r"\s*(?:#{1,6}|[-*+]|\d{1,4}[.)])\s+\[(?P<box>[ xX~!-])\]\s*(?P<title>.*)")
_END = re.compile(r"\s*(?:---+|\*\*\*+|#{1,6}\s.*)\s*")
_LINK = re.compile(r"\btracks/(?P<id>[^/()\[\]\s]+)")
_LABEL = re.compile(r"(?i)\**track\**\s*:\**\s*")
_WORD = re.compile(r"[\w.-]+")


class TrackMark(NamedTuple):
    """The entry of a track: its check box, its description and its place in the list."""

    box: str = ""
    title: str = ""
    position: int = 0


def read_marks(text: str, ids: Collection[str]) -> Mapping[str, TrackMark]:
    """Return the entries of tracks.md by track: the one that it links to, or else names."""
    found: dict[str, TrackMark] = {}
    for position, (box, lines) in enumerate(_entries(text)):
        if track_id := _track_of(lines, ids):
            title = keep(_LABEL.sub("", lines[0], count=1).strip("* "), _TITLE_MAX)
            found.setdefault(track_id, TrackMark(box, title, position))
    return found


def _entries(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the check box and the lines of each entry; a rule or another heading ends one."""
    box, lines = "", list[str]()
    for line, fence in marked(lines_of(text)):
        entry = None if fence else _ENTRY.fullmatch(line)
        if entry or (not fence and _END.fullmatch(line)):
            if box:
                yield box, lines
            box, lines = (entry["box"].lower(), [entry["title"]]) if entry else ("", [])
        elif box and not fence:
            lines.append(line)
    if box:
        yield box, lines


def _track_of(lines: list[str], ids: Collection[str]) -> str:
    text = "\n".join(lines)
    linked = (link["id"] for link in _LINK.finditer(text))
    named = (word.strip(".") for word in _WORD.findall(text))
    return next((word for words in (linked, named) for word in words if word in ids), "")
