"""The notes on setup's changes, written before each change: teardown uses them after any kill."""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from handoff import __version__
from handoff.common import paths
from handoff.common.errors import HandoffError
from handoff.common.safe_parsing import load_json
from handoff.setup import claude_entries
from handoff.setup.foreign_files import Draft, digest, is_memory, make_directories, read, replace
from handoff.setup.text_diff import Reversal, reversal, undo


@dataclass
class ManifestRecord:
    """A file that we changed: a backup of its content without us, and digests of our contents."""

    part: str
    backup: str | None
    ours: list[str]
    # For a file of which no copy may be kept: the places for our entries that were there before,
    # and, per digest of our contents, the way back to the content before.
    outline: str | None = None
    reversals: dict[str, Reversal] = field(default_factory=dict)

    def is_ours(self, data: bytes) -> bool:
        name = digest(data)
        return name in self.ours and (self.outline is None or name in self.reversals)

    def reversed(self, data: bytes) -> bytes:
        """Return the content without us: exact if `data` is ours unchanged, else the outline."""
        found = self.reversals.get(digest(data))
        if found is None:
            return (self.outline or "").encode()
        return undo(data.decode(), found).encode()


@dataclass
class Manifest:
    files: dict[str, ManifestRecord] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    # The directories that we made; they are removed when they are empty.
    directories: list[str] = field(default_factory=list)
    # systemd, launchd or background; empty if the service was there before.
    service: str = ""
    # The entries that we put into the list of that name in our own configuration.
    config_dirs: list[str] = field(default_factory=list)
    # The directories of Claude Code's settings into which the plugin was installed.
    plugin: list[str] = field(default_factory=list)
    # Of the part http: the packages before and after, settings with their former values, the token.
    http: dict[str, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.links or self.service or self.plugin or self.http)

    def backup_of(self, path: str) -> bytes | None:
        """Return the content of a file without us, or None."""
        record = self.files.get(path)
        if record is None:
            return None
        if record.backup:
            return read(backup_path(record.backup))
        return None if record.outline is None else record.reversed(read(path) or b"")

    def enter(self, draft: Draft, baseline: bytes | None) -> None:
        """Note a change that is about to be made, and keep the content of the file without us."""
        known = self.files.get(draft.path) or ManifestRecord(draft.part, None, [])
        # If the file has changed since, only the new content counts as ours.
        ours = known.ours if draft.before is not None and known.is_ours(draft.before) else []
        new = [] if draft.after is None else [digest(draft.after)]
        record = ManifestRecord(draft.part, None, list(dict.fromkeys(ours + new)))
        if not is_memory(draft.path):
            record.backup = _keep(draft.path, baseline)
        elif baseline is not None:
            record.outline = claude_entries.outline(baseline.decode())
            record.reversals = {
                digest(data): reversal(data.decode(), baseline.decode())
                for data in (draft.before, draft.after)
                if data is not None and digest(data) in record.ours
            }
        self.files[draft.path] = record
        self.enter_directories(draft.missing_directories)

    def enter_directories(self, missing: list[str]) -> None:
        self.directories = list(dict.fromkeys([*self.directories, *missing]))

    def save(self) -> None:
        text = json.dumps({"handoff": __version__, **asdict(self)}, indent=2) + "\n"
        _write(_file(), text.encode())

    def restore(self, data: bytes | None) -> None:
        """Restore the earlier notes."""
        if data is None:
            erase()
        else:
            _write(_file(), data)


def load() -> Manifest:
    """Return the notes; they are empty if there are none that can be read."""
    try:
        data: dict[str, Any] = load_json(read(_file()) or b"{}")
        data.pop("handoff", None)
        files = {path: ManifestRecord(**record) for path, record in data.pop("files", {}).items()}
        return Manifest(files, **data)
    except (OSError, ValueError, TypeError, AttributeError):
        return Manifest()


def saved() -> bytes | None:
    return read(_file())


def erase() -> None:
    """Remove the notes and the backups."""
    shutil.rmtree(_directory(), ignore_errors=True)


def forget_but(kept: Collection[str]) -> None:
    """Remove the notes and the backups, except for some backups."""
    if not kept:
        erase()
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_file())
    for path in backups():
        if os.path.basename(path) not in kept:
            os.unlink(path)


def backups() -> list[str]:
    try:
        return [backup_path(name) for name in sorted(os.listdir(backup_path("")))]
    except FileNotFoundError:
        return []


def backup_path(name: str) -> str:
    return f"{_directory()}/backup/{name}"


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Keep other processes from setup or teardown at the same time."""
    path = f"{_directory()}/lock"
    make_directories(path)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HandoffError("Another `handoff setup` or `teardown` is at work.") from None
        yield


def _directory() -> str:
    return f"{paths.state_dir()}/setup"


def _file() -> str:
    return f"{_directory()}/setup.json"


def _keep(path: str, baseline: bytes | None) -> str | None:
    if baseline is None:
        return None
    name = f"{digest(os.fsencode(path))[:12]}-{os.path.basename(path)}"
    _write(backup_path(name), baseline)
    return name


def _write(path: str, data: bytes) -> None:
    before = read(path)
    if before != data:
        replace(Draft(path, "setup", before, data), before, data)
