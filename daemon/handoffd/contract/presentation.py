"""Presents the handoffs of earlier sessions to the next one, in at most 2 KB. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from handoff.common.plain_text import PlainText, plain_line
from handoffd.contract.contract_format import ESCALATION, Contract
from handoffd.session import frame
from handoffd.session.text import keep, shorten

OPENED_MAX_BYTES = 2000
NOTHING = PlainText("This project has no handoff yet.\n")
# An unread handoff is mentioned for this long.
UNREAD_SECONDS = 7 * 24 * 3600.0
_SHOWN = (("Did", "Done", 3), ("Next", "Next", 3), ("Watch out", "Gotchas", 2))
_RISKS = 2
_MENTIONED = 3
_CALLS = 3
_LINE_MAX = 160
_PATH_MAX = 400
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


class HandoffOnDisk(Protocol):
    """A handoff on disk (see contract.handoff_directory.Handoff)."""

    @property
    def path(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def stamp(self) -> str: ...
    @property
    def contract(self) -> Contract: ...


def age(seconds: float) -> str:
    """Return an age in words, in the form of the contract's first reader."""
    if seconds < 2 * _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f}m ago"
    if seconds < _DAY:
        return f"{seconds // _HOUR:.0f}h ago"
    return "yesterday" if seconds < 2 * _DAY else f"{seconds // _DAY:.0f}d ago"


def listed(
    found: Iterable[HandoffOnDisk], marks: Mapping[str, str], now: float
) -> list[dict[str, Any]]:
    """Return descriptions of handoffs, and for each whether its present version was read."""
    return [
        {
            "path": handoff.path,
            "age_seconds": round(max(now - handoff.seconds, 0.0), 1),
            "purpose": _line(handoff.contract.gist),
            "session_id": handoff.contract.session_id,
            "date": handoff.contract.date,
            "escalations": list(handoff.contract.escalations),
            "read": marks.get(handoff.path) == handoff.stamp,
        }
        for handoff in found
    ]


def opened(newest: Contract, items: Sequence[dict[str, Any]], *, framed: bool) -> PlainText:
    """Return the text for the next session; `items` are the handoffs it mentions, newest first."""
    first = items[0]
    mark = frame.opening(handoff=first["path"])
    reasons = first["escalations"][:_CALLS]
    calls: list[str] = [frame.call_line(f"{ESCALATION}:", _line(reason)) for reason in reasons]
    head = [f"Last session ({age(first['age_seconds'])}): {first['purpose'] or '(no purpose)'}"]
    path = [f"Handoff: {_line(first['path'], _PATH_MAX)}"]
    # These parts are cut if the text is too long: the last line of the longest part first.
    parts = [calls, _sections(newest), _unread(items[1:])]
    while True:
        lines = [*parts[0], *head, *parts[1], *path, *parts[2]]
        text = frame.framed(mark, [frame.RECORD, *lines]) if framed else _unframed(lines)
        longest = max(parts, key=len)
        if len(text.encode()) <= OPENED_MAX_BYTES or not longest:
            return text
        del longest[-1]


def _unframed(lines: list[str]) -> PlainText:
    return PlainText("\n".join([*map(plain_line, lines), ""]))


def _sections(newest: Contract) -> list[str]:
    lines: list[str] = []
    for title, name, most in _SHOWN:
        items = newest.items(name, most)
        if name == "Gotchas":
            items += newest.items("Risks", _RISKS)
        if items:
            lines += [f"  {title}:", *(f"    {_line(item)}" for item in items)]
    if not lines:
        lines = [f"    {_line(item)}" for item in newest.fallback]
    return lines


def mentioned(items: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the handoffs to mention, the newest and some unread ones, and how many more."""
    unread = [item for item in items[1:] if is_unread(item)]
    return [*items[:1], *unread[:_MENTIONED]], max(len(unread) - _MENTIONED, 0)


def _unread(items: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines about the unread handoffs of other sessions."""
    lines = [
        f"  {age(item['age_seconds'])}: {shorten(item['purpose'] or '(no purpose)', 80)}"
        f" ({_line(item['path'], _PATH_MAX)})"
        for item in items
    ]
    return ["Also unread (all of them: handoff list):", *lines] if lines else []


def is_unread(item: Mapping[str, Any]) -> bool:
    return not item["read"] and item["age_seconds"] < UNREAD_SECONDS


def _line(text: str, limit: int = _LINE_MAX) -> str:
    """Return a text as one bounded line; the frame makes it harmless."""
    line = keep(text, limit)
    while len(line.encode()) > 2 * limit:
        line = shorten(line, len(line) - 8)
    return line
