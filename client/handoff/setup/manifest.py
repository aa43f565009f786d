"""What setup has put in, written down before it is done: teardown goes by it after any kill."""

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
    """A file that we changed: what it was without us, and each content that we gave it."""

    part: str
    backup: str | None
    ours: list[str]
    # Of a file that no copy may be kept of: which of the places for ours were there before, and
    # how to get from each content of ours, by its digest, to what was there.
    outline: str | None = None
    reversals: dict[str, Reversal] = field(default_factory=dict)

    def left_by_us(self, data: bytes) -> bool:
        name = digest(data)
        return name in self.ours and (self.outline is None or name in self.reversals)

    def reversed(self, data: bytes) -> bytes:
        """Return what a file was without us: to the byte while it is ours, else in outline."""
        found = self.reversals.get(digest(data))
        if found is None:
            return (self.outline or "").encode()
        return undo(data.decode(), found).encode()


@dataclass
class Manifest:
    files: dict[str, ManifestRecord] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    # Those that we made; they go when they are empty.
    directories: list[str] = field(default_factory=list)
    # systemd, launchd or background; empty: it was there before.
    service: str = ""
    # What we put into our own configuration's list of that name.
    config_dirs: list[str] = field(default_factory=list)
    # The directories of Claude Code's settings into which the plugin was installed.
    plugin: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.links or self.service or self.plugin)

    def backup_of(self, path: str) -> bytes | None:
        """Return what a file was without us."""
        record = self.files.get(path)
        if record is None:
            return None
        if record.backup:
            return read(backup_path(record.backup))
        return None if record.outline is None else record.reversed(read(path) or b"")

    def enter(self, draft: Draft, baseline: bytes | None) -> None:
        """Note a change that is about to be made; what the file was without us is kept."""
        known = self.files.get(draft.path) or ManifestRecord(draft.part, None, [])
        # Of a file that somebody changed since, only what we give it now can be called ours.
        ours = known.ours if draft.before is not None and known.left_by_us(draft.before) else []
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
        """Put back what was noted before."""
        if data is None:
            erase()
        else:
            _write(_file(), data)


def load() -> Manifest:
    """Return what is noted; without a note that can be read, nothing."""
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
    """Forget it all; backups go as well."""
    shutil.rmtree(_directory(), ignore_errors=True)


def forget_but(kept: Collection[str]) -> None:
    """Forget it all but for some backups."""
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
def alone() -> Iterator[None]:
    """Let nobody else set up or tear down at the same time."""
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
