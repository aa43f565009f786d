"""The text as a person reads it: without colours, invisible characters, markup and escapes.

A secret may be interrupted by invisible characters (`grep --color`, UTF-16, a soft hyphen), and its
characters may be written as escapes. So secrets are also searched in the reading, which maps each
of its characters to an offset in the text.
"""

import re
from bisect import bisect
from typing import NamedTuple

# Invisible characters: format characters, fillers, variation selectors and tags.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_SEEN = re.compile(f"[{_INVISIBLE}]")
_ASCII = bytes(range(128))
_ESC, _BACKSLASH, _LESS = b"\x1b\\<"
_ESCAPE = re.compile(rb"\\(?:u00|x)(?:[2-7]|0[9adAD])").search
_TAG = re.compile(rb"</(?:span|mark|em)>").search
# The rest of a terminal control sequence, after the escape character.
_COLOUR = (
    r"(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|[ -/]{0,4}[0-Z\\^-~])"
)
_COLOURED = re.compile(rf"\x1b{_COLOUR}")
# The pattern begins with a set of characters, so that all others are skipped quickly.
_HIDING = re.compile(
    rf"""[\x1b\0\\<{_INVISIBLE}](?:
      (?<=\x1b){_COLOUR}
    | (?<=[\0{_INVISIBLE}])(?<![^\s!-~][\0{_INVISIBLE}])[\0{_INVISIBLE}]*+(?=[\s!-~])
    | (?<=\\)\\{{0,7}}(?:u00|x)(?P<hex>[2-7][0-9a-fA-F]|0[9adAD])
    | (?<=<)/?(?:span|mark|em|wbr)\b[^<>\n]{{0,160}}>
    )""",
    re.VERBOSE,
)


class _Stretch(NamedTuple):
    """A part of the reading: its offset there and in the text, and the width of a character."""

    read_at: int
    at: int
    width: int


class Reading:
    """A text as a person reads it, with the offset of each character in the original text."""

    def __init__(self, text: str) -> None:
        parts: list[str] = []
        self._stretches: list[_Stretch] = []
        done = size = 0
        for hiding in _HIDING.finditer(text):
            start, end = hiding.span()
            char = chr(int(hiding["hex"], 16)) if hiding["hex"] else ""
            self._stretches.append(_Stretch(size, done, 1))
            self._stretches.append(_Stretch(size + start - done, start, end - start))
            parts += text[done:start], char
            size += start - done + len(char)
            done = end
        self._stretches.append(_Stretch(size, done, 1))
        self.text = "".join([*parts, text[done:]])
        # The text itself, with each character of a colour sequence replaced by a space.
        self.without_colours = _COLOURED.sub(lambda colour: " " * len(colour[0]), text)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the text for a span of the reading."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, at: int) -> tuple[int, int]:
        stretch = self._stretches[bisect(self._stretches, at, key=lambda row: row.read_at) - 1]
        start = stretch.at + at - stretch.read_at
        return start, start + stretch.width


def reading(text: str, data: bytes) -> Reading | None:
    """Return the text as a person reads it, or None if that is the text itself."""
    if _has_sign(data) or (not text.isascii() and _has_invisible(text)):
        read = Reading(text)
        return read if read.text != text else None
    return None


def _has_sign(data: bytes) -> bool:
    # Every text pays for this check; a single byte is found much faster than a pattern.
    return bool(
        _ESC in data
        or 0 in data
        or (_BACKSLASH in data and _ESCAPE(data))
        or (_LESS in data and _TAG(data))
    )


def _has_invisible(text: str) -> bool:
    # Most of a text is ASCII, and translate() removes that at the speed of a copy.
    others = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return _SEEN.search(others.decode("utf-8", "surrogatepass")) is not None
