"""Parsing of issues, from the program of Beads or from issues.jsonl. This module only reads."""

import json
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

FILE_MAX_BYTES = 64 << 20
LINE_MAX_BYTES = 1 << 20
_CHILD = ("parent-child", "parent")  # the second is not a type of Beads, but occurs
_BLOCKS = ("blocks", "conditional-blocks", "waits-for")


class Issue(NamedTuple):
    """One issue, with the fields that a handoff needs."""

    id: str
    title: str = ""
    status: str = ""
    type: str = ""
    parent: str = ""
    notes: str = ""
    priority: int = 2
    started_at: str = ""
    closed_at: str = ""
    updated_at: str = ""


class IssueLine(NamedTuple):
    """An issue, and the ids of the issues that must be closed before it."""

    issue: Issue
    blockers: tuple[str, ...]


def from_object(found: Any) -> Issue | None:
    """Return the issue in a JSON value, or None if it is not an issue."""
    if not isinstance(found, dict) or not _text(found.get("id")):
        return None
    priority = found.get("priority")
    return Issue(
        id=found["id"],
        title=_text(found.get("title")),
        status=_text(found.get("status")),
        type=_text(found.get("issue_type")),
        parent=_parent(found),
        notes=_text(found.get("notes")),
        priority=priority if isinstance(priority, int) else 2,
        started_at=_text(found.get("started_at")),
        closed_at=_text(found.get("closed_at")),
        updated_at=_text(found.get("updated_at")),
    )


def read_lines(path: str) -> dict[str, IssueLine]:
    """Read issues.jsonl, up to a size limit and never through a link; skip damaged lines.

    The last line of an id counts, also if it says that the issue was deleted.
    """
    lines: dict[str, IssueLine] = {}
    for raw in _raw_lines(path):
        found = _decode(raw)
        issue = from_object(found)
        if issue is None or found.get("_type", "issue") != "issue":
            continue
        if issue.status == "tombstone":
            lines.pop(issue.id, None)
        else:
            blockers = tuple(target for kind, target in _edges(found) if kind in _BLOCKS)
            lines[issue.id] = IssueLine(issue, blockers)
    return lines


def children(lines: dict[str, IssueLine], epic_id: str) -> list[Issue]:
    """Return the direct children: by an edge or, if an issue has none, by its id."""
    issues = (line.issue for line in lines.values())
    return [issue for issue in issues if (issue.parent or _parent_by_id(issue.id)) == epic_id]


def ready(lines: dict[str, IssueLine], epic_id: str) -> list[Issue]:
    """Return the open descendants without open blockers, the most urgent first."""
    found: list[Issue] = []
    seen = {epic_id}
    level = children(lines, epic_id)
    while level:
        fresh = [issue for issue in level if issue.id not in seen]
        seen.update(issue.id for issue in fresh)
        found += [issue for issue in fresh if _is_ready(lines, issue)]
        level = [child for issue in fresh for child in children(lines, issue.id)]
    return sorted(found, key=lambda issue: (issue.priority, issue.id))


def _is_ready(lines: dict[str, IssueLine], issue: Issue) -> bool:
    blockers = [lines[target].issue for target in lines[issue.id].blockers if target in lines]
    return issue.status == "open" and all(each.status == "closed" for each in blockers)


def _parent_by_id(issue_id: str) -> str:
    head, _, number = issue_id.rpartition(".")
    return head if number.isdigit() else ""


def _parent(found: dict[str, Any]) -> str:
    targets = (target for kind, target in _edges(found) if kind in _CHILD)
    return _text(found.get("parent")) or next(targets, "")


def _edges(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and target of each edge; `bd show` writes a whole issue instead of an edge."""
    listed = found.get("dependencies")
    for edge in listed if isinstance(listed, list) else ():
        if isinstance(edge, dict):
            kind = edge.get("type") or edge.get("dependency_type")
            yield _text(kind), _text(edge.get("depends_on_id") or edge.get("id"))


def _raw_lines(path: str) -> Iterable[bytes]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_MAX_BYTES:
            raise OSError(f"{path} is no file, or larger than {FILE_MAX_BYTES >> 20} MiB")
        remaining = FILE_MAX_BYTES
        while remaining > 0 and (line := stream.readline(LINE_MAX_BYTES)):
            remaining -= len(line)
            yield line


def _decode(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
