"""Reads and writes conductor/ on disk safely: the tracks and their records."""

import heapq
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from handoff.common.errors import HandoffError, UnsafePathError
from handoffd.fs import files
from handoffd.runtime import clock
from handoffd.tracks import index, metadata
from handoffd.tracks.metadata import Metadata
from handoffd.tracks.parallel_workers import STATE_FILES, ParallelWorker, read_state
from handoffd.tracks.plan import TrackPlan, read_plan
from handoffd.tracks.record import GENERAL, TrackRecord, parse, read_name, render, summary
from handoffd.tracks.settings import TrackSettings, read_settings
from handoffd.tracks.tracks_file import BEGUN, DONE, TrackMark, read_marks

CONDUCTOR = "conductor"
TRACKS = f"{CONDUCTOR}/tracks"
HANDOFFS = f"{CONDUCTOR}/handoffs"
ARCHIVE = "archive"
ARCHIVED_TRACKS = f"{CONDUCTOR}/{ARCHIVE}"
TRACKS_FILE = "tracks.md"
INDEX = "index.md"
METADATA = "metadata.json"
LAST_ACTIVITY = ".last_activity"
# Records are committed with the project, so they have the usual modes.
FILE_MODE = 0o644
DIRECTORY_MODE = 0o755
ENTRIES_MAX = 2000
_DOCUMENT_BYTES = 1 << 20
_WORKFLOW_BYTES = 256 << 10
_RECORD_BYTES = 512 << 10
_ID_BYTES = 200
_TRIES = 20
_PAUSE_SECONDS = 0.01
_ENDED = frozenset({"complete", "completed", "archived", "cancelled"})
# A handoff of Conductor-Beads, beside the plan of its track.
_BESIDE_PLAN = re.compile(
    r"(?i)handoff(?:[_-](?P<date>\d{8})[_T-](?P<time>\d{4}(?:\d\d)?)Z?)?(?:[_-].*)?\.md"
)


class Track(NamedTuple):
    """A track's directory. `metadata` is None without a usable file; `problem` says why."""

    id: str
    metadata: Metadata | None
    changed_seconds: float
    has_spec: bool
    has_plan: bool
    problem: str = ""
    # Its entry in tracks.md.
    mark: TrackMark = TrackMark()
    archived: bool = False

    @property
    def is_active(self) -> bool:
        """Return True if the track is neither complete, archived nor cancelled."""
        if self.archived or self.mark.box == DONE:
            return False
        if self.metadata is None:
            return True
        return self.metadata.status.lower() not in _ENDED and self.metadata.state != "ARCHIVED"

    @property
    def is_begun(self) -> bool:
        """Return True if the track is active, and its metadata or tracks.md says: in progress."""
        begun = self.metadata is not None and self.metadata.status.lower() == "in_progress"
        return self.is_active and (begun or self.mark.box == BEGUN)

    @property
    def epics(self) -> list[str]:
        return self.metadata.epics if self.metadata else []


class StoredRecord(NamedTuple):
    """A record on disk: its path relative to the root, and its time."""

    path: str
    track_id: str
    # ISO 8601 with milliseconds in UTC, from the name, or else from the file's time.
    timestamp: str
    archived: bool = False


Found = tuple[bytes, os.stat_result]


@dataclass(frozen=True, slots=True)
class ConductorDirectory:
    """The conductor/ of a project. Reading never creates anything, and follows no symlink."""

    root: str

    @property
    def exists(self) -> bool:
        with self._open_to_read(CONDUCTOR) as handle:
            return handle is not None

    def stamp(self) -> str:
        """Return a text that changes if a track is added, gets a document, a state or a mark."""
        return " ".join(_stat_marks(f"{self.root}/{CONDUCTOR}", f"{self.root}/{TRACKS}"))

    # Reading

    def tracks(self) -> list[Track]:
        """Return every track under conductor/tracks, the most recently changed first."""
        names = self._names_in(TRACKS)
        marks = self._marks(names)
        found = [track for name in names if (track := self._track(name, marks))]
        return sorted(found, key=lambda track: (-track.changed_seconds, track.id))

    def archived_ids(self) -> list[str]:
        """Return the names of the tracks under conductor/archive."""
        return self._names_in(ARCHIVED_TRACKS)

    def _names_in(self, directory: str) -> list[str]:
        with self._open_to_read(directory) as handle:
            return _directories(handle) if handle is not None else []

    def _marks(self, ids: Collection[str]) -> Mapping[str, TrackMark]:
        found = self._read(CONDUCTOR, TRACKS_FILE, _WORKFLOW_BYTES, cut=True)
        return read_marks(_readable_text(found[0]), frozenset(ids)) if found else {}

    def _track(self, name: str, marks: Mapping[str, TrackMark]) -> Track | None:
        try:
            return self._read_track(name, marks)
        except OSError as problem:
            # One unreadable track must not hide the others.
            return Track(name, None, 0.0, False, False, f"{name}: {problem.strerror}.")

    def track(self, track_id: str) -> Track | None:
        """Return a track, also an archived one."""
        return self._read_track(track_id, self._marks([track_id]))

    def _read_track(self, track_id: str, marks: Mapping[str, TrackMark]) -> Track | None:
        directory = self.track_directory(track_id)
        with self._open_to_read(directory) as handle:
            if handle is None or track_id == GENERAL:
                return None
            names = (METADATA, "plan.md", "spec.md", "design.md")
            times = {name: _mtime(handle, name) for name in names}
            changed = max([os.fstat(handle).st_mtime, *filter(None, times.values())])
        found, problem = self._metadata(directory)
        spec, plan = times["spec.md"] is not None, times["plan.md"] is not None
        mark = marks.get(track_id, TrackMark())
        archived = not directory.startswith(f"{TRACKS}/")
        return Track(track_id, found, changed, spec, plan, problem, mark, archived)

    def track_directory(self, track_id: str) -> str:
        """Return the directory of a track relative to the root: in the archive if only there."""
        name = _checked_name(track_id)
        for directory in (f"{TRACKS}/{name}", f"{ARCHIVED_TRACKS}/{name}"):
            with self._open_to_read(directory) as handle:
                if handle is not None:
                    return directory
        return f"{TRACKS}/{name}"

    def _metadata(self, directory: str) -> tuple[Metadata | None, str]:
        try:
            found = self._read(directory, METADATA, _DOCUMENT_BYTES)
            return (metadata.parse(_text(found[0])) if found else None), ""
        except HandoffError as problem:
            return None, problem.title
        except OSError as problem:
            return None, f"{METADATA} cannot be read: {problem.strerror}."

    def plan(self, track_id: str) -> TrackPlan | None:
        directory = self.track_directory(track_id)
        found = self._read(directory, "plan.md", _DOCUMENT_BYTES, cut=True)
        return read_plan(_readable_text(found[0])) if found else None

    def settings(self) -> TrackSettings:
        found = self._read(CONDUCTOR, "workflow.md", _WORKFLOW_BYTES, cut=True)
        return read_settings(_readable_text(found[0])) if found else TrackSettings()

    def workers(self, track_id: str, now: float) -> list[ParallelWorker]:
        directory = self.track_directory(track_id)
        workers: list[ParallelWorker] = []
        for name in STATE_FILES:
            # A file that is cut cannot be parsed, so that its workers count as unknown.
            found = self._read(directory, name, _DOCUMENT_BYTES, cut=True)
            workers += read_state(_readable_text(found[0]), found[1].st_mtime, now) if found else []
        return workers

    def records(self, track_id: str | None = None) -> list[StoredRecord]:
        """Return the records of a track, or of all tracks, the newest first, archived ones last."""
        tracks = self._names_in(HANDOFFS) if track_id is None else [_checked_name(track_id)]
        return _newest_first(
            record
            for track in tracks
            for old in (False, True)
            for record in self._records_in(
                self.handoffs_directory(track) + (f"/{ARCHIVE}" if old else ""), track, old
            )
        )

    def handoffs(self, track_id: str | None = None) -> list[StoredRecord]:
        """Return the records, and the handoffs of Conductor-Beads, which lie beside the plan."""
        theirs = (
            handoff
            for place, old in ((TRACKS, False), (ARCHIVED_TRACKS, True))
            for track in (self._names_in(place) if track_id is None else [_checked_name(track_id)])
            for handoff in self._records_in(f"{place}/{track}", track, old, _BESIDE_PLAN.fullmatch)
        )
        return _newest_first([*self.records(track_id), *theirs])

    def _records_in(
        self,
        directory: str,
        track_id: str,
        archived: bool,
        wanted: Callable[[str], object] = lambda _name: True,
    ) -> Iterator[StoredRecord]:
        with self._open_to_read(directory) as handle:
            if handle is None:
                return
            # If there are too many, the newest by name are kept.
            names = (name for name in os.listdir(handle) if _is_record(name) and wanted(name))
            times = [(name, _mtime(handle, name)) for name in heapq.nlargest(ENTRIES_MAX, names)]
        for name, mtime in times:
            if mtime is not None:
                named = read_name(name)
                made = named.timestamp if named else _time_by_name(name, mtime)
                yield StoredRecord(f"{directory}/{name}", track_id, made, archived)

    def read(self, path: str) -> TrackRecord | None:
        """Read a record by its path relative to the root."""
        directory, _, name = path.rpartition("/")
        if not path.startswith(f"{CONDUCTOR}/") or not all(map(_is_safe, path.split("/"))):
            raise HandoffError(
                f"{path!r} is no record of this project.", "Name one below conductor/."
            )
        found = self._read(directory, name, _RECORD_BYTES, cut=True)
        if not found:
            return None
        record = parse(_readable_text(found[0]), path)
        by_name = _time_by_name(name, found[1].st_mtime)
        # A date in bold is less precise than the name.
        guessed = bool(record.warning) and _BESIDE_PLAN.fullmatch(name)
        return replace(record, timestamp=by_name if guessed else record.timestamp or by_name)

    def handoffs_directory(self, track_id: str) -> str:
        """Return the directory of a track's records, relative to the root."""
        return f"{HANDOFFS}/{_checked_name(track_id)}"

    @contextmanager
    def _open_to_read(self, directory: str) -> Iterator[int | None]:
        """Open a directory to read. Yield None if it does not exist or is a symlink."""
        with ExitStack() as stack:
            handle = None
            with suppress(FileNotFoundError, UnsafePathError):
                handle = stack.enter_context(files.directory(self.root, directory))
            yield handle

    def _read(self, directory: str, name: str, limit: int, *, cut: bool = False) -> Found | None:
        with self._open_to_read(directory) as handle:
            if handle is None:
                return None
            with suppress(UnsafePathError):
                return files.read(handle, name, limit, cut=cut)
        return None

    # Writing

    @contextmanager
    def locked(self, track_id: str, wait_seconds: float = 5.0) -> Iterator[None]:
        """Exclude other writers of ours (flock on conductor/ itself: no lock file).

        If there is no conductor/ yet, the root is locked exclusively. A writer that finds one
        takes a shared lock on the root, so that a conductor/ made meanwhile does not let a second
        writer in.
        """
        _checked_name(track_id)
        with ExitStack() as stack:
            root = stack.enter_context(files.directory(self.root))
            exists = self.exists
            files.lock_directory(root, self.root, wait_seconds, shared=exists)
            if exists:
                conductor = stack.enter_context(files.directory(self.root, CONDUCTOR))
                files.lock_directory(conductor, f"{self.root}/{CONDUCTOR}", wait_seconds)
            yield

    def put_record(self, name: str, record: TrackRecord) -> str:
        """Write a record unless its file exists. Return the path relative to the root."""
        directory = self.handoffs_directory(record.track_id)
        if not _is_safe(name) or not _is_record(name):
            raise HandoffError(f"{name!r} is no name of a record.", "Let it end in .md.")
        data = render(record).encode("utf-8", "replace")
        with self._open_to_write(directory) as handle:
            files.sweep(handle)
            files.write(handle, name, data, expected=None, mode=FILE_MODE)
        return f"{directory}/{name}"

    def _open_to_write(self, directory: str) -> AbstractContextManager[int]:
        return files.directory(self.root, directory, create=True, mode=DIRECTORY_MODE)

    def change_metadata(self, track_id: str, change: Callable[[str], str]) -> str | None:
        """Rewrite metadata.json if `change` changes it, without losing another program's write.

        Return the text that is in the file now, or None if the file does not exist.
        """
        if track_id == GENERAL:
            return None
        directory = self.track_directory(track_id)
        try:
            with files.directory(self.root, directory) as handle:
                files.sweep(handle)
                return _rewrite(
                    handle, METADATA, lambda text: None if text is None else change(text)
                )
        except FileNotFoundError:
            return None

    def complete_index(self, track_id: str, now: str) -> bool:
        """Add a row for every record without one. Return True if the index had to be repaired."""
        directory = self.handoffs_directory(track_id)
        kept = sorted(self.records(track_id), key=lambda record: record.timestamp)
        if not kept:
            return False
        repaired = False

        def complete(text: str | None) -> str:
            nonlocal repaired
            known = {file.rsplit("/", 1)[-1] for file in index.files_of(text or "")}
            missing = [record for record in kept if record.path.rsplit("/", 1)[-1] not in known]
            rows = [row for record in missing if (row := self._row(record, directory))]
            made, repaired = index.with_rows(text, track_id, rows, now)
            return made

        with self._open_to_write(directory) as handle:
            files.sweep(handle)
            _rewrite(handle, INDEX, complete)
        return repaired

    def _row(self, kept: StoredRecord, directory: str) -> index.Row | None:
        record = self.read(kept.path)
        if record is None:
            return None
        file = kept.path.removeprefix(f"{directory}/")
        return index.Row(kept.timestamp, record.trigger, record.bead_id, summary(record), file)

    def touch(self) -> None:
        """Update the time of conductor/.last_activity."""
        with suppress(FileNotFoundError), files.directory(self.root, CONDUCTOR) as handle:
            files.touch(handle, LAST_ACTIVITY, FILE_MODE)


def _newest_first(found: Iterable[StoredRecord]) -> list[StoredRecord]:
    """Sort records, archived ones last."""
    # If two have the same time, the longer name has the later number.
    ordered = sorted(
        found, key=lambda kept: (kept.timestamp, len(kept.path), kept.path), reverse=True
    )
    return sorted(ordered, key=lambda kept: kept.archived)


def _time_by_name(name: str, mtime: float) -> str:
    """Return the time of another writer's handoff: by its name, but no later than its file's time.

    Its name has the local time of its writer, who may live in another zone.
    """
    said = _BESIDE_PLAN.fullmatch(name)
    if said and said["date"]:
        with suppress(ValueError, OverflowError):
            form = "%Y%m%d%H%M%S" if len(said["time"]) > len("HHMM") else "%Y%m%d%H%M"
            moment = time.mktime(time.strptime(said["date"] + said["time"], form))
            return clock.iso_milliseconds(min(moment, mtime))
    return clock.iso_milliseconds(mtime)


def _rewrite(handle: int, name: str, change: Callable[[str | None], str | None]) -> str | None:
    """Replace a file by the result of `change`. Retry if another writer came in between."""
    for _ in range(_TRIES):
        found = files.read(handle, name, _DOCUMENT_BYTES)
        before = _text(found[0]) if found else None
        after = change(before)
        if after is None or after == before:
            return before
        # Bytes that are not UTF-8 are written back unchanged.
        data = after.encode("utf-8", "surrogateescape")
        mode = stat.S_IMODE(found[1].st_mode) if found else FILE_MODE
        expected = found[1] if found else None
        if files.write(handle, name, data, expected=expected, mode=mode) is not None:
            return after
        time.sleep(_PAUSE_SECONDS)
    raise HandoffError(f"{name} keeps changing under us.", "Try again.")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _readable_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _checked_name(track_id: str) -> str:
    if not _is_safe(track_id):
        raise HandoffError(
            f"{track_id[:_ID_BYTES]!r} is no track's name.", "See the names in conductor/tracks."
        )
    return track_id


def _is_safe(part: str) -> bool:
    """Return True if a name is one visible component of a path, and not too long."""
    if not part or part.startswith(".") or "/" in part or not part.isprintable():
        return False
    return len(part.encode("utf-8", "replace")) <= _ID_BYTES


def _is_record(name: str) -> bool:
    return _is_safe(name) and name.endswith(".md") and name.lower() != INDEX


def _directories(handle: int) -> list[str]:
    with os.scandir(handle) as entries:
        names = (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return heapq.nsmallest(ENTRIES_MAX, filter(_is_safe, names))


def _stat_marks(conductor: str, tracks: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(tracks))[:ENTRIES_MAX]
    except OSError:
        names = []
    paths = [f"{conductor}/workflow.md", f"{conductor}/{TRACKS_FILE}"]
    for name in names:
        paths += [f"{tracks}/{name}", f"{tracks}/{name}/{METADATA}"]
    for path in paths:
        with suppress(OSError):
            found = os.lstat(path)
            yield f"{path}:{found.st_mtime_ns}:{found.st_size}"


def _mtime(handle: int, name: str) -> float | None:
    """Return the time of a regular file; None for anything else."""
    try:
        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
    except OSError:
        return None
    return status.st_mtime if stat.S_ISREG(status.st_mode) else None
