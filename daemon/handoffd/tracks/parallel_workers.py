"""Reads the parallel workers of a track, from any of the three file shapes. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from handoff.common.safe_parsing import load_json
from handoffd.runtime import clock
from handoffd.session.text import PATH_MAX, keep

# The files that may hold parallel state, in a track's directory.
STATE_FILES = ("parallel_state.json", "implement_parallel_state.json")
STALE_SECONDS = 3600.0
UNKNOWN_NAME = "unknown workers"
UNKNOWN_STATUS = "unknown"
NAME_MAX = 80
TASK_MAX = 200
_WORKERS_MAX = 100
_FILES_MAX = 50
# A time that is ahead of our clock by more than this is ignored.
_AHEAD_SECONDS = 300.0
_ACTIVE = frozenset({"running", "in_progress"})
_COMPLETED = frozenset({"completed", "complete", "done"})
_NAMES = ("name", "worker_id", "agent", "id")
_TIMES = ("updated_at", "last_update", "last_activity", "heartbeat", "started_at", "completed_at")


class ParallelWorker(NamedTuple):
    """A worker that is or may be active. `status` is copied; `stale` means an hour of silence."""

    name: str
    status: str
    task: str = ""
    bead_id: str = ""
    files: tuple[str, ...] = ()
    worktree: str = ""
    since: str = ""
    active: bool = False
    stale: bool = False


def read_state(text: str, changed_seconds: float, now: float) -> list[ParallelWorker]:
    """Return the workers of a state file; an unreadable file counts as one unknown worker."""
    try:
        state = load_json(text.removeprefix("\ufeff"))
        entries = list(_worker_entries(state))[:_WORKERS_MAX]
    except (ValueError, TypeError):
        stale = _is_stale({}, changed_seconds, now)
        return [ParallelWorker(UNKNOWN_NAME, UNKNOWN_STATUS, active=not stale, stale=stale)]
    began = state.get("started_at")
    return [
        _worker(name, {"started_at": began} | said, changed_seconds, now) for name, said in entries
    ]


def _worker_entries(state: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the entry of each worker, in any of the three shapes."""
    if not isinstance(state, dict):
        raise TypeError
    for key in ("workers", "agents"):
        entries = state.get(key) or []
        if not isinstance(entries, list | dict):
            raise TypeError
        named = entries.items() if isinstance(entries, dict) else ((None, said) for said in entries)
        for number, (name, said) in enumerate(named, 1):
            if isinstance(said, dict):
                yield name or _first(said, *_NAMES) or f"worker {number}", said


def _first(said: Mapping[str, Any], *keys: str) -> str:
    """Return the first of some values that is a text or a number, as text."""
    values = (said.get(key) for key in keys)
    fit = (value for value in values if isinstance(value, str | int) and value is not True)
    return next((text for value in fit if (text := str(value).strip()) and value is not False), "")


def _worker(
    name: str, said: Mapping[str, Any], changed_seconds: float, now: float
) -> ParallelWorker:
    status = keep(_first(said, "status"), NAME_MAX) or UNKNOWN_STATUS
    is_active = status.lower() in _ACTIVE
    stale = is_active and _is_stale(said, changed_seconds, now)
    return ParallelWorker(
        name=keep(name, NAME_MAX) or UNKNOWN_STATUS,
        status=status,
        task=keep(_first(said, "task", "plan_key"), TASK_MAX),
        bead_id=keep(_first(said, "beads_task_id", "bead_id", "task_id"), NAME_MAX),
        files=_files(said.get("files") or said.get("leases")),
        worktree=keep(_first(said, "worktree"), PATH_MAX),
        since=keep(_first(said, "started_at"), NAME_MAX),
        active=is_active and not stale,
        stale=stale,
    )


def _files(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else []
    return tuple(keep(file, PATH_MAX) for file in listed[:_FILES_MAX] if isinstance(file, str))


def _is_stale(said: Mapping[str, Any], changed_seconds: float, now: float) -> bool:
    """Return True if neither the worker nor the file shows a time within the last hour."""
    times = [clock.parse(_first(said, key)) for key in _TIMES]
    heard = [seconds for seconds in (*times, changed_seconds) if seconds <= now + _AHEAD_SECONDS]
    return now - max(heard, default=now) >= STALE_SECONDS
