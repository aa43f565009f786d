"""Keep the current state of each project: its lanes, its git state, and a person's settings.

Answers over the socket come from here, and are always the newest.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from handoffd.agents.agent import BackgroundJob
from handoffd.config import LiveConfig
from handoffd.links.repository import Commit
from handoffd.projects import project_root
from handoffd.projects.lanes import (
    INHERITED_SECONDS,
    LIVE_SECONDS,
    PARKED_SECONDS,
    Lane,
    ProjectView,
    choose,
    compose,
    park,
)
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.neighbours import WORKTREE, Neighbour, neighbours
from handoffd.projects.registry import Project, ProjectRegistry
from handoffd.projects.stored_sessions import is_outdated, state_of
from handoffd.runtime import clock, log
from handoffd.runtime.announcement import Announcement
from handoffd.session import insights
from handoffd.session.fields import LISTS
from handoffd.session.items import PERSON, REQUEST, Item, ItemKey
from handoffd.session.state import Receipt, SessionState, Value, Work
from handoffd.session.text import GOAL_MAX, keep, redact_values
from handoffd.store.core import CoreStore, Setting
from handoffd.store.item_marks import DROPPED, ItemMark
from handoffd.store.state import SessionStore, StoredEnd, StoredSession
from handoffd.store.thread_store import Unread

LANES_MAX = 8
# Two clocks may differ by so much; a record further ahead is from before our clock was set back.
AHEAD_SECONDS = 60.0

# The lanes of other projects that a view shows.
ELSEWHERE_MAX = 5
# Work trees come and go, and a view must not look for them each time.
NEIGHBOURS_SECONDS = 10.0
# A client may write its last lines, such as the cost, after it has reported its end.
END_SECONDS = 10.0

# The same few folds are loaded again and again; no caller changes the loaded state.
_state_of = lru_cache(maxsize=16)(state_of)


@dataclass(slots=True)
class GitState:
    """Git's last answers about a project, and the time of the next question."""

    branch: str | None = None
    uncommitted: list[str] = field(default_factory=list)
    # The commits of the last days, and the stamp of HEAD's log at that question.
    commits: Sequence[Commit] = ()
    reflog: str | None = None
    # Whether git tracks handoff.yaml; None until git has answered.
    tracked: bool | None = None
    wanted: bool = False
    asking: bool = False
    not_before: float = 0.0
    # The reason why git gave no answer, and the number of failures in a row.
    problem: str = ""
    failures: int = 0


@dataclass(slots=True)
class FileState:
    """The state of handoff.yaml on disk."""

    # The file's content as it was last read or written; None until it was read.
    baseline: dict[str, Any] | None = None
    stamp: str = ""
    unreadable: str = ""
    absent_since: float = 0.0
    tidy: bool = False
    # Held while we write the file.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class ActiveProject:
    """The state of an active project in memory."""

    project: Project
    git: GitState = field(default_factory=GitState)
    file: FileState = field(default_factory=FileState)
    touched: float = 0.0
    dirty: bool = False
    # A person closed an item: handoff.yaml is written even if the work is old.
    item_closed: bool = False
    # handoff.yaml is written even if no recent session is known.
    write_asked: bool = False
    # Held from composing the current state until it is written.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    write_not_before: float = 0.0
    retry_seconds: float = 0.0
    problem: str = ""
    brief_hash: int = 0
    # The values in the last entries of the project's history; empty until they were compared.
    history: dict[str, str] = field(default_factory=dict)
    # Listing the project's handoffs takes long.
    has_many_handoffs: bool = False


@dataclass(slots=True)
class ProjectStates:
    """The states of all active projects."""

    core: CoreStore
    sessions: SessionStore
    config: LiveConfig
    policy: LearningPolicy
    projects: ProjectRegistry
    active_projects: dict[str, ActiveProject] = field(default_factory=dict)
    # The sessions whose clients are known to be gone, and the time at which that was seen.
    ended: dict[str, StoredEnd] = field(default_factory=dict)
    # The sessions whose clients ask a person for something, as reported by their hooks.
    waiting: dict[str, Value] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    # Returns the background agents of the last day.
    background_jobs: Callable[[], Sequence[BackgroundJob]] = field(default=lambda: ())
    # The projects that belong to each project, and the time at which that was found out.
    _neighbours: dict[str, tuple[float, int, list[Neighbour]]] = field(default_factory=dict)
    # Announced for each session whose items a person closed.
    items_closed: Announcement[[str]] = field(default_factory=Announcement)
    # Announced after a project was refreshed: parts that keep more about it refresh that, too.
    refreshed: Announcement[[ActiveProject]] = field(default_factory=Announcement)
    # Announced after a project's files were written, with the view that they show.
    published: Announcement[[ActiveProject, ProjectView]] = field(default_factory=Announcement)

    def active(self, project: Project) -> ActiveProject:
        active = self.active_projects.get(project.id)
        if active is None:
            active = ActiveProject(project, GitState(project_root.branch(project.root.path)))
            if project.id:
                self.active_projects[project.id] = active
        active.project = project
        return active

    # The current state

    def lanes(self, project_id: str, wanted: str = "") -> list[Lane]:
        now, closed = clock.wall(), self.closed(project_id)
        stored = [
            *self.sessions.sessions(project_id, LANES_MAX, headless=False),
            *self.sessions.sessions(project_id, LANES_MAX, headless=True),
        ]
        stored.sort(key=lambda item: item.last_seconds, reverse=True)
        return [replace(self._lane(item, now, wanted), closed=closed) for item in stored]

    def _lane(self, item: StoredSession, now: float, wanted: str) -> Lane:
        end = self.ended.get(item.session_id) or self.sessions.end_of(item.session_id)
        if end and item.last_seconds > end.at + END_SECONDS:
            end = None  # it was resumed after that
        return Lane(
            _state_of(item),
            _idle_seconds(now, item.last_seconds),
            end is not None,
            self.waiting.get(item.session_id),
            item.session_id == wanted,
            killed=end is not None and end.how == "killed",
            ended_seconds=max(now - end.at, 0.0) if end else None,
            outdated=is_outdated(item),
        )

    def closed(self, project_id: str) -> Collection[ItemKey]:
        """Return the keys of the open items that a person closed."""
        return {ItemKey(*key) for key in self.core.item_marks.keys(project_id)}

    def neighbours(self, project: Project) -> list[Neighbour]:
        """Return the projects that belong to a project and may be learned."""
        root, now, number = project.root.path, clock.monotonic(), self.projects.known
        at, known, found = self._neighbours.get(root, (-NEIGHBOURS_SECONDS, 0, []))
        if now - at >= NEIGHBOURS_SECONDS or known != number:
            found = neighbours(root, self.core.projects())
            self._neighbours[root] = now, number, found
        return [item for item in found if not self.policy.refusal(item.project_id, item.root)]

    def elsewhere(self, project: Project, own: Sequence[Lane]) -> list[Lane]:
        """Return the recent work in the projects that belong to a project, the latest first."""
        if not project.root.is_project:
            return []  # all work of the user is below $HOME
        found = []
        beside = self.neighbours(project)
        for item in beside:
            lanes = [lane for lane in self.lanes(item.project_id) if _is_told_elsewhere(lane)]
            main = choose(lanes)
            shown = [lane for lane in lanes if lane is main or lane.live]
            if item.relation != WORKTREE:
                shown = [main] if main else []
            found += [replace(lane, relation=item.relation, place=item.place) for lane in shown]
        places = [project.root.path, *(i.root for i in beside if i.relation == WORKTREE)]
        found = self._with_jobs(found, own, places)
        return sorted(found, key=lambda lane: lane.idle_seconds)[:ELSEWHERE_MAX]

    def _with_jobs(
        self, found: Sequence[Lane], own: Sequence[Lane], places: Sequence[str]
    ) -> list[Lane]:
        """Return lanes with the states of their background agents, and agents without a lane."""
        lanes = {lane.state.session_id: lane for lane in found}
        known = {lane.state.session_id for lane in own}
        for job in self.background_jobs():
            inside = any(job.cwd == place or job.cwd.startswith(f"{place}/") for place in places)
            # A job is named after the first characters of its session.
            named = next((name for name in lanes if name.startswith(job.session_id)), "")
            if named:
                lanes[named] = replace(lanes[named], job=job.state)
            is_open = inside and not job.is_finished and bool(job.intent)
            if is_open and not any(n.startswith(job.session_id) for n in (*lanes, *known)):
                lanes[job.session_id] = _job_lane(job)
        return list(lanes.values())

    def view(self, project: Project, session_id: str = "") -> ProjectView:
        """Compose the newest document of a project, or of one of its sessions."""
        active = self.active(project)
        root = project.root.path
        settings = self.core.settings(project.id)
        lanes = self.lanes(project.id, session_id)
        parked_before = clock.iso_milliseconds(clock.wall() - PARKED_SECONDS)
        view = compose(root, lanes, settings, active.git.branch, active.git.uncommitted)
        park(view, parked_before)
        view.elsewhere = self.elsewhere(project, lanes)
        known = active.file.baseline or {}
        ours = (*LISTS, *view.document)
        view.extras = {key: known[key] for key in known if key not in ours}
        return view

    def refresh(self, project: Project) -> None:
        """Check a project for changes that a watch would have reported, such as its branch."""
        if not project.id or self.policy.refusal(project.id, project.root.path):
            return
        active = self.active(project)
        try:
            branch = project_root.branch(project.root.path)
        except OSError as problem:  # one project must not stop the others
            log.get().warning("project_failed", project=project.root.path, why=log.why(problem))
        else:
            if branch != active.git.branch:
                active.git.branch = branch
                self.touch(project.id)
        self.refreshed.announce(active)

    def set_values(self, project: Project, values: dict[str, Any], at: str) -> None:
        """Store the values that a person set, with the session that was shown at that time."""
        main = choose(self.lanes(project.id))
        present = main is not None and main.state.first_time <= at
        session_id = main.state.session_id if main and present else ""
        self.core.set_values(
            project.id,
            {name: Setting(value, session_id, at) for name, value in redact_values(values).items()},
        )

    def close_items(self, project: Project, items: Sequence[Item], state: str, at: str) -> None:
        """Close open items because a person said so; `state` says what became of them."""
        marks = [ItemMark(*item.key, state, item.value.text, at) for item in items]
        self.core.item_marks.add(project.id, marks)
        if any(item.kind == PERSON for item in items):
            closed = [item.key for item in items]
            left = [item.value.text for item in self.view(project).items if item.key not in closed]
            self.set_values(project, {"next": left}, at)
        self.touch(project.id, git_too=False)
        self.active(project).item_closed = True
        for session_id in {item.key.transcript.partition("/")[0] for item in items}:
            self.items_closed.announce(session_id)

    def drop_lines(self, project: Project, lines: Collection[str], at: str) -> None:
        """Drop the open items whose lines a person deleted from handoff.yaml."""
        told = {_without_activity(line) for line in lines}
        items = [
            item
            for item in self.view(project).items
            if item.value.text in lines
            or (item.kind == REQUEST and _without_activity(item.value.text) in told)
        ]
        if items:
            self.close_items(project, items, DROPPED, at)

    # Changes

    def touch(self, project_id: str, *, git_too: bool = True) -> None:
        """Note that something about a project has changed."""
        project = self.projects.by_id(project_id)
        if project is None:
            return
        active = self.active(project)
        active.dirty = True
        active.touched = clock.wall()
        active.git.wanted = active.git.wanted or git_too
        for item in self.neighbours(project):
            if beside := self.active_projects.get(item.project_id):
                beside.dirty = True  # its brief tells of this project
        self.changed.set()

    @asynccontextmanager
    async def turn(self, active: ActiveProject) -> AsyncIterator[None]:
        """Hold a project's turn; at its end, wake the writer for changes made meanwhile."""
        async with active.turn:
            try:
                yield
            finally:
                self.changed.set()

    def forget(self, project: Project) -> None:
        """Forget the content that was read and written; the caller holds the project's locks."""
        active = self.active(project)
        active.file.baseline, active.file.stamp, active.file.unreadable = None, "", ""
        active.dirty, active.problem, active.brief_hash = False, "", 0
        active.history = {}
        active.touched = clock.wall()
        _state_of.cache_clear()

    def end(self, session_id: str, how: str = "") -> None:
        """Note that a session's client is gone, and how, if that was seen."""
        self.ended[session_id] = StoredEnd(clock.wall(), how)
        self.waiting.pop(session_id, None)
        self.sessions.set_ended(session_id, self.ended[session_id])

    def revive(self, session_id: str) -> None:
        """Note that a session continues after all."""
        if self.ended.pop(session_id, None) is not None:
            self.sessions.set_ended(session_id, None)

    def retire(self, idle_seconds: float) -> None:
        """Drop projects and sessions from memory that had no activity for so long."""
        limit = clock.wall() - idle_seconds
        self.ended = {name: end for name, end in self.ended.items() if end.at > limit}
        self.waiting = {
            name: value
            for name, value in self.waiting.items()
            if clock.parse(value.receipt.time) > limit
        }
        for project_id, active in list(self.active_projects.items()):
            if active.touched < limit and not active.dirty:
                del self.active_projects[project_id]
        self._neighbours.clear()

    # Writing

    def may_write_unasked(self, project: Project) -> bool:
        """Return True if we may write into a project without being asked."""
        refused = self.policy.refusal(project.id, project.root.path)
        return project.root.writable_unasked and not refused

    def refusal_to_write(self, active: ActiveProject) -> str:
        """Return the reason why handoff.yaml is not written unasked, or an empty text."""
        root = active.project.root
        refused = self.policy.refusal(active.project.id, root.path)
        if refused:
            return refused
        if self.config.current.checkpoint.write == "none":
            return "writing is switched off ([checkpoint] write)"
        if not root.writable_unasked:
            return "no project of yours is here (no marker, or not your directory)"
        if active.file.unreadable:
            return f"the file cannot be read ({active.file.unreadable})"
        if active.git.tracked and not self.config.current.checkpoint.write_tracked:
            return "git tracks handoff.yaml ([checkpoint] write_tracked)"
        return ""

    def unread(self, project: Project) -> list[Unread]:
        """Return the threads used in a project that have new entries for Code."""
        if not project.id or self.policy.refusal(project.id, project.root.path):
            return []
        return self.core.threads.unread(project.id)


def _is_told_elsewhere(lane: Lane) -> bool:
    """Return True if a project beside this one should know of a lane."""
    stated = insights.goal(lane.state) is not None and not insights.is_aside(lane.state)
    return stated and lane.idle_seconds < INHERITED_SECONDS


def _job_lane(job: BackgroundJob) -> Lane:
    """Return a lane for a background agent whose transcript is not known yet."""
    receipt = Receipt(job.session_id, "", 0, clock.iso_milliseconds(job.changed), "observed")
    goal = Value(keep(job.intent, GOAL_MAX), receipt)
    state = SessionState(job.session_id, cwd=job.cwd, work=Work(goal), last_time=receipt.time)
    idle = _idle_seconds(clock.wall(), job.changed)
    return Lane(state, idle, ended=idle > LIVE_SECONDS, relation="background", job=job.state)


def _idle_seconds(now: float, last: float) -> float:
    """Return the seconds since the last record; for a record far ahead, the seconds it is ahead.

    Otherwise such a session would rank before everything since the clock was set back.
    """
    ahead = last - now
    return ahead if ahead > AHEAD_SECONDS else max(-ahead, 0.0)


def _without_activity(line: str) -> str:
    """Return a request without its activity, which changes while the file is edited."""
    return line.rpartition(" (")[0] or line
