"""From changed transcripts to session states: read, parse, fold, commit.

One task does it, a slice at a time, the freshest first; between two slices the socket is
answered. A cursor and its fold are committed together; where there is much to read, once for
several slices, since making sense of what was said last takes as long as folding one.
"""

import asyncio
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from handoffd.agents.claude_code.records import Record, parse_line
from handoffd.agents.claude_code.transcripts import Transcript
from handoffd.errors import StoreError
from handoffd.fs import mounts
from handoffd.ingest.backlog import LIVE, OLD, RECENT, Backlog, KnownTranscript, UnsavedReading
from handoffd.ingest.counters import Counters
from handoffd.ingest.session_cache import SessionCache, take_tasks
from handoffd.ingest.tailer import Comparison, Replaced, Slice, Tail, Tails
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.registry import Project, ProjectRegistry
from handoffd.runtime import clock, log
from handoffd.session.fold import fold
from handoffd.session.state import FOLD_VERSION, SessionState
from handoffd.store.core import Skip
from handoffd.store.cursor import Cursor
from handoffd.store.state import StateStore

# How long the socket may wait for the reading.
TURN_SECONDS = 0.005
RETRY_MAX_SECONDS = 60.0
QUARANTINE_TRIES = 3
HELD_SLICES = 8


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
    # How often all transcripts were looked for.
    scans: int = 0
    # Why nothing new can be kept.
    problem: str = ""
    _retry_seconds: float = 0.0
    _backlog: Backlog = field(default_factory=Backlog)
    _tails: Tails = field(default_factory=Tails)
    _folds: SessionCache = field(init=False)
    _stepped: set[str] = field(default_factory=set)
    _counted: Counters = field(default_factory=Counters)
    _held: UnsavedReading | None = None

    def __post_init__(self) -> None:
        self._folds = SessionCache(self.state)

    def open(self) -> None:
        """Take up the cursors of the last run; what is folded otherwise now is folded anew."""
        known = [project_id for project_id, _ in self.projects.core.projects()]
        for session_id in self.state.outdated_sessions(FOLD_VERSION, known):
            self.state.forget_session(session_id)
        for cursor in self.state.cursors():
            self.entries[cursor.transcript] = KnownTranscript(
                cursor, cursor.offset, cursor.mtime_ns
            )

    def found(self, transcript: Transcript, *, first: bool = False) -> None:
        """Take note of a transcript on disk, and queue it if it is not fully read."""
        entry = self.entries.get(transcript.name) or self._recall(transcript)
        entry.scan = self.scans
        if entry.cursor.path != transcript.path and not self._moved(entry, transcript):
            return
        if (entry.size, entry.mtime_ns) == (transcript.size, transcript.mtime_ns):
            return
        if entry.cursor.mtime_ns and entry.size == transcript.size == entry.cursor.offset:
            entry.doubt = Comparison(entry.cursor)
        entry.size, entry.mtime_ns = transcript.size, transcript.mtime_ns
        entry.failures = 0
        self._backlog.add(transcript.name, self._priority(entry, first=first), entry.mtime_ns)

    def _recall(self, transcript: Transcript) -> KnownTranscript:
        """Take up a transcript that is new, or that was gone and is back."""
        name = transcript.name
        cursor = self.state.cursor(name) or Cursor(name, transcript.session_id, transcript.path)
        entry = self.entries[name] = KnownTranscript(cursor, cursor.offset, cursor.mtime_ns)
        return entry

    def transcripts_of(self, session_ids: Collection[str]) -> dict[str, KnownTranscript]:
        """Return every transcript of some sessions, also those that are gone."""
        for cursor in self.state.cursors():
            if cursor.session_id in session_ids and cursor.transcript not in self.entries:
                entry = KnownTranscript(cursor, cursor.offset, cursor.mtime_ns, scan=self.scans)
                self.entries[cursor.transcript] = entry
        known = self.entries.items()
        return {name: entry for name, entry in known if entry.cursor.session_id in session_ids}

    def end_scan(self) -> None:
        """Let go of what the scan did not find: should it come back, the store knows it.

        The sub-agents of an old session are not looked for: they stay as long as it does. What is
        silent stays, too: a pause ends where it ended when it was seen last.
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

    def _moved(self, entry: KnownTranscript, transcript: Transcript) -> bool:
        """Follow a session whose file moved; a second, older copy of it is left alone."""
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
        """Return how many transcripts and bytes are still to be read."""
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
        """Go back to what is kept, and try again later: less and less often, but for good."""
        self.problem = problem.title
        log.get().warning("state_failed", why=problem.title)
        self._take_back()
        self._retry_seconds = min(max(self._retry_seconds * 2, 1.0), RETRY_MAX_SECONDS)
        await asyncio.sleep(self._retry_seconds)

    def _turn(self) -> None:
        """Read for a few milliseconds; what was read is written to disk at once."""
        held = self._held
        self._stepped = {held.name} if held else set()
        self._counted = replace(held.counters if held else self.counters)
        until = clock.monotonic() + TURN_SECONDS
        with self.state.batch():
            self.step()
            while self._backlog and clock.monotonic() < until:
                self.step()

    def _take_back(self) -> None:
        """Go back to what the store knows: nothing of this turn was kept."""
        self._held = None
        self._folds.clear()
        self.counters = self._counted
        for name in self._stepped:
            entry = self.entries[name]
            self._restore(name, entry)
            self._backlog.add(name, LIVE, entry.mtime_ns)

    def _restore(self, name: str, entry: KnownTranscript) -> None:
        known = entry.cursor
        entry.cursor = self.state.cursor(name) or Cursor(name, known.session_id, known.path)
        entry.read_to = 0
        self._tails.drop(name)
        self._folds.drop(known.session_id)

    def keep(self) -> None:
        """Write down what was read, and held back until more of it would be."""
        held = self._held
        if held is None:
            return
        try:
            self._settle(held)
        except StoreError:
            raise
        except Exception as problem:  # noqa: BLE001  one bad file must not stop the others
            if self._failed(held, problem):
                self._backlog.add(held.name, LIVE, held.entry.mtime_ns)

    def _settle(self, held: UnsavedReading) -> None:
        self._commit(held.entry, self._folds.of(held.entry.cursor.session_id))
        self._held = None

    def step(self) -> None:
        """Read one slice of the transcript that matters most."""
        taken = self._backlog.take()
        if taken is None:
            return
        name, priority = taken
        if self._held and self._held.name != name:
            self.keep()
        self._stepped.add(name)
        entry = self.entries[name]
        reading = self._held or UnsavedReading(name, entry, replace(self.counters))
        try:
            more = self._advance(name, entry, reading)
        except Replaced:
            self.keep()
            more = self._start_over(name, entry)
        except FileNotFoundError:
            self.keep()
            self._tails.drop(name)
            entry.size = entry.cursor.offset  # what is gone cannot be behind
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
            self._backlog.add(name, priority, entry.mtime_ns, first=self._held is not None)
        else:
            self.keep()

    def _failed(self, reading: UnsavedReading, problem: Exception) -> bool:
        """Try again a few times, then leave the transcript alone until it changes."""
        self.counters, self._held = reading.counters, None
        self._restore(reading.name, reading.entry)
        reading.entry.failures += 1
        log.failed("transcript_failed", problem, transcript=reading.name)
        return reading.entry.failures < QUARANTINE_TRIES

    def _advance(self, name: str, entry: KnownTranscript, reading: UnsavedReading) -> bool:
        mounts.require(entry.cursor.path)
        session = self._folds.of(entry.cursor.session_id)
        tail = self._tails.of(name, entry.cursor)
        if not self._admit(name, entry, session):
            return False
        if entry.doubt:
            self.keep()
            if self._compare(entry, entry.doubt):
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
        self._held = reading
        if not taken.more or silent or reading.slices >= HELD_SLICES:
            self._settle(reading)
        return taken.more or silent is not None

    def _compare(self, entry: KnownTranscript, doubt: Comparison) -> bool:
        """Look whether what was read is what stands there; returns whether there is more of it."""
        if doubt.cursor is entry.cursor:
            if doubt.go_on():
                return True
            entry.cursor.mtime_ns = entry.mtime_ns
            self.state.commit(entry.cursor, None)
        entry.doubt = None
        return False

    def _admit(self, name: str, entry: KnownTranscript, session: SessionState) -> bool:
        """Ask the gate; a transcript found during a pause is silent from where it was read to."""
        project = self.projects.of(session) if session.cwd else None
        if project is None and entry.root:
            project = self.projects.at(entry.root)
        entry.refusal = self.policy.refusal(
            project.id if project else None, project.root.path if project else None
        )
        if entry.refusal == "paused":
            self.policy.silence(name, entry.cursor.offset, project.id if project else None)
            # What was there when the pause began may still be read, up to the silent range.
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
        tail.jump(end)
        self.counters.silenced += 1
        self.state.commit(entry.cursor, None)
        return entry.size > end

    def _fold(self, name: str, entry: KnownTranscript, session: SessionState, taken: Slice) -> bool:
        """Fold a slice; False if its project turns out to be none of our business."""
        records = self._records(taken)
        project = self.projects.of(session) if session.cwd else None
        cwd = next((found for record in records if (found := record.directory)), "")
        if project is None and cwd:
            project = self.projects.at(cwd)
            entry.refusal = self.policy.refusal(project.id, project.root.path)
            if entry.refusal:
                self._withdraw(name, entry, project)
                return False
        project_id = project.id if project else None
        for record in records:
            self._fold_record(name, session, record, project_id)
        take_tasks(session, entry.cursor.path, self.policy, project_id)
        return True

    def _withdraw(self, name: str, entry: KnownTranscript, project: Project) -> None:
        """Forget a slice that should not have been read."""
        self._held = None
        entry.root = project.root.path
        self._tails.drop(name)
        self._folds.drop(entry.cursor.session_id)
        entry.cursor = Cursor(name, entry.cursor.session_id, entry.cursor.path)
        if entry.refusal == "paused":
            self.policy.silence(name, 0, project.id)

    def _records(self, taken: Slice) -> list[Record]:
        parsed = [parse_line(offset, line) for offset, line in taken.lines]
        self.counters.damaged += sum(line.damaged for line in parsed)
        self.counters.oversized += taken.oversized
        return [record for line in parsed for record in line.records]

    def _fold_record(
        self, name: str, session: SessionState, record: Record, project_id: str | None
    ) -> None:
        # A copy of what was written during a pause is recognised by its time.
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
        project = self.projects.of(session) if session.cwd else None
        stored, masked = self._folds.stored(session, project.id if project else None)
        self.counters.redacted += masked
        self.state.commit(entry.cursor, stored)
        entry.share()
        self.counters.last_record_at = clock.wall()
        if project:
            self.changed(session, project.id, clock.parse(session.heard_time))

    def _start_over(self, name: str, entry: KnownTranscript) -> bool:
        """Fold a session anew whose file was truncated, replaced or rewritten."""
        self.counters.replaced += 1
        self._tails.drop(name)
        entry.read_to = 0
        if self.policy.distrust(name):
            entry.cursor = Cursor(name, entry.cursor.session_id, entry.cursor.path)
            return True
        self.start_anew({entry.cursor.session_id})
        return False

    def start_anew(self, session_ids: set[str]) -> None:
        """Drop what is known of sessions, and read their transcripts from the start."""
        if self._held and self._held.entry.cursor.session_id in session_ids:
            self._held = None
        for session_id in session_ids:
            self.state.forget_session(session_id)
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
        """Look again at transcripts that were refused: they may be allowed now."""
        for name, entry in self.entries.items():
            if entry.refusal in refusals:
                entry.refusal = ""
                self._backlog.add(name, RECENT, entry.mtime_ns)
