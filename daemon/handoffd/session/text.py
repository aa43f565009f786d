"""Text of a transcript made fit to be kept: one line, no controls, no secrets, bounded."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from handoff.errors import HandoffValidationError
from handoffd.session.redact import may_hold_secret, redact

GOAL_MAX = 300
NOW_MAX = 240
OPENING_MIN = 60
PATH_MAX = 400
SAVED_MAX = 2000
# What a person may clear again.
CLEARABLE = ("hypothesis", "outcome")
# More than any kept text, so that a secret is never cut in half before it is recognised.
_SCANNED_MAX = 8192
_READ_MAX = 8 * _SCANNED_MAX

# C0 and C1 controls, the bidirectional overrides and isolates, lone surrogates, and the
# Unicode tags that hide text from a person's eyes.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_SPACE = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s|\n")
# How an assistant announces work; in other languages the prompt and the todos must do.
_INTENTION = re.compile(
    r"(?i)(?:(?:now|next|then|first|finally|okay|ok|good|great|perfect)[,:.]? +)*"
    r"(?:let me|let's|i'll|i will|i'm going to|i am going to|i (?:still )?need|we (?:still )?need"
    r"|next(?: step)?s?[:,]|now (?:i|let|update|add|fix|run|the next)|remaining[: ])"
)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKS = re.compile(r"(?m)^\s*(?:#{1,6}|[-*>])\s+|\*\*|`")
_PLAN = re.compile(r"(?i)\Aimplement the following plan:?\s*")


def clean(text: str) -> str:
    """Drop what has no business in a document: escapes, controls, invisible characters."""
    return _UNSEEN.sub("", _ESCAPES.sub("", text))


def keep(text: str, limit: int) -> tuple[str, int]:
    """Return the text as one safe line of at most `limit` characters, and the secrets masked."""
    line = _SPACE.sub(" ", clean(text[:_READ_MAX])).strip()
    masked, kinds = redact(line[:_SCANNED_MAX])
    return shorten(masked, limit), len(kinds)


def shorten(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > limit // 2 else cut).rstrip() + "…"


def plain(text: str) -> str:
    """Return a text as prose: without code blocks and the marks of headings, lists and stress."""
    return _MARKS.sub("", _CODE.sub(" ", text[:_READ_MAX]))


def request(text: str) -> str:
    """Return what a prompt asks for: all of it, without the words that only introduce a plan."""
    return _PLAN.sub("", plain(text).strip())


def opening(text: str) -> str:
    """Return the first sentences that say something: "Good." alone does not."""
    said = ""
    for part in _SENTENCE_END.split(plain(text)):
        if part.strip() and not part.lstrip().startswith(("|", "<")):
            said = f"{said} {part.strip()}".strip()
        if len(said) >= OPENING_MIN:
            break
    return said


def last_intention(text: str) -> str:
    """Return the last sentence that says what will be done, if one does.

    One that ends in a colon announces what follows it, in any language.
    """
    found = ""
    for line in plain(text[-_READ_MAX:]).split("\n"):
        for sentence in _SENTENCE_END.split(line):
            if _INTENTION.match(sentence.strip()) or sentence.rstrip().endswith((":", "：")):
                found = sentence.strip()
    return found


@dataclass(frozen=True, slots=True)
class Kept:
    """A person's own words made fit to be kept; None clears an optional field."""

    values: dict[str, str | None]
    masked: int
    cut: bool


def keep_values(values: dict[str, str]) -> Kept:
    """Make a person's own words fit to be kept; they may be longer than what we extract."""
    kept: dict[str, str | None] = {}
    masked, cut = 0, False
    for name, value in values.items():
        text, count = keep(value, SAVED_MAX)
        if not text and name not in CLEARABLE:
            raise HandoffValidationError(f"Missing or empty required field: {name}")
        kept[name] = text or None
        masked += count
        cut = cut or len(value) > SAVED_MAX
    return Kept(kept, masked, cut)


def redact_values(value: Any) -> Any:
    """Mask the secrets in every text of a document, whatever its shape."""
    texts: list[str] = []

    # First what hides: an invisible character must not cut a token in two.
    def unhide(text: str) -> str:
        visible = text.isascii() and text.isprintable()
        texts.append(text if visible else _UNSEEN.sub("", text))
        return texts[-1]

    seen = _each_text(value, unhide)
    if not may_hold_secret("\n".join(texts)):
        return seen
    return _each_text(seen, lambda text: redact(text)[0])


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _each_text(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    return value
