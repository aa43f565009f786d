"""The way back from a changed text to its original, without a whole copy of the original."""

from collections.abc import Sequence
from typing import Any

# The start and the end of the changed part, and the original text of that part.
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
