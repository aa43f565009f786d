"""What we told a session ourselves must not come back as evidence: recognising it. Pure."""

import re
from itertools import pairwise

from handoffd.session.state import INJECTED_MAX, SessionState
from handoffd.session.text import keep, sentences

_WORD = re.compile(r"\w+")
# A field of the brief: its name in bold, then its value.
_FIELD = re.compile(r"^(?:\*\*[\w ]+:\*\*|-)\s+")
# Shorter texts are repeated by chance.
WORDS_MIN = 4
LINE_MAX = 400
# How many of the pairs of words of one must stand in the other to be its echo.
SHARE = 0.6


def injected_lines(text: str) -> list[str]:
    """Return the sentences of a brief that we printed, each as its words."""
    lines = [_FIELD.sub("", line.strip()) for line in text.replace("\\n", "\n").split("\n")]
    parts = [part for line in lines for part in sentences(line)]
    found = [" ".join(_words(keep(part, LINE_MAX))) for part in parts]
    return [line for line in found if line.count(" ") >= WORDS_MIN - 1]


def note_injected(state: SessionState, text: str) -> None:
    """Remember what we told the session."""
    state.injected += [line for line in injected_lines(text) if line not in state.injected]
    del state.injected[:-INJECTED_MAX]


def is_echo(text: str, injected: list[str]) -> bool:
    """Tell whether a text says little else than one line that we injected."""
    if not injected:
        return False
    words = _words(text)
    if len(words) < WORDS_MIN:
        return False
    mine = set(pairwise(words))
    for line in injected:
        known = set(pairwise(line.split()))
        shared = len(mine & known)
        if shared >= SHARE * len(mine) or shared >= SHARE * len(known):
            return True
    return False


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
