"""Bytes of a transcript line to records. Pure, and never raises: the format is not ours."""

import json
import re
from dataclasses import dataclass
from typing import Any

_decoder = json.JSONDecoder(strict=False)
_BLANK = "\x00 \t\r\n"
_blanks = re.compile(f"[{_BLANK}]*")
_RECOVERY_TRIES = 50


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object of a transcript and where it starts."""

    offset: int
    data: dict[str, Any]

    def text(self, key: str) -> str:
        """Return a string field, or an empty string if it is missing or of another type."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    @property
    def cwd(self) -> str:
        """The directory, if it can be one."""
        found = self.text("cwd")
        return found if found.startswith("/") and "\0" not in found else ""

    def flag(self, key: str) -> bool:
        return self.data.get(key) is True

    def mapping(self, key: str) -> dict[str, Any]:
        value = self.data.get(key)
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Parsed:
    """The records of one line, and whether some of it could not be read."""

    records: tuple[Record, ...]
    damaged: bool = False


def parse_line(offset: int, line: bytes) -> Parsed:
    """Read a line, also one with NUL runs or with objects glued together (`}{`)."""
    text = line.decode("utf-8", "surrogateescape").strip(_BLANK)
    if not text:
        return Parsed((), damaged=b"\x00" in line)
    offset += len(line) - len(line.lstrip(_BLANK.encode()))
    records: list[Record] = []
    position, counted, damaged = 0, 0, False
    while position < len(text):
        value, end = _decode(text, position)
        if value is None:
            damaged = True
            position, value, end = _recover(text, position)
        if value is None:
            break
        offset += len(text[counted:position].encode("utf-8", "surrogateescape"))
        counted = position
        records.append(Record(offset, value))
        position = _blanks.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
    return Parsed(tuple(records), damaged)


def _decode(text: str, position: int) -> tuple[dict[str, Any] | None, int]:
    try:
        value, end = _decoder.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None, position
    return (value, end) if isinstance(value, dict) else (None, position)


def _recover(text: str, position: int) -> tuple[int, dict[str, Any] | None, int]:
    """Find the record that was appended to a killed writer's half line: it ends the line."""
    for _ in range(_RECOVERY_TRIES):
        position = text.find('{"', position + 1)
        if position < 0:
            break
        value, end = _decode(text, position)
        if value is not None and end == len(text) and isinstance(value.get("type"), str):
            return position, value, end
    return position, None, position
