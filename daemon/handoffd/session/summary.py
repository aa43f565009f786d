"""The client's own summary of a compacted conversation, by its sections. Pure."""

import re

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
    ("next", ("next step",)),
    ("files", ("files",)),
)
_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
ITEMS_MAX = 8
_PATH = re.compile(r"(?:[\w@.+-]+/)*[\w@+-][\w@.+-]*\.[A-Za-z][A-Za-z0-9]{0,7}")
FILES_MAX = 20


def read_summary(text: str) -> dict[str, list[str]]:
    """Return the sentences of each section that we use; a text of another form has none."""
    marks = list(_SECTION.finditer(text))
    found: dict[str, list[str]] = {}
    for number, mark in enumerate(marks):
        end = marks[number + 1].start() if number + 1 < len(marks) else len(text)
        title = mark[1].lower()
        for name, words in _FIELDS:
            if name not in found and any(word in title for word in words):
                found[name] = _items(name, text[mark.end() : end])
                break
    return {name: items for name, items in found.items() if items}


def _items(name: str, section: str) -> list[str]:
    if name == "files":
        return list(dict.fromkeys(_PATH.findall(section)))[:FILES_MAX]
    parts = [_ITEM.sub("", part).strip() for part in _SENTENCE.split(plain(section))]
    return [part for part in parts if len(part) > 12][:ITEMS_MAX]  # noqa: PLR2004  a heading
