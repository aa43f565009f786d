"""Distinguishes a person's edits of handoff.yaml from our own values. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from handoffd.session.fields import CLEARABLE, LISTS, NOT_STATED, SETTABLE, STATUSES


def edited_values(found: dict[str, Any], ours: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields of a file with values that differ from all of ours."""
    edited = {}
    for name in SETTABLE:
        value = found.get(name)
        stated = isinstance(value, str) and bool(value.strip())
        if name == "status":
            stated = value in STATUSES
        cleared = value is None and name in CLEARABLE and any(ours)
        if (stated or cleared) and all(value != document.get(name) for document in ours):
            edited[name] = value
    for name in LISTS:
        value = found.get(name)
        if not isinstance(value, list) or any(value == document.get(name) for document in ours):
            continue
        if name != "next" or not _lacks_only(value, ours):
            edited[name] = value
    return edited


def _lacks_only(lines: list[Any], ours: Sequence[dict[str, Any]]) -> bool:
    """Return True if every line is ours: a person deleted lines at most."""
    known = [line for document in ours for line in document.get("next") or []]
    return bool(known) and all(line in known for line in lines)


def without_lines(document: dict[str, Any], lines: Sequence[str]) -> dict[str, Any]:
    """Return a document without some lines of `next`."""
    left = [line for line in document.get("next") or [] if line not in lines]
    others = {name: value for name, value in document.items() if name != "next"}
    return {**others, "next": left} if left else others


def deleted_lines(found: dict[str, Any], ours: Sequence[dict[str, Any]]) -> list[str]:
    """Return our lines of `next` that a person deleted from a file.

    Without the key at all, another program may have written the file. A list of other lines alone
    replaces ours, such as that of an older version of the file.
    """
    left = found.get("next") or []
    if "next" not in found or not isinstance(left, list) or not ours:
        return []
    lists = [document.get("next") or [] for document in ours]
    if any(left == known for known in lists):
        return []
    if left and not any(line in known for line in left for known in lists):
        return []
    return [line for line in lists[0] if line not in left and all(line in one for one in lists)]


def spoken(given: Mapping[str, str | None], known: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields a person set. A message sets `now`, and `goal` if there is none yet.

    A person who says what is done now, on completed work, has taken it up again.
    """
    values = {name: value for name, value in given.items() if value is not None}
    message = values.pop("message", None)
    if message is not None:
        values.setdefault("now", message)
        if known.get("goal") in (None, NOT_STATED):
            values.setdefault("goal", message)
    if "now" in values and known.get("status") == "completed":
        values.setdefault("status", "in_progress")
    return values


def covers(found: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return True if a file has all these values already; the timestamp does not count."""
    if any(name in found and name not in new for name in LISTS):
        return False  # a list that has become empty is removed from the file
    return all(found.get(name) == value for name, value in new.items() if name != "timestamp")


def merge(
    found: dict[str, Any] | None, new: dict[str, Any], edited: dict[str, Any], timestamp: str
) -> dict[str, Any] | None:
    """Merge our document into the file's. Keep a person's new edits and the fields unknown to us.

    Return None if nothing but the timestamp is new: that is no reason to write.
    """
    wanted = {**new, **edited}
    for name in ("branch", "session_id"):
        if wanted.get(name) is None and (found or {}).get(name):
            del wanted[name]  # an unknown value is no reason to erase a known one
    if found is not None and covers(found, wanted):
        return None
    kept = {name: value for name, value in (found or {}).items() if name not in LISTS}
    return {**kept, **wanted, "timestamp": timestamp}


def added_files(found: dict[str, Any], ours: Sequence[dict[str, Any]]) -> list[str]:
    """Return the listed files that are not from us."""
    listed = found.get("files")
    if not isinstance(listed, list):
        return []
    known = [path for document in ours for path in document.get("files") or []]
    return [path for path in listed if isinstance(path, str) and path not in known]
