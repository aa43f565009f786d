"""Find private keys in listings: with line numbers, quoted, commented, logged, escaped, dumped.

A listing may put any text before and after the lines of a key, so these are recognised by their
content: from a mark such as `BEGIN ... PRIVATE KEY` on, each run of base64 that looks random and
lies near the previous run belongs to the key. A mark without such runs is only a mention of a key.
"""

import base64
import re
from bisect import bisect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

Found = tuple[int, int, str]

KIND = "private-key"
_RUN = re.compile(r"[A-Za-z0-9+/]{16,}+")
_RUN_CHARACTER = re.compile(r"[A-Za-z0-9+/]")
_RUN_REST = re.compile(r"[A-Za-z0-9+/=]*")
_RUN_FULL = 40
_DIGITS_LEAST = 3
_TURN = re.compile(r"[a-z](?![a-z])|[A-Z](?![A-Z])|[\d+/](?![\d+/])")
# The maximum distance of two runs: prefixes of a log, or the headers of an encrypted key, fit in
# between. White space and lines without a letter do not count.
_GAP = 600
_GAP_LINES = 6
_LINE = re.compile(r"\n[^\nA-Za-z]*[A-Za-z]")
_SPACE_MAX = 4096
_SPACE = re.compile(rf"\s{{0,{_SPACE_MAX}}}+")
_BODY_MAX = 32 << 10
_MARK = re.compile(
    r"(?:[-–—]{1,5} ?)?(?:BEGIN|(?P<end>END))[ %+][A-Z0-9 %+]{0,28}?"
    r"(?P<key>PRIVATE(?:[ +]|%20)KEY)(?:[ +]BLOCK)?[-–—]{0,5}"
    r"|[-–—]{2,5} ?(?:BEGIN|(?P<other_end>END))[ %+][A-Z0-9 %+]{1,40}[-–—]{0,5}"
    r"|(?P<mac>Private-MAC: ?[0-9a-f]{0,64})"
)
_MARK_MAX = 80


def _is_body(run: str) -> bool:
    """Return True if a run of base64 looks random, unlike a path or a name of several words."""
    if run.islower() or run.isupper():
        return False  # like hexadecimal digits
    turns = len(_TURN.findall(run))
    if turns * 9 > len(run) * 4:
        return True
    # The first line of a key may contain many zeros, which base64 encodes as the letter A.
    digits = sum(map(str.isdigit, run))
    return len(run) >= _RUN_FULL and digits >= _DIGITS_LEAST and turns * 4 > len(run)


def _few_lines(text: str, end: int, start: int) -> bool:
    """Return True if there are only a few lines between two parts of a key."""
    return len(_LINE.findall(text, end, start)) <= _GAP_LINES


def _search_limit(text: str, end: int) -> int:
    """Return the last offset after `end` where the next part of a key may begin."""
    space = _SPACE.match(text, end)
    return (space.end() if space else end) + _GAP


def _end_of_body(text: str, start: int) -> int:
    """Return the end of the body that begins at or shortly after `start`, or `start`."""
    at = end = start
    far = _search_limit(text, end)
    while end - start < _BODY_MAX and (run := _RUN.search(text, at, far)):
        at = run.end()
        if _is_body(run[0]):
            if _MARK.search(text, end, run.start()) or not _few_lines(text, end, run.start()):
                break
            end, far = at, _search_limit(text, at)
    rest = _RUN_REST.match(text, end) if end > start else None
    return rest.end() if rest else end


def _start_of_body(text: str, end: int) -> int:
    """Return the start of the body that ends at or shortly before `end`, or `end`.

    The search stops at the previous mark, so that each part of a text is read once.
    """
    start = end
    while end - start < _BODY_MAX:
        before = start
        space = max(start - _SPACE_MAX, 0)
        low = max(space + len(text[space:start].rstrip()) - _GAP, 0)
        marks = [mark.end() for mark in _MARK.finditer(text, max(low - _MARK_MAX, 0), start)]
        stop = max([low, *marks])
        for run in reversed(list(_RUN.finditer(text, stop, start))):
            if _is_body(run[0]):
                if not _few_lines(text, run.end(), start):
                    return start
                start = run.start()
        if start == before or stop > low:
            break
    return start


def _body(text: str, start: int, at: int) -> Iterator[Found]:
    """Find the body after the mark from `start` to `at`, and the mark at the end of the body."""
    end = _end_of_body(text, at)
    if end > at:
        mark = _MARK.search(text, end, _search_limit(text, end))
        closes = mark and (mark["end"] or mark["other_end"] or mark["mac"])
        if mark and closes and _few_lines(text, end, mark.start()):
            end = mark.end()
        yield start, end, KIND


def _marked(text: str, at: int) -> Iterator[Found]:
    """Find the body after or before the mark that ends with the word at `at`."""
    end = at + len("KEY")
    for mark in _MARK.finditer(text, max(at - _MARK_MAX, 0), end):
        if mark.end("key") == end:
            find = _body_before if mark["end"] else _body
            yield from find(text, mark.start(), end)


def _body_before(text: str, start: int, end: int) -> Iterator[Found]:
    """Find the body before the mark from `start` to `end`."""
    if (body := _start_of_body(text, start)) < start:
        yield body, end, KIND


def _closed(text: str, at: int) -> Iterator[Found]:
    """Find the body before the last line of a PuTTY key."""
    yield from _body_before(text, at - len("Private"), at)


_HEADER = re.compile(r"[\w-]+: ?[\w-]{0,24},?[\dA-Fa-f]{0,32}")


def _headed(text: str, at: int) -> Iterator[Found]:
    """Find the body after the header of an encrypted key or of a PuTTY key."""
    header = _HEADER.match(text, at)
    yield from _body(text, at, header.end() if header else at)


def _bare(back: int, text: str, at: int) -> Iterator[Found]:
    """Find a key without its mark, by the first bytes of its encoding."""
    start = at - back
    before = text[max(start - 2, 0) : start]
    apart = not _RUN_CHARACTER.match(before[-1:]) or before[0] == "\\"
    if apart and _RUN.match(text, start):
        yield from _body(text, start, start)


_ENCODED = re.compile(r"-{0,3}BEGIN [A-Z0-9 ]{0,24}PRIVATE KEY")


def _encoded(back: int, text: str, at: int) -> Iterator[Found]:
    """Find a key that is encoded in base64 once more, including its mark."""
    start = at - back
    encoded = re.sub(r"[^A-Za-z0-9+/]", "", text[start : start + 80])[:64]
    mark = base64.b64decode(encoded[: len(encoded) // 4 * 4]).decode("ascii", "replace")
    if _ENCODED.match(mark):
        yield start, max(_end_of_body(text, start), start + len(encoded)), KIND


# Eight bytes or more, as in the output of xxd, hexdump and od or in source code.
_DUMP = re.compile(r"(?i)(?:(?:0x|\\x)?[0-9a-f]{2}[ ,]{0,3}){8,}+|(?:[!-~]{1,2} {1,7}){8,}")
_DUMP_GAP = 120
_DUMP_TEXT = re.compile(r"[^\n]{0,20}")


def _dumped(text: str, at: int) -> Iterator[Found]:
    """Find a key in a dump, around the word KEY of one of its marks."""
    start = end = at
    while line := _DUMP.search(text, end, end + _DUMP_GAP):
        end = line.end()
    while line := _DUMP.search(text, max(start - _DUMP_GAP, 0), start):
        start = line.start()
    column = _DUMP_TEXT.match(text, end)
    if column and start < end:
        yield start, column.end(), KIND


# Lines from the middle of a key. The `base64` program and mail write lines of 76 characters.
_WIDTHS = {64, 65, 70, 71}  # the letter of an escape may precede a line
_LINE_LEAST = b"x" * min(_WIDTHS)
_AS_LINES = bytes(ord("x" if _RUN_CHARACTER.match(chr(byte)) else " ") for byte in range(256))
_ARMOUR = re.compile(r"-----(?:BEGIN|(?P<end>END)) ")
_PUBLIC = ("MII", "nMII", "AAAA")  # certificates and public keys begin like this


def find_unmarked(text: str, data: bytes) -> Iterator[Found]:
    """Yield two or more lines from the middle of a key, without either of its marks."""
    if len(data) < 2 * len(_LINE_LEAST) or _LINE_LEAST not in (data := data.translate(_AS_LINES)):
        return
    lines = [line for line in _lines(data) if line[1] - line[0] in _WIDTHS]
    marks = list(_ARMOUR.finditer(text)) if lines else []
    done = 0
    for (start, end), (next_start, next_end) in pairwise(lines):
        if start < done or end - start != next_end - next_start or next_start - end > _GAP:
            continue
        if _is_body(text[start:end]) and _is_body(text[next_start:next_end]):
            done = _end_of_body(text, start)
            hashed = text.endswith("sha384-", 0, start)
            if not (hashed or text.startswith(_PUBLIC, start) or _is_armoured(marks, start)):
                yield _start_of_body(text, start), done, KIND


def _lines(data: bytes) -> Iterator[tuple[int, int]]:
    end = 0
    while (start := data.find(_LINE_LEAST, end)) >= 0:
        end = data.find(b" ", start)
        yield start, end if end >= 0 else (end := len(data))


def _is_armoured(marks: list[re.Match[str]], at: int) -> bool:
    """Return True for the body of another object, or of a key that is found by its marks."""
    after = bisect(marks, at, key=re.Match[str].start)
    begun = after > 0 and not marks[after - 1]["end"]
    return begun or (after < len(marks) and bool(marks[after]["end"]))


class Hint(NamedTuple):
    """A text that reveals a key, and the function that finds the key there."""

    before: str  # a pattern of fixed width
    seen: str  # begins with the anchor
    ahead: str
    find: Callable[[str, int], Iterator[Found]]


_BYTE = r"[ ,\n]{0,6}(?:0x|\\x)?"
HINTS = (
    Hint("PRIVATE ", "KEY", "", _marked),
    Hint("PRIVATE%20", "KEY", "", _marked),
    Hint(r"PRIVATE\+", "KEY", "", _marked),
    Hint("Private", "-Lines", "", _headed),
    Hint("Private", "-MAC:", "", _closed),
    Hint("DE", "K-Info", "", _headed),
    # The first bytes of the encodings of PKCS 1, PKCS 8, SEC 1 and OpenSSH.
    *(
        Hint(before, seen, "", partial(_bare, width))
        for before, seen, width in (
            ("MII...IB", "AAKB", 8),
            ("MII...IB", "AAKC", 8),
            ("MII...IB", "ADANBg", 8),
            ("MIIF..B.Bgkqhki", "G9w0BBQ0w", 15),
            ("MIG.", "AgEAM", 4),
            ("MIGk", "AgEBB", 4),
            ("MIHc", "AgEBB", 4),
            ("MHcC", "AQEE", 4),
            ("MC4C", "AQAwBQYDK2Vw", 4),
            ("b3blbnnzac1rzx", "ktdje", 14),
        )
    ),
    Hint("LS1CRUd", "JTi", "", partial(_encoded, 7)),
    Hint("LU", "JFR0lOI", "", partial(_encoded, 2)),
    Hint("ls0tq", "kvhsu4g", "", partial(_encoded, 5)),
    *(Hint("4", f"b{gap}45", f"{_BYTE}59", _dumped) for gap in ("", " ", ", 0x", ",\n  0x", "\\x")),
    Hint("4", "c69", f"{_BYTE}6e{_BYTE}65{_BYTE}73", _dumped),
    Hint("4", "c 69", f"{_BYTE}6e{_BYTE}65{_BYTE}73", _dumped),
    Hint("454", "b 2d59", "", _dumped),
    Hint("4", "b20 5945", "", _dumped),
    Hint("", "K   E   Y", "", _dumped),
    Hint("", "K E Y", " -", _dumped),
)
