"""Read the task files that Claude Code keeps beside its transcripts: tasks/<session>/<id>.json."""

import os

from handoff.common.safe_parsing import load_json
from handoffd.agents.agent import Task

FILES_MAX = 40
SIZE_MAX_BYTES = 64 << 10


def changed_at(transcript: str, session_id: str) -> int:
    """Return the time of the last change to a session's tasks; 0 if it has none."""
    directory = _directory(transcript, session_id)
    try:
        times = [os.stat(directory).st_mtime_ns]
        times += [entry.stat().st_mtime_ns for entry in _entries(directory)]
    except OSError:
        return 0
    return max(times)


def read(transcript: str, session_id: str) -> list[Task]:
    """Return the tasks of a session; leave out files that hold no task."""
    found = []
    for entry in _entries(_directory(transcript, session_id)):
        task = _read(entry.path)
        if task is not None:
            found.append(task)
    return found


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            found = [entry for entry in entries if entry.name.endswith(".json")]
    except OSError:
        return []
    return sorted(found, key=lambda entry: (len(entry.name), entry.name))[:FILES_MAX]


def _directory(transcript: str, session_id: str) -> str:
    config = os.path.dirname(os.path.dirname(os.path.dirname(transcript)))
    return f"{config}/tasks/{session_id}"


def _read(path: str) -> Task | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        changed = os.fstat(handle).st_mtime_ns
        found = load_json(os.read(handle, SIZE_MAX_BYTES))
    except (OSError, ValueError):
        return None
    finally:
        os.close(handle)
    is_task = isinstance(found, dict) and isinstance(found.get("subject"), str)
    return Task(changed, found) if is_task else None
