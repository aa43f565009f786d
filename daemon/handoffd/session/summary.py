"""The client's own summary of a compacted conversation, by its sections. Pure."""

import re

from handoffd.redaction.redact import redact
from handoffd.session.text import plain

_SECTION = re.compile(
    r"(?m)^[ ]{0,3}(?:\*\*|#{1,4} )?\d{1,2}\.[ ]+(?:\*\*)?"
    r"([A-Z][\w ,/&'-]{3,60}?)(?:\*\*)?:(?:\*\*)?"
)
# Which section answers which question, by a word of its heading.
_FIELDS = (
    ("goal", ("primary request", "intent")),
    ("now", ("current work",)),
    ("pending", ("pending",)),
)
_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
ITEMS_MAX, ITEM_MIN = 8, 12
_NOTHING = re.compile(r"(?i)(?:none|no |nothing|n/a)")
_READ_MAX = 64 << 10


def read_summary(text: str) -> dict[str, list[str]]:
    """Return the sentences of each section that we use; a text of another form has none."""
    text = redact(text[:_READ_MAX])[0]  # as a whole: a key is more than a line
    marks = list(_SECTION.finditer(text))
    found: dict[str, list[str]] = {}
    for number, mark in enumerate(marks):
        end = marks[number + 1].start() if number + 1 < len(marks) else len(text)
        title = mark[1].lower()
        for name, words in _FIELDS:
            if name not in found and any(word in title for word in words):
                found[name] = _items(text[mark.end() : end])
                break
    return {name: items for name, items in found.items() if items}


def _items(section: str) -> list[str]:
    """Return the sentences of a section that say something: no headings, and not "none"."""
    parts = [_ITEM.sub("", part).strip() for part in _SENTENCE.split(plain(section))]
    return [
        part
        for part in parts
        if len(part) >= ITEM_MIN and not part.endswith(":") and not _NOTHING.match(part)
    ][:ITEMS_MAX]
