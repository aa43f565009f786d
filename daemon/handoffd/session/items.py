"""Open items: what is still to be done, each with a key by which a person's mark finds it. Pure."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from handoffd.session.state import Value

# Where an item comes from.
QUEUED, QUESTION, TODO, STEP, REQUEST, FIX = "queued", "question", "todo", "step", "request", "fix"
PERSON = "person"
_DIGEST = 16
_STAMP = 6


class ItemKey(NamedTuple):
    """The record that an item comes from, and a digest of its words."""

    transcript: str
    # The id of the record, or its offset if it has none.
    record: str
    digest: str


class Item(NamedTuple):
    """An open item: its value as it is shown, and its key."""

    kind: str
    value: Value
    key: ItemKey


def item_of(kind: str, session_id: str, value: Value) -> Item:
    """Return the item of a value. An item keeps its key if a later fold reads the same record."""
    receipt = value.receipt
    record = receipt.uuid or str(receipt.offset)
    return Item(kind, value, ItemKey(receipt.transcript or session_id, record, _digest(value.text)))


def list_stamp(items: Iterable[str]) -> str:
    """Return a short text that is the same for the same list."""
    return hashlib.sha256("\n".join(items).encode("utf-8", "replace")).hexdigest()[:_STAMP]


def _digest(text: str) -> str:
    words = " ".join(text.casefold().split())
    return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:_DIGEST]
