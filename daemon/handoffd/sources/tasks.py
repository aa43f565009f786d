"""The task files that Claude Code keeps beside its transcripts: tasks/<session>/<id>.json."""

import json
import os
from typing import Any, NamedTuple

FILES_MAX = 40
SIZE_MAX_BYTES = 64 << 10
_NONE_MTIME = 0


class Tasks(NamedTuple):
    """The tasks of a session, and when the last of them changed."""

    mtime_ns: int
    items: list[dict[str, Any]]


def changed_at(transcript: str, session_id: str) -> int:
    """Return when the tasks of a session last changed; 0 if it has none."""
    try:
        return os.stat(_directory(transcript, session_id)).st_mtime_ns
    except OSError:
        return _NONE_MTIME


def read(transcript: str, session_id: str) -> Tasks:
    """Read the tasks of a session; what is no task is left out."""
    directory = _directory(transcript, session_id)
    try:
        names = sorted(os.listdir(directory), key=lambda name: (len(name), name))
    except OSError:
        return Tasks(_NONE_MTIME, [])
    found = [_read(f"{directory}/{name}") for name in names if name.endswith(".json")]
    items = [item for item in found[:FILES_MAX] if item is not None]
    return Tasks(changed_at(transcript, session_id), items)


def _directory(transcript: str, session_id: str) -> str:
    config = os.path.dirname(os.path.dirname(os.path.dirname(transcript)))
    return f"{config}/tasks/{session_id}"


def _read(path: str) -> dict[str, Any] | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = json.loads(os.read(handle, SIZE_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(handle)
    return found if isinstance(found, dict) and isinstance(found.get("subject"), str) else None
