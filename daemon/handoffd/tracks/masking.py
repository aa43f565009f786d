"""Masks secrets of a known form, and those that match a project's own patterns."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from handoffd.redaction.redact import redact
from handoffd.session.text import MASK

Patterns = Sequence[tuple[str, re.Pattern[str]]]


def masked(line: str, patterns: Patterns) -> str:
    """Return a line with its secrets masked, by their form and by the project's own patterns."""
    line = redact(line)[0]
    spots = sorted(
        (*match.span(), kind)
        for kind, pattern in patterns
        for match in pattern.finditer(line)
        if match.end() > match.start()
    )
    parts: list[str] = []
    done = 0
    for start, end, kind in spots:
        # A match that touches the last one is part of it: one mask per letter would be no help.
        if start > done or not parts:
            parts += line[done:start], f"{MASK}{kind}]"
        done = max(done, end)
    return "".join([*parts, line[done:]])


def masked_values(value: Any, patterns: Patterns) -> Any:
    """Return a document of any shape with every text masked."""
    if isinstance(value, str):
        return masked(value, patterns)
    if isinstance(value, Mapping):
        return {key: masked_values(item, patterns) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked_values(item, patterns) for item in value]
    return value
