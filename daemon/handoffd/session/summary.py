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
    ("pending", ("pending", "next step")),
)
_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
ITEMS_MAX, ITEM_MIN = 8, 12
# Sentences of a list of pending work that name none.
_NOTHING = re.compile(
    r"(?i)(?:none|no |nothing|n/a|the user\b|user'?s?\b|all (?:requested |explicit )?(?:tasks"
    r"|work)\b|if you need"
    r"|please continue|continue (?:the conversation|with the last task)|[\"“'>])"
    r"|.*\b(?:is|are|was|were|has been|have been) (?:now )?(?:complete|completed|done|finished)\W*$"
)
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
            if any(word in title for word in words):
                found[name] = [*found.get(name, []), *_items(text[mark.end() : end])][:ITEMS_MAX]
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


_ABOUT_NEXT = re.compile(
    r"(?i)\bnext\b|\bwaiting (?:on|for)|\bpending\b|\bdecide whether|\bneeds? (?:you|your)"
    r"|\bready to\b"
    r"|\bstill (?:to|open)|\bremaining|다음|결정|sıradaki|als nächstes|noch offen|次|下一步"
)
_NOTHING_NEXT = re.compile(
    r"(?i)\bnothing (?:else )?(?:is )?(?:pending|left|outstanding|to do)|\bno (?:pending|further"
    r"|open|next)\b"
)
_HINT = re.compile(r"\s*\(disable recaps in /config\)\s*\Z")
_GOAL = re.compile(r"(?i)\A(?:the )?goal(?: is| was)?:?\s+")


def without_hint(recap: str) -> str:
    """Return a recap without the client's words about its settings."""
    return _HINT.sub("", recap)


def read_recap(text: str) -> tuple[str, list[str]]:
    """Return the goal that a recap states, and its sentences about the next step."""
    stated, following = _recap_parts(text)
    goal = _GOAL.sub("", stated[0]) if stated else ""
    return goal[:1].upper() + goal[1:], following


def recapped_work(text: str) -> str:
    """Return a recap without its sentences about the next step."""
    parts = _recap_parts(text)[0]
    return " ".join(f"{part[:1].upper()}{part[1:].rstrip('.')}." for part in parts)


def _recap_parts(text: str) -> tuple[list[str], list[str]]:
    parts = [part.strip() for part in re.split(r"(?<=[.!?。])\s+|;\s+", without_hint(text))]
    parts = [part for part in parts if len(part) >= ITEM_MIN and not _NOTHING_NEXT.search(part)]
    following = [part for part in parts if _ABOUT_NEXT.search(part)]
    return [part for part in parts if part not in following], following
