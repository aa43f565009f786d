"""From changed transcripts to session states: read, parse, fold, commit.

One task does it, a slice at a time, the freshest first; between two slices the socket is
answered. A cursor and its fold are committed together.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from handoffd import clock, log
from handoffd.backlog import LIVE, OLD, RECENT, Backlog, Entry
from handoffd.counters import Counters
from handoffd.errors import StoreError
from handoffd.gate import Gate
from handoffd.projects import Project, Projects
from handoffd.session.fold import fold
from handoffd.session.state import FOLD_VERSION, SessionState
from handoffd.session.storage import dump, load
from handoffd.session.text import count_masks
from handoffd.session.todos import take_tasks
from handoffd.sources import tasks
from handoffd.sources.tailer import LINE_MAX_BYTES, Replaced, Slice, Tail
from handoffd.sources.transcripts import Transcript
from handoffd.store.core import Skip
from handoffd.store.state import Cursor, StateStore, StoredSession
from handoffd.transcript.records import Record, parse_line

# How long the socket may wait for the reading.
TURN_SECONDS = 0.005
RETRY_MAX_SECONDS = 60.0
TAILS_MAX = 64
SESSIONS_MAX = 16
QUARANTINE_TRIES = 3


@dataclass(slots=True)
class Intake:
    """Reads transcripts into session states."""

    state: StateStore
    gate: Gate
    projects: Projects
    changed: Callable[[SessionState, str, float], None]
    entries: dict[str, Entry] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    started_at: float = field(default_factory=clock.wall)
    # Why nothing new can be kept.
    problem: str = ""
    _retry_seconds: float = 0.0
    _backlog: Backlog = field(default_factory=Backlog)
    _tails: OrderedDict[str, Tail] = field(default_factory=OrderedDict)
    _sessions: OrderedDict[str, SessionState] = field(default_factory=OrderedDict)
    # How many secrets are masked in what is kept of each session.
    _masks: dict[str, int] = field(default_factory=dict)
    _stepped: set[str] = field(default_factory=set)
    _counted: Counters = field(default_factory=Counters)

    def open(self) -> None:
        """Take up the cursors of the last run; what is folded otherwise now is folded anew."""
        known = [project_id for project_id, _ in self.projects.core.projects()]
        for session_id in self.state.outdated_sessions(FOLD_VERSION, known):
            self.state.forget_session(session_id)
        for cursor in self.state.cursors():
            self.entries[cursor.transcript] = Entry(cursor, cursor.offset, cursor.mtime_ns)

    def found(self, transcript: Transcript, *, first: bool = False) -> None:
        """Take note of a transcript on disk, and queue it if it is not fully read."""
        entry = self.entries.get(transcript.name)
        if entry is None:
            cursor = Cursor(transcript.name, transcript.session_id, transcript.path)
            entry = self.entries[transcript.name] = Entry(cursor)
        elif entry.cursor.path != transcript.path and not self._moved(entry, transcript):
            return
        if (entry.size, entry.mtime_ns) == (transcript.size, transcript.mtime_ns):
            return
        entry.size, entry.mtime_ns = transcript.size, transcript.mtime_ns
        entry.failures = 0
        self._backlog.add(transcript.name, self._priority(entry, first=first), entry.mtime_ns)

    def _moved(self, entry: Entry, transcript: Transcript) -> bool:
        """Follow a session whose file moved; a second, older copy of it is left alone."""
        if os.path.exists(entry.cursor.path) and not (
            transcript.mtime_ns > entry.mtime_ns and transcript.size > entry.cursor.offset
        ):
            return False
        entry.cursor.path = transcript.path
        self._tails.pop(transcript.name, None)
        return True

    def _priority(self, entry: Entry, *, first: bool) -> int:
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
        self._stepped.clear()
        self._counted = replace(self.counters)
        until = clock.monotonic() + TURN_SECONDS
        with self.state.batch():
            while self._backlog and clock.monotonic() < until:
                self.step()

    def _take_back(self) -> None:
        """Go back to what the store knows: nothing of this turn was kept."""
        self._sessions.clear()
        self.counters = self._counted
        for name in self._stepped:
            entry = self.entries[name]
            self._restore(name, entry)
            self._backlog.add(name, LIVE, entry.mtime_ns)

    def _restore(self, name: str, entry: Entry) -> None:
        known = entry.cursor
        entry.cursor = self.state.cursor(name) or Cursor(name, known.session_id, known.path)
        entry.read_to = 0
        self._tails.pop(name, None)
        self._sessions.pop(known.session_id, None)

    def step(self) -> None:
        """Read one slice of the transcript that matters most."""
        taken = self._backlog.take()
        if taken is None:
            return
        name, priority = taken
        self._stepped.add(name)
        entry = self.entries[name]
        counted = replace(self.counters)
        try:
            more = self._advance(name, entry)
        except Replaced:
            more = self._start_over(name, entry)
        except FileNotFoundError:
            self._tails.pop(name, None)
            entry.size = entry.cursor.offset  # what is gone cannot be behind
            return
        except StoreError:
            raise
        except Exception as problem:  # noqa: BLE001  one bad file must not stop the others
            self.counters = counted
            more = self._failed(name, entry, problem)
        if more:
            self._backlog.add(name, priority, entry.mtime_ns)

    def _failed(self, name: str, entry: Entry, problem: Exception) -> bool:
        """Try again a few times, then leave the transcript alone until it changes."""
        self._restore(name, entry)
        entry.failures += 1
        log.get().error("transcript_failed", transcript=name, error=log.where(problem))
        return entry.failures < QUARANTINE_TRIES

    def _advance(self, name: str, entry: Entry) -> bool:
        session = self._session(entry.cursor.session_id)
        tail = self._tail(name, entry)
        if not self._admit(name, entry, session):
            return False
        silent = self.gate.next_skip(name, entry.cursor.offset)
        taken = tail.read(ceiling=silent.start if silent else None)
        entry.read_to = tail.position
        if tail.holds_a_line:
            self._trim_tails()
        else:
            del self._tails[name]
        if silent and not taken.lines and not taken.more:
            return self._skip(entry, tail, silent)
        if not taken.lines and not taken.oversized:
            return taken.more
        if not self._fold(name, entry, session, taken):
            return False
        return taken.more or silent is not None

    def _admit(self, name: str, entry: Entry, session: SessionState) -> bool:
        """Ask the gate; a transcript found during a pause is silent from where it was read to."""
        project = self.projects.of(session) if session.cwd else None
        if project is None and entry.root:
            project = self.projects.at(entry.root)
        entry.refusal = self.gate.refusal(
            project.id if project else None, project.root.path if project else None
        )
        if entry.refusal == "paused":
            self.gate.silence(name, entry.cursor.offset, project.id if project else None)
            # What was there when the pause began may still be read, up to the silent range.
            silent = self.gate.next_skip(name, entry.cursor.offset)
            return silent is not None and entry.cursor.offset < silent.start
        return not entry.refusal

    def _skip(self, entry: Entry, tail: Tail, silent: Skip) -> bool:
        end = silent.end
        if end is None:
            entry.refusal = "paused"
        if end is None or end > entry.size:
            entry.read_to = entry.size
            return False
        tail.jump(end)
        self.counters.silenced += 1
        self._commit_cursor(entry, None)
        return entry.size > end

    def _fold(self, name: str, entry: Entry, session: SessionState, taken: Slice) -> bool:
        """Fold a slice and commit it; False if its project turns out to be none of our business."""
        records = self._parse(taken)
        project = self.projects.of(session) if session.cwd else None
        cwd = next((found for record in records if (found := record.directory)), "")
        if project is None and cwd:
            project = self.projects.at(cwd)
            entry.refusal = self.gate.refusal(project.id, project.root.path)
            if entry.refusal:
                self._withdraw(name, entry, project)
                return False
        for record in records:
            self._fold_record(name, session, record, project.id if project else None)
        self._take_tasks(entry, session, project.id if project else None)
        self._commit(entry, session)
        return True

    def _take_tasks(self, entry: Entry, session: SessionState, project_id: str | None) -> None:
        """Take the client's task files where they changed, but nothing of a pause."""
        path, session_id = entry.cursor.path, session.session_id
        changed = tasks.changed_at(path, session_id)
        if changed <= session.tasks_at:
            return
        session.tasks_at = changed
        items = [
            task.data
            for task in tasks.read(path, session_id)
            if not self.gate.is_silent(
                project_id, session_id, clock.iso_milliseconds(task.mtime_ns / 1e9), ""
            )
        ]
        take_tasks(session, items, clock.iso_milliseconds(changed / 1e9))

    def _withdraw(self, name: str, entry: Entry, project: Project) -> None:
        """Forget a slice that should not have been read."""
        entry.root = project.root.path
        self._tails.pop(name, None)
        self._sessions.pop(entry.cursor.session_id, None)
        entry.cursor = Cursor(name, entry.cursor.session_id, entry.cursor.path)
        if entry.refusal == "paused":
            self.gate.silence(name, 0, project.id)

    def _parse(self, taken: Slice) -> list[Record]:
        records: list[Record] = []
        for offset, line in taken.lines:
            parsed = parse_line(offset, line)
            records += parsed.records
            self.counters.damaged += parsed.damaged
        self.counters.oversized += taken.oversized
        return records

    def _fold_record(
        self, name: str, session: SessionState, record: Record, project_id: str | None
    ) -> None:
        # A copy of what was written during a pause is recognised by its time.
        if self.gate.has_pauses and self.gate.is_silent(
            project_id, name, record.timestamp, session.last_time
        ):
            self.counters.silenced += 1
            return
        if fold(session, record, name):
            self.counters.records += 1
        else:
            self.counters.repeated += 1

    def _commit(self, entry: Entry, session: SessionState) -> None:
        project = self.projects.of(session) if session.cwd else None
        folded = dump(session)
        masks = count_masks(folded)
        self.counters.redacted += max(masks - self._masks.get(session.session_id, 0), 0)
        self._masks[session.session_id] = masks
        stored = StoredSession(
            session.session_id,
            project.id if project else None,
            clock.parse(session.last_time),
            session.headless,
            FOLD_VERSION,
            folded,
        )
        self._commit_cursor(entry, stored)
        self.counters.last_record_at = clock.wall()
        if project:
            self.changed(session, project.id, clock.parse(session.heard_time))

    def _commit_cursor(self, entry: Entry, stored: StoredSession | None) -> None:
        entry.cursor.mtime_ns = entry.mtime_ns
        self.state.commit(entry.cursor, stored)

    def _start_over(self, name: str, entry: Entry) -> bool:
        """Fold a session anew whose file was truncated, replaced or rewritten."""
        self.counters.replaced += 1
        self._tails.pop(name, None)
        entry.read_to = 0
        if self.gate.distrust(name):
            entry.cursor = Cursor(name, entry.cursor.session_id, entry.cursor.path)
            return True
        self.start_anew({entry.cursor.session_id})
        return False

    def start_anew(self, session_ids: set[str]) -> None:
        """Drop what is known of sessions, and read their transcripts from the start."""
        for session_id in session_ids:
            self.state.forget_session(session_id)
            self._sessions.pop(session_id, None)
        for name, known in self.entries.items():
            session_id = known.cursor.session_id
            if session_id in session_ids:
                known.cursor = Cursor(name, session_id, known.cursor.path)
                known.read_to = 0
                self._tails.pop(name, None)
                self._backlog.add(name, LIVE, known.mtime_ns)

    def _session(self, session_id: str) -> SessionState:
        known = self._sessions.get(session_id)
        if known is None:
            stored = self.state.session(session_id)
            known = load(stored.fold) if stored else SessionState(session_id)
            self._sessions[session_id] = known
            self._masks[session_id] = count_masks(stored.fold) if stored else 0
            while len(self._sessions) > SESSIONS_MAX:
                dropped, _ = self._sessions.popitem(last=False)
                self._masks.pop(dropped, None)
        self._sessions.move_to_end(session_id)
        return known

    def _tail(self, name: str, entry: Entry) -> Tail:
        known = self._tails.get(name)
        if known is None or known.cursor is not entry.cursor:
            known = self._tails[name] = Tail(entry.cursor)
        self._tails.move_to_end(name)
        return known

    def _trim_tails(self) -> None:
        """Bound the memory of unfinished lines; a dropped one is read again from its start."""
        held = sum(tail.pending_bytes for tail in self._tails.values())
        while len(self._tails) > TAILS_MAX or (held > 2 * LINE_MAX_BYTES and len(self._tails) > 1):
            _, dropped = self._tails.popitem(last=False)
            held -= dropped.pending_bytes

    # Pauses

    def sizes(self, project_id: str | None) -> dict[str, int]:
        """Return the present sizes of the transcripts of a project, or of all."""
        wanted = None if project_id is None else self.state.session_ids(project_id)
        return {
            name: _size(entry)
            for name, entry in self.entries.items()
            if wanted is None or entry.cursor.session_id in wanted
        }

    def ends_of_silence(self, scopes: list[str]) -> dict[str, int]:
        """Return where transcripts may be heard again; one that is gone stays silent for good."""
        return {
            name: _size(self.entries[name]) if name in self.entries else 1 << 62
            for name in self.gate.silent_transcripts(scopes)
        }

    @property
    def quarantined(self) -> int:
        return sum(entry.failures >= QUARANTINE_TRIES for entry in self.entries.values())

    def requeue(self, *refusals: str) -> None:
        """Look again at transcripts that were refused: they may be allowed now."""
        for name, entry in self.entries.items():
            if entry.refusal in refusals:
                entry.refusal = ""
                self._backlog.add(name, RECENT, entry.mtime_ns)


def _size(entry: Entry) -> int:
    try:
        return os.stat(entry.cursor.path, follow_symlinks=False).st_size
    except OSError:
        return entry.size
