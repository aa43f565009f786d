"""Turn changed transcripts into session states: read, parse, fold, commit.

One task reads one slice at a time, the freshest transcript first; between two slices the socket is
answered. A cursor and its fold are committed together. If there is much to read, one commit covers
several slices, since reading the meaning of the latest words takes as long as folding a slice.
A session that an older version has folded is read anew, the newest first; until that is done the
store keeps its old state, and for good if the transcript is gone.
"""

import asyncio
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from handoffd.agents.agent import Record, Transcript
from handoffd.agents.registry import agent_of
from handoffd.errors import StoreError
from handoffd.fs import mounts
from handoffd.ingest.backlog import LIVE, OLD, RECENT, Backlog, KnownTranscript, UnsavedReading
from handoffd.ingest.counters import Counters
from handoffd.ingest.session_cache import SessionCache, update_tasks
from handoffd.ingest.tailer import Comparison, Replaced, Slice, Tail, Tails
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.registry import Project, ProjectRegistry
from handoffd.runtime import clock, log
from handoffd.session.fold import fold
from handoffd.session.state import FOLD_VERSION, SessionState
from handoffd.store.core import Skip
from handoffd.store.cursor import Cursor
from handoffd.store.state import StateStore

# The socket waits for the reading no longer than this.
TURN_SECONDS = 0.005
RETRY_MAX_SECONDS = 60.0
QUARANTINE_TRIES = 3
UNSAVED_SLICES_MAX = 8


@dataclass(slots=True)
class TranscriptReader:
    """Reads transcripts into session states."""

    state: StateStore
    policy: LearningPolicy
    projects: ProjectRegistry
    changed: Callable[[SessionState, str, float], None]
    entries: dict[str, KnownTranscript] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    started_at: float = field(default_factory=clock.wall)
    # The number of scans for all transcripts so far.
    scans: int = 0
    # The reason why nothing new can be stored.
    problem: str = ""
    _retry_seconds: float = 0.0
    _backlog: Backlog = field(default_factory=Backlog)
    _tails: Tails = field(default_factory=Tails)
    _folds: SessionCache = field(init=False)
    _read_in_turn: set[str] = field(default_factory=set)
    _counters_before_turn: Counters = field(default_factory=Counters)
    _unsaved: UnsavedReading | None = None
    # The sessions of an older version that are read anew, and their transcripts still to be read.
    _refolds: dict[str, set[str]] = field(default_factory=dict)
    # The sessions that an older version has folded, and their cursors, which are of no use.
    _outdated: set[str] = field(default_factory=set)
    _stale_cursors: set[str] = field(default_factory=set)
    _refolded_in_turn: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._folds = SessionCache(self.state)

    def open(self) -> None:
        """Load the cursors of the last run; forget the sessions that cannot be used."""
        known = [project_id for project_id, _ in self.projects.core.projects()]
        for session_id in self.state.unusable_sessions(known):
            self.state.forget_session(session_id)
        self._outdated = set(self.state.outdated_sessions(FOLD_VERSION))
        for cursor in self.state.cursors():
            if cursor.session_id in self._outdated:
                self._stale_cursors.add(cursor.transcript)
            self.entries[cursor.transcript] = KnownTranscript(
                cursor, cursor.offset, cursor.mtime_ns
            )

    def note_transcript(self, transcript: Transcript, *, first: bool = False) -> None:
        """Note a transcript's size and time on disk, and queue it if they changed."""
        entry = self.entries.get(transcript.name) or self._load_entry(transcript)
        entry.scan = self.scans
        if transcript.name in self._stale_cursors:
            self._begin_refold(entry, transcript)
        if entry.cursor.path != transcript.path and not self._follow_move(entry, transcript):
            return
        if (entry.size, entry.mtime_ns) == (transcript.size, transcript.mtime_ns):
            return
        if entry.cursor.mtime_ns and entry.size == transcript.size == entry.cursor.offset:
            entry.comparison = Comparison(entry.cursor)
        entry.size, entry.mtime_ns = transcript.size, transcript.mtime_ns
        entry.failures = 0
        self._backlog.add(transcript.name, self._priority(entry, first=first), entry.mtime_ns)

    def _begin_refold(self, entry: KnownTranscript, transcript: Transcript) -> None:
        """Read a transcript from its start whose session an older version has folded."""
        session_id = entry.cursor.session_id
        self._stale_cursors.discard(transcript.name)
        if session_id in self._outdated:
            # A sub-agent's transcript alone makes no state: the session's own is waited for, too.
            self._refolds.setdefault(session_id, {session_id}).add(transcript.name)
            self._folds.held.add(session_id)
        entry.cursor = Cursor(transcript.name, session_id, transcript.path)
        entry.size = entry.mtime_ns = entry.read_to = 0

    def _end_refold(self, name: str, entry: KnownTranscript) -> None:
        """Replace the old state of a session once all its transcripts were read anew.

        If one could not be read, the old state stays.
        """
        session_id = entry.cursor.session_id
        waiting = self._refolds.get(session_id)
        if waiting is None or entry.refusal or entry.failures:
            return
        waiting.discard(name)
        if waiting:
            return
        session = self._folds.of(session_id)
        self._refolded_in_turn.add(session_id)
        self._drop_refold(session_id)
        self.state.forget_cursors(session_id)
        for known_name, known in self.entries.items():
            if known.cursor.session_id == session_id and known_name not in self._stale_cursors:
                self.state.commit(known.cursor, None)
        self._commit(entry, session)

    def _restart_refold(self, session_id: str, failed: str = "") -> None:
        """Begin again with a session of which only memory had what was read.

        The caller queues the transcript that failed.
        """
        self._folds.drop(session_id)
        for name, entry in self.entries.items():
            if entry.cursor.session_id == session_id and name not in self._stale_cursors:
                self._refolds[session_id].add(name)
                entry.cursor = Cursor(name, session_id, entry.cursor.path)
                entry.read_to = 0
                self._tails.drop(name)
                if name != failed and entry.failures < QUARANTINE_TRIES:
                    self._backlog.add(name, OLD, entry.mtime_ns)

    def _abandon_refold(self, name: str, entry: KnownTranscript) -> None:
        """Keep the old state of a session whose transcript was deleted while it was read anew."""
        session_id = entry.cursor.session_id
        if session_id not in self._refolds:
            return
        if name != session_id:
            self._end_refold(name, entry)
            return
        # It stays among those that are waited for, so nothing replaces the old state.
        self._folds.held.discard(session_id)
        self._folds.drop(session_id)

    def _drop_refold(self, session_id: str) -> None:
        self._refolds.pop(session_id, None)
        self._outdated.discard(session_id)
        self._folds.held.discard(session_id)

    def _load_entry(self, transcript: Transcript) -> KnownTranscript:
        """Add an entry for a transcript that is new, or that was gone and is back."""
        name = transcript.name
        cursor = self.state.cursor(name) or Cursor(name, transcript.session_id, transcript.path)
        entry = self.entries[name] = KnownTranscript(cursor, cursor.offset, cursor.mtime_ns)
        return entry

    def transcripts_of(self, session_ids: Collection[str]) -> dict[str, KnownTranscript]:
        """Return every transcript of some sessions, including deleted ones."""
        for cursor in self.state.cursors():
            if cursor.session_id in session_ids and cursor.transcript not in self.entries:
                entry = KnownTranscript(cursor, cursor.offset, cursor.mtime_ns, scan=self.scans)
                self.entries[cursor.transcript] = entry
        known = self.entries.items()
        return {name: entry for name, entry in known if entry.cursor.session_id in session_ids}

    def end_scan(self) -> None:
        """Drop transcripts that the scan did not find; if one comes back, the store knows it.

        A scan does not look for the sub-agents of an old session: they stay as long as the session
        does. A transcript in a pause stays, too: the pause ends at the size that was seen last.
        """
        here = {name for name, entry in self.entries.items() if entry.scan == self.scans}
        here.update(
            self._backlog.names,
            self.policy.silent_transcripts(self.policy.paused_scopes()),
        )
        known = self.entries.items()
        for name in [n for n, entry in known if here.isdisjoint((n, entry.cursor.session_id))]:
            del self.entries[name]
            self._tails.drop(name)

    def _follow_move(self, entry: KnownTranscript, transcript: Transcript) -> bool:
        """Follow a session whose file moved; return False for a second, older copy of it."""
        if os.path.exists(entry.cursor.path) and not (
            transcript.mtime_ns > entry.mtime_ns and transcript.size > entry.cursor.offset
        ):
            return False
        entry.cursor.path = transcript.path
        self._tails.drop(transcript.name)
        return True

    def _priority(self, entry: KnownTranscript, *, first: bool) -> int:
        if not first:
            return LIVE
        return RECENT if self.started_at - entry.mtime_ns / 1e9 < clock.DAY_SECONDS else OLD

    @property
    def backlog(self) -> tuple[int, int]:
        """The numbers of transcripts and of bytes that are still to be read."""
        waiting = [self.entries[name] for name in self._backlog.names if name in self.entries]
        return len(waiting), sum(entry.lag_bytes for entry in waiting)

    async def run(self) -> None:
        while True:
            await self._backlog.wait()
            try:
                self._turn()
            except StoreError as problem:
                await self._wait_for_store(problem)
            else:
                self.problem, self._retry_seconds = "", 0.0
            await asyncio.sleep(0)

    async def _wait_for_store(self, problem: StoreError) -> None:
        """Return to the stored state, and retry later: less and less often, but without end."""
        self.problem = problem.title
        log.get().warning("state_failed", why=problem.title)
        self._roll_back()
        self._retry_seconds = min(max(self._retry_seconds * 2, 1.0), RETRY_MAX_SECONDS)
        await asyncio.sleep(self._retry_seconds)

    def _turn(self) -> None:
        """Read for a few milliseconds, in one transaction of the store."""
        unsaved = self._unsaved
        self._read_in_turn = {unsaved.name} if unsaved else set()
        self._counters_before_turn = replace(unsaved.counters if unsaved else self.counters)
        self._refolded_in_turn.clear()
        until = clock.monotonic() + TURN_SECONDS
        with self.state.batch():
            self.step()
            while self._backlog and clock.monotonic() < until:
                self.step()

    def _roll_back(self) -> None:
        """Return to the state of the store: nothing of this turn was stored."""
        self._unsaved = None
        self._folds.clear()
        self.counters = self._counters_before_turn
        for session_id in self._refolded_in_turn:  # the store still has their old states
            self._outdated.add(session_id)
            self._refolds[session_id] = {session_id}
            self._folds.held.add(session_id)
        for session_id in self._refolds:
            self._restart_refold(session_id)
        for name in self._read_in_turn:
            entry = self.entries[name]
            self._restore(name, entry)
            self._backlog.add(name, LIVE, entry.mtime_ns)

    def _restore(self, name: str, entry: KnownTranscript) -> None:
        known = entry.cursor
        if known.session_id in self._refolds:
            self._restart_refold(known.session_id, name)
            return
        entry.cursor = self.state.cursor(name) or Cursor(name, known.session_id, known.path)
        entry.read_to = 0
        self._tails.drop(name)
        self._folds.drop(known.session_id)

    def keep(self) -> None:
        """Store the slices that were read but not yet committed."""
        unsaved = self._unsaved
        if unsaved is None:
            return
        try:
            self._commit_unsaved(unsaved)
        except StoreError:
            raise
        except Exception as problem:  # noqa: BLE001  one bad file must not stop the others
            if self._failed(unsaved, problem):
                self._backlog.add(unsaved.name, LIVE, unsaved.entry.mtime_ns)

    def _commit_unsaved(self, unsaved: UnsavedReading) -> None:
        self._commit(unsaved.entry, self._folds.of(unsaved.entry.cursor.session_id))
        self._unsaved = None

    def step(self) -> None:
        """Read one slice of the most important transcript."""
        queued = self._backlog.pop()
        if queued is None:
            return
        name, priority = queued
        if self._unsaved and self._unsaved.name != name:
            self.keep()
        self._read_in_turn.add(name)
        entry = self.entries[name]
        reading = self._unsaved or UnsavedReading(name, entry, replace(self.counters))
        try:
            more = self._advance(name, entry, reading)
        except Replaced:
            self.keep()
            more = self._read_again(name, entry)
        except FileNotFoundError:
            self.keep()
            self._tails.drop(name)
            entry.size = entry.cursor.offset  # a deleted file has nothing left to read
            self._abandon_refold(name, entry)
            return
        except mounts.SilentError:
            self.keep()
            self._restore(name, entry)
            entry.refusal = mounts.SILENT
            return
        except StoreError:
            raise
        except Exception as problem:  # noqa: BLE001  one bad file must not stop the others
            more = self._failed(reading, problem)
        if more:
            self._backlog.add(name, priority, entry.mtime_ns, first=self._unsaved is not None)
        else:
            self.keep()
            self._end_refold(name, entry)

    def _failed(self, reading: UnsavedReading, problem: Exception) -> bool:
        """Undo a reading; return False if it failed too often: then wait until the file changes."""
        self.counters, self._unsaved = reading.counters, None
        self._restore(reading.name, reading.entry)
        reading.entry.failures += 1
        log.failed("transcript_failed", problem, transcript=reading.name)
        return reading.entry.failures < QUARANTINE_TRIES

    def _advance(self, name: str, entry: KnownTranscript, reading: UnsavedReading) -> bool:
        mounts.require(entry.cursor.path)
        session = self._folds.of(entry.cursor.session_id)
        tail = self._tails.of(name, entry.cursor)
        if not self._may_read(name, entry, session):
            return False
        if entry.comparison:
            self.keep()
            if self._compare(entry, entry.comparison):
                return True
        silent = self.policy.next_skip(name, entry.cursor.offset)
        taken = tail.read(ceiling=silent.start if silent else None)
        entry.read_to = tail.position
        if tail.holds_a_line:
            self._tails.trim()
        else:
            self._tails.drop(name)
        if silent and not taken.lines and not taken.more:
            self.keep()
            return self._skip(entry, tail, silent)
        if not taken.lines and not taken.oversized:
            return taken.more
        if not self._fold(name, entry, session, taken):
            return False
        reading.slices += 1
        self._unsaved = reading
        if not taken.more or silent or reading.slices >= UNSAVED_SLICES_MAX:
            self._commit_unsaved(reading)
        return taken.more or silent is not None

    def _compare(self, entry: KnownTranscript, comparison: Comparison) -> bool:
        """Compare the bytes that were read with the file; return True if there are more of them."""
        if comparison.cursor is entry.cursor:
            if comparison.compare_slice():
                return True
            entry.cursor.mtime_ns = entry.mtime_ns
            self.state.commit(entry.cursor, None)
        entry.comparison = None
        return False

    def _may_read(self, name: str, entry: KnownTranscript, session: SessionState) -> bool:
        """Return True if the policy allows reading; in a pause, silence the file's unread rest."""
        project = self.projects.of(session) if session.cwd else None
        if project is None and entry.root:
            project = self.projects.at(entry.root)
        entry.refusal = self.policy.refusal(
            project.id if project else None, project.root.path if project else None
        )
        if entry.refusal == "paused":
            self.policy.silence(name, entry.cursor.offset, project.id if project else None)
            # Bytes written before the pause may still be read, up to the silent range.
            silent = self.policy.next_skip(name, entry.cursor.offset)
            return silent is not None and entry.cursor.offset < silent.start
        return not entry.refusal

    def _skip(self, entry: KnownTranscript, tail: Tail, silent: Skip) -> bool:
        end = silent.end
        if end is None:
            entry.refusal = "paused"
        if end is None or end > entry.size:
            entry.read_to = entry.size
            return False
        tail.skip_to(end)
        self.counters.silenced += 1
        self.state.commit(entry.cursor, None)
        return entry.size > end

    def _fold(self, name: str, entry: KnownTranscript, session: SessionState, taken: Slice) -> bool:
        """Fold a slice; return False if the policy refuses the project that it names."""
        records = self._records(entry.cursor.path, taken)
        project = self.projects.of(session) if session.cwd else None
        cwd = next((found for record in records if (found := record.directory)), "")
        if project is None and cwd:
            project = self.projects.at(cwd)
            entry.refusal = self.policy.refusal(project.id, project.root.path)
            if entry.refusal:
                self._discard_slice(name, entry, project)
                return False
        project_id = project.id if project else None
        for record in records:
            self._fold_record(name, session, record, project_id)
        update_tasks(session, entry.cursor.path, self.policy, project_id)
        return True

    def _discard_slice(self, name: str, entry: KnownTranscript, project: Project) -> None:
        """Forget a slice that must not be read, and start the transcript over."""
        self._unsaved = None
        entry.root = project.root.path
        self._tails.drop(name)
        self._folds.drop(entry.cursor.session_id)
        entry.cursor = Cursor(name, entry.cursor.session_id, entry.cursor.path)
        if entry.refusal == "paused":
            self.policy.silence(name, 0, project.id)

    def _records(self, path: str, taken: Slice) -> list[Record]:
        decode = agent_of(path).decode
        parsed = [decode(offset, line) for offset, line in taken.lines]
        self.counters.damaged += sum(line.damaged for line in parsed)
        self.counters.oversized += taken.oversized
        return [record for line in parsed for record in line.records]

    def _fold_record(
        self, name: str, session: SessionState, record: Record, project_id: str | None
    ) -> None:
        # A copy of a record that was written during a pause is recognised by its time.
        if self.policy.has_pauses and self.policy.is_silent(
            project_id, name, record.timestamp, session.last_time
        ):
            self.counters.silenced += 1
            return
        if fold(session, record, name):
            self.counters.records += 1
        else:
            self.counters.repeated += 1

    def _commit(self, entry: KnownTranscript, session: SessionState) -> None:
        if session.session_id in self._refolds:
            return  # the old state is better than a part of the new one
        project = self.projects.of(session) if session.cwd else None
        stored, masked = self._folds.as_stored(session, project.id if project else None)
        self.counters.redacted += masked
        self.state.commit(entry.cursor, stored)
        entry.share_numbers()
        self.counters.last_record_at = clock.wall()
        if project:
            self.changed(session, project.id, clock.parse(session.heard_time))

    def _read_again(self, name: str, entry: KnownTranscript) -> bool:
        """Read a session again whose file was truncated, replaced or rewritten."""
        self.counters.replaced += 1
        self._tails.drop(name)
        entry.read_to = 0
        if self.policy.mark_rewritten(name):
            entry.cursor = Cursor(name, entry.cursor.session_id, entry.cursor.path)
            return True
        self.start_anew({entry.cursor.session_id})
        return False

    def start_anew(self, session_ids: set[str]) -> None:
        """Forget the states of sessions, and read their transcripts from the start."""
        if self._unsaved and self._unsaved.entry.cursor.session_id in session_ids:
            self._unsaved = None
        for session_id in session_ids:
            self.state.forget_session(session_id)
            self._drop_refold(session_id)
            self._folds.drop(session_id)
        for name, known in self.entries.items():
            session_id = known.cursor.session_id
            if session_id in session_ids:
                known.cursor = Cursor(name, session_id, known.cursor.path)
                known.read_to = 0
                self._tails.drop(name)
                self._backlog.add(name, LIVE, known.mtime_ns)

    @property
    def quarantined(self) -> int:
        return sum(entry.failures >= QUARANTINE_TRIES for entry in self.entries.values())

    def requeue(self, *refusals: str) -> None:
        """Queue transcripts that were refused for these reasons: they may be allowed now."""
        for name, entry in self.entries.items():
            if entry.refusal in refusals:
                entry.refusal = ""
                self._backlog.add(name, RECENT, entry.mtime_ns)
