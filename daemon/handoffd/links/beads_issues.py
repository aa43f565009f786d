"""Parsing of issues, from the program of Beads or from issues.jsonl. This module only reads."""

import json
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from handoffd.links.tracker import Issue

FILE_MAX_BYTES = 64 << 20
LINE_MAX_BYTES = 1 << 20
_CHILD = ("parent-child", "parent")  # the second is not a type of Beads, but occurs
_BLOCKS = ("blocks", "conditional-blocks", "waits-for")


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
    """Read issues.jsonl, up to a size limit and never through a link; skip damaged lines."""
    return lines_from(map(_decode, _raw_lines(path)))


def lines_from(objects: Iterable[Any]) -> dict[str, IssueLine]:
    """Return the issues among JSON values, by id.

    The last value of an id counts, also if it says that the issue was deleted.
    """
    lines: dict[str, IssueLine] = {}
    for found in objects:
        issue = from_object(found)
        if issue is None or found.get("_type", "issue") != "issue":
            continue
        if issue.status == "tombstone":
            lines.pop(issue.id, None)
        else:
            blockers = tuple(target for kind, target in _edges(found) if kind in _BLOCKS)
            lines[issue.id] = IssueLine(issue, blockers)
    return lines


def with_edges(lines: dict[str, IssueLine], others: dict[str, IssueLine]) -> dict[str, IssueLine]:
    """Return the lines with the parents and blockers of others, where they have none."""
    return {
        key: IssueLine(
            line.issue._replace(parent=line.issue.parent or others[key].issue.parent),
            line.blockers or others[key].blockers,
        )
        if key in others
        else line
        for key, line in lines.items()
    }


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
