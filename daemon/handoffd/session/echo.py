"""What we told a session ourselves must not come back as evidence: recognising it. Pure."""

import re

_WORD = re.compile(r"\w+")
# A field of the brief: its name in bold, then its value.
_FIELD = re.compile(r"^(?:\*\*[\w ]+:\*\*|-)\s+")
# Shorter texts are repeated by chance.
WORDS_MIN = 4
# How much of a text must stand in one line of ours to be its echo.
SHARE = 0.8


def injected_lines(text: str) -> list[str]:
    """Return the values of a brief that we printed, each as its words."""
    lines = [_FIELD.sub("", line.strip()) for line in text.split("\n")]
    found = [" ".join(_words(line)) for line in lines]
    return [line for line in found if line.count(" ") >= WORDS_MIN - 1]


def is_echo(text: str, injected: list[str]) -> bool:
    """Tell whether a text says little else than one line that we injected."""
    if not injected:
        return False
    words = set(_words(text))
    if len(words) < WORDS_MIN:
        return False
    for line in injected:
        known = set(line.split())
        shared = len(words & known)
        if shared >= SHARE * len(words) or shared >= SHARE * len(known):
            return True
    return False


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
