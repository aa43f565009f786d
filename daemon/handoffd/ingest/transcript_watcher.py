"""Notice changes: watches give hints, rescans find the truth.

The watcher watches the roots (`<config>/projects`), the directories of the most recently active
transcripts, and two directories of each active project (`.flow-guardian` and git's own); never a
whole tree. A flood of events is replaced by one rescan.
"""

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from handoffd.agents.agent import stat_transcript
from handoffd.agents.registry import agent_of
from handoffd.fs import mounts
from handoffd.ingest.file_observer import Observer
from handoffd.ingest.transcript_reader import TranscriptReader
from handoffd.projects import project_root as directories
from handoffd.projects.project_state import ProjectStates
from handoffd.runtime import clock, log

WATCHED_PROJECTS_MAX = 64
FLOOD = 512
RESCAN_SECONDS = (5.0, 60.0)
# A tick of the schedule starts a rescan; if the schedule stands still, it starts so much later.
TICK_SECONDS = RESCAN_SECONDS[0]
# The share of one core that rescans may use.
RESCAN_SHARE = 0.002
_PAUSE_EVERY = 100
# Other machines write to a network disk without any event here. Transcripts there that grew
# recently are polled this often, or less often if polling would cost more than a rescan may.
POLL_SECONDS = 2.0
POLLED_MAX = 16
POLLED_ACTIVE_SECONDS = 3600.0


@dataclass(slots=True)
class TranscriptWatcher:
    """Finds changes on disk and reports them to the TranscriptReader and the ProjectStates."""

    roots: list[str]
    transcript_reader: TranscriptReader
    project_states: ProjectStates
    overflows: int = 0
    rescans: int = 0
    first_scan_done: bool = False
    rescan_seconds: float = RESCAN_SECONDS[0]
    observer: Observer = field(init=False)
    _dirty: set[str] = field(default_factory=set)
    _directories: dict[str, int] = field(default_factory=dict)
    _watched_projects: dict[str, str] = field(default_factory=dict)
    _rescan_wanted: bool = True
    _next_rescan: float = 0.0
    _next_poll: float = 0.0
    _polled: list[str] = field(default_factory=list)
    _watches_stale: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None

    def __post_init__(self) -> None:
        self.observer = Observer(self._changed_in_thread, self._overflowed_in_thread)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.observer.start()

    def stop(self) -> None:
        self.observer.stop()

    def describe_roots(self) -> list[dict[str, Any]]:
        return [
            {"path": root, "exists": mounts.answers(root) and os.path.isdir(root)}
            for root in self.roots
        ]

    @property
    def settled(self) -> bool:
        """True if every transcript is read to its end."""
        return self.first_scan_done and not self.transcript_reader.backlog[0]

    def set_roots(self, roots: list[str]) -> None:
        self.roots = roots
        self._directories.clear()
        self.want_rescan()

    def want_rescan(self) -> None:
        self._rescan_wanted = True
        self._wake.set()

    def want_watches(self) -> None:
        """Choose the watched directories again soon, because a project became active."""
        self._watches_stale = True
        self._wake.set()

    async def tick(self) -> None:
        """Request a rescan if one is due; at the schedule's tick it needs no wake-up of its own."""
        # The last rescan ended a little after its tick.
        due = clock.monotonic() >= self._next_rescan - TICK_SECONDS / 2
        if due or self._has_lost_watches():
            self.want_rescan()

    def hint(self, path: str) -> None:
        """Look at a transcript soon, even if its directory is not watched."""
        parent, _, name = path.rpartition("/")
        if mounts.answers(parent):
            path = f"{os.path.realpath(parent)}/{name}"
        if path.startswith(tuple(f"{root}/" for root in self.roots)):
            self._mark_dirty(path)

    # Called by watchdog's threads

    def _changed_in_thread(self, path: str) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._mark_dirty, path)

    def _overflowed_in_thread(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._note_overflow)

    def _mark_dirty(self, path: str) -> None:
        if len(self._dirty) < FLOOD:
            self._dirty.add(path)
        else:
            self._rescan_wanted = True
        self._wake.set()

    def _note_overflow(self) -> None:
        self.overflows += 1
        self.want_rescan()

    # The loop

    async def run(self) -> None:
        while True:
            if self._rescan_wanted or clock.monotonic() >= self._next_rescan + TICK_SECONDS:
                await self.rescan()
                self._next_rescan = clock.monotonic() + self.rescan_seconds
            await self._wait(self._poll(self._next_rescan + TICK_SECONDS))
            self.look_at_dirty()
            if self._watches_stale:
                self._choose_watches()

    def _poll(self, until: float) -> float:
        """Look at active transcripts without events if it is time; return the time of the next."""
        if not self._polled:
            return until
        if clock.monotonic() >= self._next_poll:
            started = clock.thread_cpu()
            self._look_at_polled()
            cost = clock.thread_cpu() - started
            self._next_poll = clock.monotonic() + max(cost / RESCAN_SHARE, POLL_SECONDS)
        return min(until, self._next_poll)

    def _look_at_polled(self) -> None:
        """Ask each disk once whether it answers, then stat each transcript on it."""
        answering: dict[str, bool] = {}
        for name in self._polled:
            entry = self.transcript_reader.entries.get(name)
            if entry is None:
                continue
            path = entry.cursor.path
            disk = mounts.disk_of(path)
            if disk not in answering:
                answering[disk] = mounts.answers(path)
            if answering[disk]:
                found = stat_transcript(name, entry.cursor.session_id, path)
                if found is not None:
                    self.transcript_reader.note_transcript(found)

    def _choose_polled(self) -> None:
        """Choose the transcripts on network disks that grew recently, the latest first."""
        self._polled = []
        if mounts.has_remote():
            since = (clock.wall() - POLLED_ACTIVE_SECONDS) * 1e9
            known = self.transcript_reader.entries.items()
            recent = [(e.mtime_ns, name) for name, e in known if e.mtime_ns > since]
            recent.sort(reverse=True)
            remote = (
                n
                for _, n in recent
                if mounts.disk_of(self.transcript_reader.entries[n].cursor.path)
            )
            self._polled = list(islice(remote, POLLED_MAX))

    async def _wait(self, until: float) -> None:
        try:
            async with asyncio.timeout(max(until - clock.monotonic(), 0.0)):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def look_at_dirty(self) -> None:
        dirty, self._dirty = self._dirty, set()
        for path in dirty:
            parent = path.rpartition("/")[0]
            if not mounts.answers(parent):
                continue  # a rescan finds the change when the disk answers again
            if parent in self._watched_projects:
                self._look_at_project(self._watched_projects[parent], path)
            elif path.endswith(".jsonl"):
                self._look_at_directory_entry(parent, path)
            elif parent in self.roots:
                self._scan_directory(path, first=False)
                self._choose_watches()

    def _look_at_project(self, project_id: str, path: str) -> None:
        project = self.project_states.projects.by_id(project_id)
        if project is None:
            return
        self.project_states.refresh(project)
        if path.endswith(("/HEAD", "/index")):
            self.project_states.touch(project_id)

    def _look_at_directory_entry(self, parent: str, path: str) -> None:
        agent = agent_of(path)
        found = agent.transcript_at(path)
        if found is None:
            return
        self.transcript_reader.note_transcript(found)
        newest = self._directories.get(parent)
        self._directories[parent] = max(found.mtime_ns, newest or 0)
        for subagent in agent.subagents_of(found):
            self.transcript_reader.note_transcript(subagent)

    # The rescan

    async def rescan(self) -> None:
        """Look at every transcript; the cost determines the time until the next rescan."""
        self._rescan_wanted = False
        cost = 0.0
        self._has_lost_watches()
        first = not self.first_scan_done
        self.transcript_reader.scans += 1
        count, gone = 0, set(self._directories)
        mounts.refresh()
        answering = [root for root in self.roots if mounts.answers(root)]
        for root in answering:
            for directory in agent_of(root).directories(root):
                gone.discard(directory)
                started = clock.thread_cpu()
                count += self._scan_directory(directory, first=first)
                cost += clock.thread_cpu() - started
                if count >= _PAUSE_EVERY:
                    count = 0
                    await asyncio.sleep(0)
        if answering == self.roots:
            self.transcript_reader.end_scan()
            for directory in gone:
                self._directories.pop(directory, None)
        self._refresh_projects()
        self._choose_watches()
        self._choose_polled()
        self.first_scan_done = True
        self.rescans += 1
        least, most = RESCAN_SECONDS
        self.rescan_seconds = min(max(cost / RESCAN_SHARE, least), most)

    def _has_lost_watches(self) -> bool:
        lost = self.observer.check()
        if lost:
            log.get().warning("watch_lost")
        return lost

    def _scan_directory(self, directory: str, *, first: bool) -> int:
        if not mounts.answers(directory):
            return 0
        newest, count = _directory_time(directory), 0
        for found in agent_of(directory).in_directory(directory, clock.wall()):
            self.transcript_reader.note_transcript(found, first=first)
            newest = max(newest, found.mtime_ns)
            count += 1
        self._directories[directory] = newest
        return count

    def _refresh_projects(self) -> None:
        self.project_states.projects.forget_cached()
        self.project_states.retire(clock.DAY_SECONDS)
        for active in list(self.project_states.active_projects.values()):
            project = self.project_states.projects.by_id(active.project.id)
            if project is not None:
                self.project_states.refresh(project)
        self.transcript_reader.requeue("disabled", mounts.SILENT)

    def _choose_watches(self) -> None:
        wanted = {*self.roots, *self._active_directories()}
        self._watches_stale = False
        self._watched_projects = self._project_watches()
        wanted = {path for path in wanted | set(self._watched_projects) if mounts.answers(path)}
        for directory in self.observer.watch_only(wanted):
            # Look again, to find changes between the last look and the start of the watch.
            if directory in self._watched_projects:
                self._look_at_project(self._watched_projects[directory], directory)
            elif directory not in self.roots:
                self._scan_directory(directory, first=not self.first_scan_done)

    def _active_directories(self) -> list[str]:
        """Return the directories in which a transcript grew recently, the latest first."""
        since = (clock.wall() - clock.DAY_SECONDS) * 1e9
        active = [path for path, newest in self._directories.items() if newest > since]
        active.sort(key=self._directories.__getitem__, reverse=True)
        return active[:WATCHED_PROJECTS_MAX]

    def _project_watches(self) -> dict[str, str]:
        """Return the directories to watch in the active projects, each with its project's id."""
        active_projects = sorted(
            self.project_states.active_projects.values(),
            key=lambda active: active.touched,
            reverse=True,
        )
        found: dict[str, str] = {}
        for active in active_projects[:WATCHED_PROJECTS_MAX]:
            root = active.project.root
            if not root.exists or not mounts.answers(root.path):
                continue
            git = directories.git_directory(root.path)
            for path in (f"{root.path}/.flow-guardian", git):
                # realpath() fails on a link that becomes a directory at the same moment.
                with suppress(OSError):
                    if path and os.path.isdir(path):
                        found[os.path.realpath(path)] = active.project.id
        return found


def _directory_time(directory: str) -> int:
    """Return a directory's own time: a new directory will soon get its first transcript."""
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0
