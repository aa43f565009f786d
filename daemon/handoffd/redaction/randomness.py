"""Distinguishes random values from words, paths, numbers and names."""

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
# A stretch with capitals, small letters and digits, unlike the name of a directory.
_DENSE = re.compile(
    r"(?=[a-z\d+]{0,24}[A-Z])(?=[A-Z\d+]{0,24}[a-z])(?=[A-Za-z+]{0,24}\d)[A-Za-z0-9+]{10}"
)
# Entropy in bits per character: random values have more, runs of a few characters have less.
_BITS, _LETTER_BITS = 1.9, 3.3
LONG = 16


def is_uuid(value: str) -> bool:
    return _UUID.fullmatch(value) is not None


def is_path(value: str) -> bool:
    return _PATH.fullmatch(value) is not None


def looks_random(value: str, least: int) -> bool:
    """Return True if a value has at least `least` characters and looks random."""
    path = is_path(value) and not _DENSE.search(value)
    if len(value) < least or value.isdigit() or " " in value or path:
        return False
    if is_uuid(value):
        return least < LONG
    if value.startswith("django-insecure-"):
        return True
    digits = sum(map(value.count, string.digits))
    if not digits:
        return (
            len(value) >= LONG
            and bool(_CONSONANTS.search(value))
            and entropy_bits(value) > _LETTER_BITS
        )
    wordy = _CHAIN.fullmatch(value) and digits * 8 < len(value)
    if wordy or (_WORDY.fullmatch(value) and not _is_scattered(value)):
        return False
    return entropy_bits(value) > _BITS


def _is_scattered(value: str) -> bool:
    """Return True if digits and letters alternate often, unlike in "item-2024-v2"."""
    if len(value) > LONG and len(_TURN.findall(value)) * 5 >= len(value) * 2:
        return True
    if _CONSONANTS.search(value):
        return True
    return len(_CHANGE.findall(value)) * 8 >= len(value)


def entropy_bits(value: str) -> float:
    """Return the Shannon entropy in bits per character."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())
