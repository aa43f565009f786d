"""Finds the few places of a text where a secret could be, at the speed of memchr().

Every hint (an opening of `kinds.py`, a word such as "password") is searched at one of its
characters, its anchor. Anchors are rare, and a pattern that begins with a character is tried only
where that character is. A text without hints costs only a few scans.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from handoffd.redaction.key_material import MATERIAL
from handoffd.redaction.kinds import SHAPES, TOKENS, WORDS, Token, TokenShape
from handoffd.redaction.private_keys import HINTS

# The anchor of a hint is the first of these characters that it contains. A small letter is searched
# in the lower-case text, so that a word is found in any case.
_ANCHORS = "~$@!&JAKGz_-.kwbcph"
SEPARATORS = "-._"
_ENDING = 4  # the last characters of an opening, by which it is looked up
_AHEAD = 12  # the minimum of token characters after a separator
_ALSO = {"-": "", ".": ".", "_": "+/"}  # these may be among them
# The start of a token: no letter or digit before it, unless that is part of an escape.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
# The text from a name to a sign: a frequent name is examined only if this follows.
_SIGNED = (
    r"(?=[\w.-]{0,24}[\s\"'`\\\])]{0,24}\d{0,2}"
    r"(?:[=:,>?|!{]|-\s[\"'`]|[.+]=|is\b|ist\b|%3d|string\b|str\b|value|[\w+/-]{20}))"
)
# The text after a name that is frequent in prose: a sign or a gap, and a possibly random value.
_VALUED = r"(?=[\s=:\"'`\\-]{1,6}[\w+/-]{16})"
# anchor -> the text around it, for the words that `assignments.py` and `carriers.py` examine.
_NAMES = {
    "k": (rf"en(?<=oken)(?!s\b){_SIGNED}", rf"ey(?!s\b|board){_SIGNED}", r"ie(?<=ookie)"),
    "w": (r"[odp](?<=assw.)", r"d(?<=pwd)", r"ort(?<=kennwort)", r"oord(?<=wachtwoord)"),
    "c": (
        r"ret(?<=secret)",
        r"red(?=ential)",
        rf"cess(?<=access){_VALUED}",
        r"ontrase[?n]?a",
        r":(?<=mnemonic:)",
        r"=(?<=mnemonic=)",
        r"\"(?<=mnemonic\")",
    ),
    "p": (
        rf"rivate{_VALUED}",
        r"asse(?<=mot de passe)",
        r"ass:(?<=[\s'\"]pass:)(?=\S)",
        r"hrase(?<=seed.phrase)",
        r"hrase(?<=recovery.phrase)",
        r"hrase(?<=mnemonic.phrase)",
        r"ass(?:phrase|code)(?=[\w.-]{0,24}[\s\"'`\\\])]{0,24}[=:])",
        r"ass(?<=[_-]pass)(?=[\w\"'\\\]]{0,8}\s{0,3}[=:])",
        r"ass(?<![a-z]pass)(?=[\"'\\]{0,4}\s{0,3}(?:=|:=|[\"'\\]{1,3}\s{0,2}:))",
    ),
    "-": (
        r"[upaPw](?<![\w-]-.)",
        r"-(?<![\w-]--)(?=user[\s=]|[\w-]{0,24}(?:token|key)\s)",
        r"us(?=\d\d?\b)(?<=[a-f0-9]{8}-us)",
    ),
    "@": (r"(?=[\w\[%.-])",),
    "z": (r"ation(?<=uthorization)",),
    "h": (r"a(?<=senha)(?=\W)",),
    "%": (r"3[Dd]",),
    "5": (r"432:(?<=:5432:)(?=[^\s:]{1,64}:[^\s:]{1,64}:\S)",),
}


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern at its first use: few kinds are ever seen."""
    return re.compile(pattern, re.ASCII)


class Opening(NamedTuple):
    """A pattern, and how many characters before the spot it begins."""

    back: int
    kind: str
    pattern: str


class Middle(NamedTuple):
    """A pattern for a token around the spot: `ahead` is tried first, then each start in `back`."""

    offset: int
    kind: str
    ahead: str
    back: range
    pattern: str


class _Scan(NamedTuple):
    anchor: int  # an int is found in bytes ten times as fast as a byte string is
    small: bool
    search: Callable[[bytes, int], re.Match[bytes] | None]


def as_bytes(text: str) -> bytes:
    """Return the text with one byte per character, so that offsets in both are the same."""
    return text.encode("ascii", "replace")


class SearchTable:
    """The places to examine and the patterns to try there, built once from the tables."""

    def __init__(self) -> None:
        self.endings: dict[str, list[Opening]] = {}
        self.openings: dict[bytes, list[Opening]] = {}
        self.middles: dict[bytes, list[Middle]] = {}
        self._hints = {anchor: list(patterns) for anchor, patterns in _NAMES.items()}
        # A longer hint is tried first, since it is inserted at the front last.
        for kind, opening, rest in sorted(_each_opening(TOKENS), key=lambda row: len(row[1])):
            self._add_token(kind, opening, rest)
        for kind, opening, rest in _each_opening(WORDS):
            self._add_opening(kind, opening, f"(?i:{re.escape(opening)}){rest}", "")
        for shape in SHAPES:
            self._add_shape(shape)
        for hint in (*HINTS, *MATERIAL):
            behind = f"(?<={hint.before}{re.escape(hint.seen)})" if hint.before else ""
            pattern = f"{re.escape(hint.seen[1:])}{behind}(?={hint.ahead})"
            self._hints.setdefault(hint.seen[0], []).insert(0, pattern)
        for separator in SEPARATORS:
            self._hints.setdefault(separator, []).append(self._ending(separator))
        self._scans = [_scan(anchor, self._hints[anchor]) for anchor in self._hints]

    def _add_token(self, kind: str, opening: str, rest: str) -> None:
        pattern = re.escape(opening) + rest
        if opening[-1] in SEPARATORS:
            at = Opening(len(opening) - 1, kind, _START + pattern)
            self.endings.setdefault(opening[-_ENDING:], []).append(at)
        else:
            # An unbounded pattern is not a lookahead, or each place would read the whole text.
            self._add_opening(kind, opening, pattern, r"[\S ]{8}" if ",}" in rest else rest)

    def _add_opening(self, kind: str, opening: str, pattern: str, ahead: str) -> None:
        seen, offset = self._add_hint(opening, ahead)
        start = _START if opening[0].isalnum() else ""
        self.openings.setdefault(seen, []).append(Opening(offset, kind, start + pattern))

    def _add_hint(self, hint: str, ahead: str) -> tuple[bytes, int]:
        """Add a hint at its anchor; return the matched text, and the offset of the anchor."""
        anchor = next(char for char in _ANCHORS if char in hint)
        if anchor.islower():
            hint, ahead = hint.lower(), ""
        before, _, after = hint.partition(anchor)
        behind = f"(?<={re.escape(hint)})" if before else ""
        pattern = re.escape(after) + behind + (f"(?={ahead})" if ahead else "")
        self._hints.setdefault(anchor, []).insert(0, pattern)
        return (anchor + after).encode(), len(before)

    def _add_shape(self, shape: TokenShape) -> None:
        if shape.hint in SEPARATORS:
            # One more character is matched, so that it is not mistaken for an ending.
            self._hints.setdefault(shape.hint, []).insert(0, rf"(?={shape.ahead})[\w-]")
            seen, offset = shape.hint.encode(), 0
        else:
            seen, offset = self._add_hint(shape.hint, shape.ahead)
        ahead = re.escape(shape.hint) + shape.ahead
        middle = Middle(offset, shape.kind, ahead, shape.back, _START + shape.pattern)
        self.middles.setdefault(seen, []).append(middle)

    def _ending(self, separator: str) -> str:
        """Return a pattern for the end of any opening that ends in this separator."""
        firsts: dict[str, set[str]] = {}
        for end in sorted(self.endings):
            if end[-1] == separator:
                firsts.setdefault(end[-2], set()).add(re.escape(end[-3]))
        pairs: dict[str, str] = {}
        for second, before in firsts.items():
            pairs["".join(sorted(before))] = pairs.get("".join(sorted(before)), "") + re.escape(
                second
            )
        behind = "|".join(f"[{before}][{seconds}]" for before, seconds in pairs.items())
        return rf"(?=[\w{_ALSO[separator]}-]{{{_AHEAD}}})(?<=(?:{behind}).)"

    def spots(self, text: str, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the matched hint and the offset of each place to examine."""
        small = data.lower()
        endings = self.endings
        for anchor, in_small, search in self._scans:
            where = small if in_small else data
            if anchor in where:
                spot = search(where, 0)
                while spot:
                    at = spot.start()
                    # Most separators do not end an opening; checking that here costs least.
                    if (
                        anchor not in _ENDS
                        or text[at - 3 : at + 1] in endings
                        or text[at - 2 : at + 1] in endings
                        or spot.end() - at > 1
                    ):
                        yield spot[0], at
                    spot = search(where, spot.end())

    def openings_ending_at(self, text: str, at: int) -> list[Opening] | None:
        """Return the openings whose last character may be the one at `at`, if any."""
        ending = text[max(at - _ENDING + 1, 0) : at + 1]
        return self.endings.get(ending) or self.endings.get(ending[1:])


_ENDS = SEPARATORS.encode()


def _each_opening(rows: Iterable[Token]) -> Iterator[tuple[str, str, str]]:
    for row in rows:
        for opening in row.openings.split():
            yield row.kind, opening.replace("·", " "), row.rest


def _scan(anchor: str, hints: list[str]) -> _Scan:
    pattern = re.compile(f"{re.escape(anchor)}(?:{'|'.join(hints)})".encode())
    return _Scan(ord(anchor), anchor.islower(), pattern.search)
