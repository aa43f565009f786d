"""Tells what looks drawn by lot from words, paths, numbers and names."""

import math
import re
import string
from collections import Counter

_UUID = re.compile(r"[0-9a-zA-Z]{8}(?:-[0-9a-zA-Z]{4}){3}-[0-9a-zA-Z]{12}")
_PATH = re.compile(
    r"(?:\.{0,2}/|~/|[A-Za-z]:\\|[\w.-]+/)[\w./@ -]*|[\w/-]+\.(?:\w{2,4}|toml|lock)", re.ASCII
)
_CHAIN = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+", re.ASCII)
_WORDY = re.compile(r"[A-Za-z](?:[\s_./:@#-]?+(?:[A-Z]?+[a-z]++|[A-Z]++|\d{1,4}+(?!\d)))*+")
_CONSONANTS = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{6}")
_CHANGE = re.compile(r"\d(?=[A-Za-z])|[A-Za-z](?=\d)")
_TURN = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|\d(?=[A-Za-z])")
# A stretch with capitals, small letters and digits, as no directory is called.
_DENSE = re.compile(
    r"(?=[a-z\d+]{0,24}[A-Z])(?=[A-Z\d+]{0,24}[a-z])(?=[A-Za-z+]{0,24}\d)[A-Za-z0-9+]{10}"
)
# Bits a character: what is drawn has more than this, a run of the same or of a few has less.
_BITS, _LETTER_BITS = 1.9, 3.3
LONG = 16


def is_uuid(value: str) -> bool:
    return _UUID.fullmatch(value) is not None


def is_path(value: str) -> bool:
    return _PATH.fullmatch(value) is not None


def drawn(value: str, least: int) -> bool:
    """Return True if a value has at least that length and looks drawn by lot."""
    path = is_path(value) and not _DENSE.search(value)
    if len(value) < least or value.isdigit() or " " in value or path:
        return False
    if is_uuid(value):
        return least < LONG
    if value.startswith("django-insecure-"):
        return True
    digits = sum(map(value.count, string.digits))
    if not digits:
        return len(value) >= LONG and bool(_CONSONANTS.search(value)) and bits(value) > _LETTER_BITS
    wordy = _CHAIN.fullmatch(value) and digits * 8 < len(value)
    if wordy or (_WORDY.fullmatch(value) and not _scattered(value)):
        return False
    return bits(value) > _BITS


def _scattered(value: str) -> bool:
    """Return True if digits and letters change places often, unlike in "item-2024-v2"."""
    if len(value) > LONG and len(_TURN.findall(value)) * 5 >= len(value) * 2:
        return True
    if _CONSONANTS.search(value):
        return True
    return len(_CHANGE.findall(value)) * 8 >= len(value)


def bits(value: str) -> float:
    """Return Shannon's entropy, in bits a character."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())
