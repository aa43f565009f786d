"""Compares a record with the present: the drift, the analysis and the todo items. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from handoff.common.plain_text import PlainText
from handoffd.links.tracker import Issue
from handoffd.session import frame
from handoffd.tracks.plan import Progress
from handoffd.tracks.record import SECTIONS, UNKNOWN, TrackRecord, files_named
from handoffd.tracks.record_sections import progress_text

TODOS_MAX = 12
_RULE = "━" * 48
_OK, _WARN = "✅", "⚠️"
_SHOWN_MAX = 5
_HOUR_SECONDS, _DAY_SECONDS = 3600, 86400


class CurrentTree(NamedTuple):
    """The present state of the work tree."""

    branch: str = ""
    detached: bool = False
    commit: str = ""
    # Since the recorded commit; None if git does not know it.
    commits: int | None = None
    changed: frozenset[str] = frozenset()
    # Files that the record names and that no longer exist.
    missing: frozenset[str] = frozenset()
    red_tests: str = ""
    git_problem: str = ""


class DriftLine(NamedTuple):
    """One comparison: its subject, whether it is unchanged, and its present state."""

    what: str
    same: bool
    text: str


@dataclass(frozen=True, slots=True)
class Drift:
    lines: Sequence[DriftLine]
    deleted: Sequence[str]
    modified: Sequence[str]

    @property
    def brief(self) -> str:
        moved = [line.what.lower() for line in self.lines if not line.same]
        return f"moved: {', '.join(moved)}" if moved else "nothing moved"

    def as_dict(self) -> dict[str, Any]:
        return {
            "lines": [line._asdict() for line in self.lines],
            "deleted": list(self.deleted),
            "modified": list(self.modified),
        }


def drift(record: TrackRecord, age_seconds: float, stale_days: float, found: CurrentTree) -> Drift:
    """Compare a record with the present work tree."""
    named = files_named(record)
    deleted = [path for path in named if path in found.missing]
    modified = [path for path in named if path in found.changed and path not in deleted]
    lines = [
        _branch(record, found),
        _commits(record, found),
        _age(age_seconds, stale_days),
        _files(deleted, modified),
    ]
    if found.red_tests:
        lines.append(DriftLine("Tests", False, f"last seen red: {found.red_tests}"))
    return Drift(lines, deleted, modified)


def _branch(record: TrackRecord, found: CurrentTree) -> DriftLine:
    if found.git_problem:
        return DriftLine("Branch", False, f"unknown: {found.git_problem}")
    here = "(detached)" if found.detached else found.branch
    if record.git_branch in (UNKNOWN, ""):
        return DriftLine("Branch", False, f"none recorded, now {here or UNKNOWN}")
    if record.git_branch == here:
        return DriftLine("Branch", True, f"{here} (matches)")
    return DriftLine("Branch", False, f"was {record.git_branch}, now {here or UNKNOWN}")


def _commits(record: TrackRecord, found: CurrentTree) -> DriftLine:
    if found.commits is None:
        if record.git_commit == UNKNOWN:
            return DriftLine("Commits", True, "none recorded")
        return DriftLine("Commits", False, f"{record.git_commit} is unknown here")
    if found.commits:
        return DriftLine("Commits", False, f"{found.commits} since {record.git_commit}")
    return DriftLine("Commits", True, f"none since {record.git_commit}")


def _age(seconds: float, stale_days: float) -> DriftLine:
    days = seconds / _DAY_SECONDS
    if days >= 1:
        words = "1 day" if int(days) == 1 else f"{int(days)} days"
    elif seconds >= _HOUR_SECONDS:
        words = f"{int(seconds // _HOUR_SECONDS)} h"
    else:
        words = f"{int(seconds // 60)} min"
    stale = days > stale_days
    return DriftLine("Age", not stale, f"{words} ({'stale' if stale else 'acceptable'})")


def _files(deleted: Sequence[str], modified: Sequence[str]) -> DriftLine:
    if not deleted and not modified:
        return DriftLine("Files", True, "as they were")
    return DriftLine("Files", False, f"{len(deleted)} deleted, {len(modified)} modified")


class TrackProgress(NamedTuple):
    """The track's progress, its epic, and the issues that are ready."""

    progress: Progress
    epic: Issue | None = None
    ready: Sequence[Issue] = ()


def present(record: TrackRecord, source: str, work: TrackProgress, moved: Drift | None) -> str:
    """Return the analysis: the progress of the work, and the content of the record."""
    progress, epic, ready = work
    lines = [_RULE, f"📋 Resuming: {record.track_id} | {record.trigger}", _RULE, ""]
    lines.append(f"🕐 Created: {record.timestamp}")
    lines.append(f"🔀 Branch: {record.git_branch} @ {record.git_commit}")
    lines.append(f"📊 Progress: {progress_text(progress)}")
    lines.append(f"📂 Source: {source}")
    if epic:
        lines.append(f"🔗 Epic: {epic.id} ({epic.status}) {epic.title}")
    if ready:
        shown = ", ".join(f"{issue.id} {issue.title}" for issue in ready[:_SHOWN_MAX])
        lines.append(f"▶️ Ready: {shown}")
    if record.warning:
        lines.append(f"{_WARN} {record.warning}")
    if moved:
        lines += ["", *_drift_lines(moved)]
    for name in (*SECTIONS, *(name for name in record.sections if name not in SECTIONS)):
        if record.sections.get(name):
            lines += ["", f"## {name}", *record.sections[name]]
    return "\n".join([*lines, "", _RULE]) + "\n"


def framed(text: str, root: str) -> PlainText:
    """Mark a text for a session as a record of the past, so that it never becomes evidence."""
    lines = text.rstrip("\n").split("\n")
    return frame.framed(frame.opening(project=root), [frame.RECORD, *lines])


def _drift_lines(moved: Drift) -> list[str]:
    lines = ["📊 Drift Analysis:"]
    lines += [f"   {_OK if line.same else _WARN} {line.what}: {line.text}" for line in moved.lines]
    for word, paths in (("deleted", moved.deleted), ("modified", moved.modified)):
        lines += [f"      {word}: {path}" for path in paths[:_SHOWN_MAX]]
    return lines


def todos(steps: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the todo items in the formats of both tools that create them."""
    return {
        "TodoWrite": [{"content": step, "status": "pending", "activeForm": step} for step in steps],
        "TaskCreate": [{"subject": step, "description": step} for step in steps],
    }


def as_dict(record: TrackRecord) -> dict[str, Any]:
    return {
        "timestamp": record.timestamp,
        "trigger": record.trigger,
        "track_id": record.track_id,
        "bead_id": record.bead_id or None,
        "git_commit": record.git_commit,
        "git_branch": record.git_branch,
        "author": record.author,
        "validation_snapshot": dict(record.validation_snapshot or {}) or None,
        "sections": {name: list(lines) for name, lines in record.sections.items()},
        "warning": record.warning,
    }
