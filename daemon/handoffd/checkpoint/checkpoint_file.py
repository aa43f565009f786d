"""handoff.yaml on disk: the five public functions, and the one way to change the file.

Every change takes the lock, reads the file, and writes only if the file has not changed since.
So neither another writer of ours nor an editor ever loses an update.
"""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handoff.common import paths
from handoff.common.errors import HandoffError
from handoff.common.remedies import remedy
from handoffd.checkpoint import checkpoint_format
from handoffd.fs import files
from handoffd.runtime import clock
from handoffd.session.fields import DEFAULT_NOW, NOT_STATED
from handoffd.session.text import redact_values

DIRECTORY = ".flow-guardian"
NAME = "handoff.yaml"
LOCK_NAME = ".handoff.lock"
UNREADABLE = f"{NAME}.unreadable-"
_IGNORE = b"*\n"
WAIT_SECONDS = 5.0
_TRIES = 100
# An editor empties a file before it fills it again; on a busy machine the gap is long.
_SETTLE_SECONDS, _EMPTY_SECONDS = 0.1, 1.0
_PAUSE_SECONDS = 0.02

Data = dict[str, Any]
Compute = Callable[[Data | None], Data | None]
_last_written: dict[str, tuple[str, Data]] = {}


@dataclass(frozen=True, slots=True)
class Stored:
    """The file as it was read. `data` is None if the file is absent, empty or unreadable."""

    data: Data | None
    text: str | None = None
    status: os.stat_result | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    data: Data
    status: os.stat_result


def find_project_root(cwd: str | Path | None = None) -> Path:
    """Return the nearest directory with .flow-guardian/, .git or pyproject.toml, else `cwd`."""
    return Path(paths.project_root(str(Path(cwd or Path.cwd()).resolve())))


def get_handoff_path(project_root: Path | None = None) -> Path:
    """Return `<project root>/.flow-guardian/handoff.yaml`."""
    return _root(project_root) / DIRECTORY / NAME


def load_handoff(project_root: Path | None = None) -> Data | None:
    """Return the checkpoint, or None if it does not exist or cannot be parsed.

    A missing .flow-guardian/ is created below a root that is given, or that has a marker: to read
    in any other directory must not turn it into a project.
    """
    root = str(_root(project_root))
    if project_root is not None:
        _create_directory(root)
    elif paths.has_marker(root) and root != "/" and not paths.is_home(root):
        with contextlib.suppress(HandoffPermissionError):
            _create_directory(root)
    stored = load(root)
    if stored.problem:
        path = get_handoff_path(project_root)
        logging.getLogger("handoff").warning("%s cannot be read: %s", path, stored.problem)
    return stored.data


def save_handoff(data: Mapping[str, Any], project_root: Path | None = None) -> Path:
    """Write a checkpoint, with a timestamp if it has none, and return its path."""
    root = os.path.realpath(project_root) if project_root else str(find_project_root())
    new = dict(data)
    given = _iso(new.get("timestamp"))
    new["timestamp"] = given or clock.iso_milliseconds()
    checkpoint_format.validate(new)
    change(root, lambda found: {**new, "timestamp": given or next_timestamp(found)})
    return Path(f"{root}/{DIRECTORY}/{NAME}")


def update_handoff(updates: Mapping[str, Any], project_root: Path | None = None) -> Data:
    """Merge updates into the checkpoint, or create one; the timestamp is always new."""
    return change(str(_root(project_root)), lambda found: merged(found, updates)).data


def clear_handoff(project_root: Path | None = None) -> bool:
    """Delete the checkpoint and keep its directory; return False if there was none."""
    root = str(_root(project_root))
    try:
        with (
            files.directory(root, DIRECTORY) as handle,
            files.locked(handle, LOCK_NAME, WAIT_SECONDS),
        ):
            return files.remove(handle, NAME)
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise _access_error(root, "delete", problem) from None


def next_timestamp(found: Data | None) -> str:
    """Return the time now in ISO 8601, in any case later than the time in the file."""
    return clock.iso_after(str((found or {}).get("timestamp")))


def merged(found: Data | None, updates: Mapping[str, Any]) -> Data:
    new = {**(found or _new_checkpoint(updates)), **updates}
    for field in ("goal", "now"):
        # Null values in a file (the origin's setup wrote some) must not stop an update.
        new[field] = DEFAULT_NOW if new.get(field) is None else new[field]
    new["status"] = new.get("status") or "in_progress"
    new["timestamp"] = next_timestamp(found)
    return new


def _new_checkpoint(updates: Mapping[str, Any]) -> Data:
    return {
        "goal": DEFAULT_NOW,
        "status": "in_progress",
        "now": updates.get("goal") or DEFAULT_NOW,
    }


def keep_observed(root: str, observed: Data, wait_seconds: float = WAIT_SECONDS) -> Written:
    """Write the observed values, and beside them what the file says, or that nothing is stated."""
    return change(root, lambda found: merged(found or blank(), observed), wait_seconds)


def blank() -> Data:
    """Return the checkpoint of a project of which nothing is known."""
    return {"goal": NOT_STATED, "status": "in_progress", "now": DEFAULT_NOW}


def _create_directory(root: str) -> None:
    try:
        with files.directory(root, DIRECTORY, create=True):
            pass
    except FileNotFoundError:
        return
    except OSError as problem:
        raise _access_error(root, "create", problem) from None


def load(root: str) -> Stored:
    """Read a project's checkpoint. Create nothing, and raise only if an OS error prevents it."""
    try:
        with files.directory(root, DIRECTORY) as handle:
            return _read(handle)
    except FileNotFoundError:
        return Stored(None)
    except OSError as problem:
        raise _access_error(root, "read", problem) from None


def _read(handle: int) -> Stored:
    try:
        found = files.read(handle, NAME, checkpoint_format.SIZE_MAX_BYTES)
    except HandoffError as problem:
        return Stored(None, problem=problem.title)
    if found is None:
        return Stored(None)
    text = found[0].decode("utf-8", "replace")
    try:
        data = _parsed(text)
    except checkpoint_format.CheckpointError as problem:
        return Stored(None, text, found[1], str(problem))
    return Stored(data, text, found[1])


def change(root: str, compute: Compute, wait_seconds: float = WAIT_SECONDS) -> Written:
    """Replace the checkpoint by the result of `compute`; None leaves it unchanged."""
    try:
        with (
            files.directory(root, DIRECTORY, create=True) as handle,
            files.locked(handle, LOCK_NAME, wait_seconds),
        ):
            files.create_once(handle, ".gitignore", _IGNORE)
            for _ in range(_TRIES):
                done = _try_change(handle, compute)
                if done is not None:
                    return done
    except OSError as problem:
        raise _access_error(root, "write", problem) from None
    raise HandoffError(f"{root}/{DIRECTORY}/{NAME} keeps changing under us.", "Try again.")


def _parsed(text: str) -> Data | None:
    """Parse a text, or reuse our last write: the next write mostly finds that very text."""
    known = _last_written.get("it")
    return dict(known[1]) if known and known[0] == text else checkpoint_format.parse(text)


def remove_leftovers(root: str) -> None:
    """Remove the temporary files of a killed writer, if the checkpoint's directory exists."""
    try:
        with (
            files.directory(root, DIRECTORY) as handle,
            files.locked(handle, LOCK_NAME, WAIT_SECONDS),
        ):
            files.sweep(handle)
    except (OSError, HandoffError):
        return


def remains(root: str) -> list[str]:
    """Return the names of all files that we put into a checkpoint's directory."""
    try:
        with files.directory(root, DIRECTORY) as handle:
            return _own_names(handle)
    except FileNotFoundError:
        return []


def erase(root: str, names: list[str]) -> bool:
    """Remove these files of ours. Return True if the directory was removed as well."""
    try:
        with (
            files.directory(root, DIRECTORY) as handle,
            files.locked(handle, LOCK_NAME, WAIT_SECONDS),
        ):
            files.sweep(handle)
            for name in names:
                files.remove(handle, name)
            if os.listdir(handle) == [LOCK_NAME]:
                files.remove(handle, LOCK_NAME)
    except FileNotFoundError:
        return False
    finally:
        _last_written.clear()
    with files.directory(root) as handle:
        return files.remove_directory(handle, DIRECTORY)


def _own_names(handle: int) -> list[str]:
    ours = [name for name in os.listdir(handle) if name in (NAME, LOCK_NAME)]
    ours += [name for name in os.listdir(handle) if name.startswith(UNREADABLE)]
    with contextlib.suppress(HandoffError):
        found = files.read(handle, ".gitignore", len(_IGNORE))
        ours += [".gitignore"] if found and found[0] == _IGNORE else []
    return sorted(ours)


def _try_change(handle: int, compute: Compute) -> Written | None:
    found = _read(handle)
    if _is_being_written(found):
        time.sleep(_PAUSE_SECONDS)
        return None
    if found.problem:
        _refuse_or_set_aside(handle, found)
    new = compute(found.data)
    if new is None and found.status is not None:
        return Written(found.data or {}, found.status)
    if new is None:
        raise HandoffError("There is nothing to write.")
    new = redact_values(new)
    checkpoint_format.validate(new)
    try:
        text = checkpoint_format.render(new, found.text if found.data is not None else None)
    except checkpoint_format.CheckpointError as problem:
        raise HandoffError(f"{NAME} is left alone: {problem}.", "Mend it.") from None
    size = len(text.encode())
    if size > checkpoint_format.SIZE_MAX_BYTES:
        raise HandoffError(f"{NAME} would have {size} bytes; the limit is 64 KiB.")
    status = files.write(handle, NAME, text.encode(), expected=found.status)
    if status is None:
        return None
    _last_written["it"] = (text, new)
    return Written(dict(new), status)


def _is_being_written(found: Stored) -> bool:
    """Return True if another program changed the file just now and may not have finished."""
    known = _last_written.get("it")
    if found.status is None or (known and known[0] == found.text):
        return False
    settled = _SETTLE_SECONDS if found.status.st_size else _EMPTY_SECONDS
    return abs(clock.wall() - found.status.st_mtime) < settled


def _refuse_or_set_aside(handle: int, found: Stored) -> None:
    """Keep a person's unreadable text in a file beside the new one, never overwritten."""
    if found.text is None:
        raise HandoffError(found.problem, "Move it aside and try again.")
    aside = f"{UNREADABLE}{clock.iso().replace(':', '')}"
    files.create_once(handle, aside, found.text.encode("utf-8", "replace"))


def _access_error(root: str, verb: str, problem: OSError) -> HandoffError:
    error = HandoffPermissionError if isinstance(problem, PermissionError) else HandoffError
    return error(
        f"Cannot {verb} {root}/{DIRECTORY}/{NAME}: {problem.strerror}.",
        remedy(problem) or "Check that the project exists and that you own it.",
    )


class HandoffPermissionError(HandoffError, PermissionError):
    """We have no permission to read or write there."""


def _root(project_root: Path | None) -> Path:
    if project_root is None:
        return find_project_root()
    return Path(os.path.realpath(project_root))


def _iso(value: Any) -> Any:
    """Return a datetime as ISO text, and anything else as it is, for validation to judge."""
    return value.isoformat() if hasattr(value, "isoformat") else value
