"""How to get from a text back to the one it was made from, without a copy of that one."""

from collections.abc import Sequence
from typing import Any

# From where to where something else stood, and what.
Reversal = Sequence[Any]


def reversal(after: str, before: str) -> Reversal:
    start = _shared(after, before)
    tail = _shared(after[start:][::-1], before[start:][::-1])
    return start, len(after) - tail, before[start : len(before) - tail]


def _shared(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def undo(after: str, known: Reversal) -> str:
    start, end, before = known
    return f"{after[:start]}{before}{after[end:]}"
