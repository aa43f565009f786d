"""Reads metadata.json of a track, and changes its `handoff` section. Pure.

Only the bytes of that section change; all others stay as they are.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

from handoff.common import json_edit
from handoff.common.errors import HandoffError
from handoff.common.safe_parsing import load_json

KEY = "handoff"
# The specified order.
SECTION = ("status", "section_count", "progress_percent", "last_handoff", "history")
ID_MAX = 120
_EPICS_MAX = 100
_TASKS_MAX = 2000
_SURROGATE = re.compile("[\ud800-\udfff]")
_REMEDY = "Repair conductor/tracks/<track>/metadata.json, or move it aside."


@dataclass(frozen=True, slots=True)
class Metadata:
    """The content of a metadata.json."""

    data: Mapping[str, Any]

    @property
    def status(self) -> str:
        return _text(self.data.get("status"))

    @property
    def state(self) -> str:
        """Return workflow.state: INIT, DESIGNED, TRACKED, ..., or an empty text."""
        return _text(_mapping(self.data.get("workflow")).get("state"))

    @property
    def epics(self) -> list[str]:
        """Return every epic of the track, the main one first: its key differs by the writer.

        An empty id is never among them: bd would take the issue that it touched last.
        """
        beads = _mapping(self.data.get("beads"))
        listed = beads.get("epics")
        others = [_mapping(epic).get("id") for epic in listed] if isinstance(listed, list) else []
        main = [self.data.get("beads_epic"), self.data.get("beads_epic_id")]
        named = [beads.get("epicId"), *main, *others]
        return list(dict.fromkeys(epic for epic in named if _is_id(epic)))[:_EPICS_MAX]

    @property
    def tasks(self) -> list[str]:
        """Return the issues that the file names as tasks; a phase whose tasks it names is none."""
        beads = _mapping(self.data.get("beads"))
        listed = beads.get("issues")
        named = list(listed) if isinstance(listed, list) else []
        for found in (
            self.data.get("beads_tasks"),
            self.data.get("beads_task_mapping"),
            beads.get("planTasks"),
        ):
            tasks = _mapping(found)
            # `phase1` is the phase of `phase1_task2`.
            phases = {key.rpartition("_")[0] for key in tasks}
            named += [task for key, task in tasks.items() if key not in phases]
        return list(dict.fromkeys(task for task in named if _is_id(task)))[:_TASKS_MAX]

    @property
    def validation(self) -> Mapping[str, Any] | None:
        return _mapping(self.data.get("validation")) or None

    @property
    def handoff(self) -> Mapping[str, Any]:
        return _mapping(self.data.get(KEY))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_id(value: Any) -> TypeGuard[str]:
    """Return True for an issue's id. jq prints a missing one as "null"; a dash begins an option."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= ID_MAX
        and value.isprintable()
        and " " not in value
        and value != "null"
        and not value.startswith("-")
    )


class HandoffEntry(NamedTuple):
    """One entry of the history, without the section number, which is counted."""

    timestamp: str
    trigger: str
    bead_id: str | None
    phase_at_handoff: str | None
    tasks_completed: int
    tasks_total: int
    file: str


# Reading


def parse(text: str) -> Metadata:
    """Parse a metadata.json; a HandoffError says why it is invalid."""
    # Bytes that are not UTF-8 are read as lone surrogates.
    if _SURROGATE.search(text):
        raise HandoffError("metadata.json is not UTF-8 text.", _REMEDY)
    try:
        data = load_json(text.removeprefix("\ufeff"), parse_constant=_refuse)
    except json.JSONDecodeError as problem:
        where = f"{problem.msg} in line {problem.lineno}"
        raise HandoffError(f"metadata.json is not valid JSON: {where}.", _REMEDY) from None
    except ValueError as problem:
        raise HandoffError(f"metadata.json is not valid JSON: {problem}.", _REMEDY) from None
    if not isinstance(data, dict):
        raise HandoffError("metadata.json is no object.", _REMEDY)
    return Metadata(data)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def section_for(found: Metadata, file: str) -> int:
    """Return the section number of a file, or the one that its entry will have."""
    history = found.handoff.get("history")
    known = _section_of(history, file) if isinstance(history, list) else None
    return known or _sections_so_far(found.handoff) + 1


def _sections_so_far(handoff: Mapping[str, Any]) -> int:
    history = handoff.get("history")
    entries = history if isinstance(history, list) else []
    sections = [_count(_mapping(entry).get("section")) for entry in entries]
    return max([_count(handoff.get("section_count")), len(entries), *sections])


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


# Changing


def with_entry(
    text: str, entry: HandoffEntry, status: str, progress_percent: int
) -> tuple[str, int]:
    """Return the text with one more entry, and its section. A file never gets a second entry."""
    old = _handoff(text)
    history = old["history"]
    section = _section_of(history, entry.file)
    # A repeated step must not undo later changes.
    if section is not None:
        return text, section
    section = _sections_so_far(old) + 1
    new = old | {
        "status": status,
        "section_count": section,
        "progress_percent": min(max(progress_percent, 0), 100),
        "last_handoff": entry.timestamp,
        "history": [*history, {"section": section, **entry._asdict()}],
    }
    return _spliced(text, new), section


def _section_of(history: Sequence[Any], file: str) -> int | None:
    for number, entry in enumerate(history, 1):
        if _base(_text(_mapping(entry).get("file"))) == _base(file):
            return _count(_mapping(entry).get("section")) or number
    return None


def _base(file: str) -> str:
    return file.rsplit("/", 1)[-1]


def with_status(text: str, status: str) -> str:
    """Return the text with another `handoff.status`; the same text if nothing changes."""
    old = _handoff(text)
    # Without a `handoff` section a track is active.
    return text if old["status"] == status else _spliced(text, old | {"status": status})


def _handoff(text: str) -> dict[str, Any]:
    """Return the section with all required keys in the specified order, then unknown keys."""
    found = parse(text).data.get(KEY)
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise HandoffError('"handoff" in metadata.json is no object.', _REMEDY)
    if not isinstance(found.get("history", []), list | None):
        raise HandoffError('"handoff.history" in metadata.json is no list.', _REMEDY)
    section = {
        "status": found.get("status", "active"),
        "section_count": found.get("section_count", 0),
        "progress_percent": found.get("progress_percent", 0),
        "last_handoff": found.get("last_handoff"),
        "history": found.get("history") or [],
    }
    return section | {key: value for key, value in found.items() if key not in SECTION}


def _spliced(text: str, section: Mapping[str, Any]) -> str:
    """Return the text with the section replaced, or else added as the last member."""
    if parse(text).data.get(KEY) == section:
        return text
    mark = text[: text.startswith("\ufeff")]
    try:
        return mark + json_edit.put(text.removeprefix(mark), [KEY], section)
    except (ValueError, RecursionError):
        raise HandoffError('"handoff" in metadata.json cannot be kept.', _REMEDY) from None
