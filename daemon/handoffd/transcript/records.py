"""Bytes of a transcript line to records. Pure, and never raises: the format is not ours."""

import json
from dataclasses import dataclass
from typing import Any

_decoder = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object of a transcript and where it starts."""

    offset: int
    data: dict[str, Any]

    def text(self, key: str) -> str:
        """Return a string field, or an empty string if it is missing or of another type."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

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
    text = line.decode("utf-8", "surrogateescape").strip("\x00 \t\r\n")
    if not text:
        return Parsed((), damaged=b"\x00" in line)
    records: list[Record] = []
    position = 0
    while position < len(text):
        try:
            value, end = _decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return Parsed(tuple(records), damaged=True)
        if not isinstance(value, dict):
            return Parsed(tuple(records), damaged=True)
        start = (
            offset + len(text[:position].encode("utf-8", "surrogatepass")) if position else offset
        )
        records.append(Record(start, value))
        position = end
        while position < len(text) and text[position] in "\x00 \t\r":
            position += 1
    return Parsed(tuple(records))
