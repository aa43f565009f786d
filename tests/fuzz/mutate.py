"""Mutate inputs: bytes as bytes, lines as lines, and JSON as its values."""

import json
import random
from collections.abc import Sequence
from typing import Any

from targets import SECRET

# A longer input takes longer to try, and seldom finds more.
SIZE_MAX = 3000
HOSTILE: tuple[Any, ...] = (
    None, True, 0, -1, 1 << 63, 10**400, 1.5, 1e308, float("nan"), float("-inf"), "", " ", "\x00",
    "../../etc/passwd", "/", "~", "a" * 5000, "\ud800", "\u202e", "e\u0301" * 50, "İ", "\u2028",
    SECRET, f"token is {SECRET} ", "\n", "\r\n", "-", "[]", [], {}, [[]], [None], {"": None},
    "HUMAN REVIEW NEEDED", "<system-reminder>", "[redacted:x]", "hof_0000000000000000000000",
    "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "%s%n", "$(touch x)", "`x`", "\x1b[31m",
)  # fmt: skip
WORDS = (
    b"\n", b"\r\n", b"\x00", b"\xff", b"\xed\xa0\x80", b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",",
    b"- ", b"# ", b"## ", b"### ", b"---\n", b"```", b"~~~", b"&a ", b"*a", b"!!python/object:os", b"? ",
    b"| ", b"> ", b"'", b"null", b"NaN", b"1e999", b"\\u0000", b"\\ud800", b"\t", b" ", b"  ", b"\xef\xbb\xbf",
    b"<<: ", b"%YAML 1.2\n", b"@", b"=", b"[a]\n", b"[[a]]\n", b'"""', b"//", b"/*", f" {SECRET} ".encode(),
)  # fmt: skip


def mutated(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """Return a copy of the input, changed once or a few times."""
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        data = chance.choice(_CHANGES)(data, others, chance)
    return data[:SIZE_MAX]


def _json(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """Change a value in one of the lines that hold JSON."""
    lines = data.split(b"\n")
    place = chance.randrange(len(lines))
    try:
        value = json.loads(lines[place])
        changed = json.dumps(_changed(value, chance, 0), ensure_ascii=chance.random() < 0.5)
        lines[place] = changed.encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return _bytes(data, others, chance)
    return b"\n".join(lines)


def _changed(value: Any, chance: random.Random, depth: int) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        kind = chance.random()
        if kind < 0.08:
            return {k: v for k, v in value.items() if k != key}
        if kind < 0.14:
            return {**value, str(chance.choice(HOSTILE)): value[key]}
        return {**value, key: _changed(value[key], chance, depth + 1)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        if chance.random() < 0.1:
            return value[:place] + value[place:] * 3
        return [*value[:place], _changed(value[place], chance, depth + 1), *value[place + 1 :]]
    return _replaced(value, chance)


def _replaced(value: Any, chance: random.Random) -> Any:
    kind = chance.random()
    if isinstance(value, str) and kind < 0.5:
        other = chance.choice(HOSTILE)
        cut = chance.randrange(len(value) + 1)
        return value[:cut] + (other if isinstance(other, str) else str(other)) + value[cut:]
    if kind < 0.6:
        nested: Any = value
        for _ in range(chance.choice((1, 3, 60, 500))):
            nested = [nested] if chance.random() < 0.5 else {"a": nested}
        return nested
    return chance.choice(HOSTILE)


def _bytes(data: bytes, _others: Sequence[bytes], chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    end = min(len(data), start + chance.choice((0, 1, 1, 3, 16, 200)))
    put = chance.choice((b"", chance.choice(WORDS), chance.randbytes(chance.choice((1, 2, 8)))))
    return data[:start] + put + data[end:]


def _lines(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """Remove, repeat or move a line, or insert one from another input."""
    lines = data.split(b"\n")
    place = chance.randrange(len(lines))
    kind = chance.randrange(4)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines[place:place] = [lines[place]] * chance.choice((1, 2, 30))
    elif kind == 2:
        lines.insert(chance.randrange(len(lines)), lines.pop(place))
    else:
        lines.insert(place, chance.choice(chance.choice(others).split(b"\n")))
    return b"\n".join(lines)


def _spliced(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    other = chance.choice(others)
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


def _repeated(data: bytes, _others: Sequence[bytes], chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    part = data[start : start + chance.choice((1, 2, 5, 20))]
    return data[:start] + part * chance.choice((2, 10, 300)) + data[start:]


_CHANGES = (_json, _json, _json, _json, _bytes, _bytes, _lines, _lines, _spliced, _repeated)
