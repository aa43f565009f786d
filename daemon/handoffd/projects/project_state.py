"""Keep the current state of each project: its lanes, its git state, and a person's settings.

Answers over the socket come from here, and are always the newest.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from handoffd.config import LiveConfig
from handoffd.projects import project_root
from handoffd.projects.lanes import Lane, ProjectView, choose, compose
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.registry import Project, ProjectRegistry
from handoffd.runtime import clock, log
from handoffd.runtime.announcement import Announcement
from handoffd.session.fields import LISTS
from handoffd.session.state import Value
from handoffd.session.storage import load
from handoffd.session.text import redact_values
from handoffd.store.core import CoreStore, Setting
from handoffd.store.state import SessionStore
from handoffd.store.threads import Unread

LANES_MAX = 8
# Two clocks may differ by so much; a record further ahead is from before our clock was set back.
AHEAD_SECONDS = 60.0

# The same few folds are loaded again and again; no caller changes the loaded state.
_load = lru_cache(maxsize=16)(load)


class Committed(Protocol):
    """A commit (see links.repository.Commit)."""

    @property
    def seconds(self) -> float: ...
    @property
    def text(self) -> str: ...


@dataclass(slots=True)
class GitState:
    """Git's last answers about a project, and the time of the next question."""

    branch: str | None = None
    uncommitted: list[str] = field(default_factory=list)
    # The commits of the last days, and the stamp of HEAD's log at that question.
    commits: Sequence[Committed] = ()
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
    # Held from composing the current state until it is written.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    write_not_before: float = 0.0
    retry_seconds: float = 0.0
    problem: str = ""
    brief_hash: int = 0
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
    ended: dict[str, float] = field(default_factory=dict)
    # The sessions whose clients ask a person for something, as reported by their hooks.
    waiting: dict[str, Value] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    # Announced after a project was refreshed: parts that keep more about it refresh that, too.
    refreshed: Announcement[[ActiveProject]] = field(default_factory=Announcement)

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
        now = clock.wall()
        stored = [
            *self.sessions.sessions(project_id, LANES_MAX, headless=False),
            *self.sessions.sessions(project_id, LANES_MAX, headless=True),
        ]
        stored.sort(key=lambda item: item.last_seconds, reverse=True)
        return [
            Lane(
                _load(item.fold),
                _idle_seconds(now, item.last_seconds),
                item.session_id in self.ended,
                self.waiting.get(item.session_id),
                item.session_id == wanted,
            )
            for item in stored
        ]

    def view(self, project: Project, session_id: str = "") -> ProjectView:
        """Compose the newest document of a project, or of one of its sessions."""
        active = self.active(project)
        root = project.root.path
        settings = self.core.settings(project.id)
        lanes = self.lanes(project.id, session_id)
        view = compose(root, lanes, settings, active.git.branch, active.git.uncommitted)
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
        active.touched = clock.wall()
        _load.cache_clear()

    def end(self, session_id: str) -> None:
        """Note that a session's client is gone."""
        self.ended[session_id] = clock.wall()
        self.waiting.pop(session_id, None)
        self.sessions.set_ended(session_id, self.ended[session_id])

    def revive(self, session_id: str) -> None:
        """Note that a session continues after all."""
        if self.ended.pop(session_id, None) is not None:
            self.sessions.set_ended(session_id, None)

    def retire(self, idle_seconds: float) -> None:
        """Drop projects and sessions from memory that had no activity for so long."""
        limit = clock.wall() - idle_seconds
        self.ended = {name: at for name, at in self.ended.items() if at > limit}
        self.waiting = {
            name: value
            for name, value in self.waiting.items()
            if clock.parse(value.receipt.time) > limit
        }
        for project_id, active in list(self.active_projects.items()):
            if active.touched < limit and not active.dirty:
                del self.active_projects[project_id]

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


def _idle_seconds(now: float, last: float) -> float:
    """Return the seconds since the last record; for a record far ahead, the seconds it is ahead.

    Otherwise such a session would rank before everything since the clock was set back.
    """
    ahead = last - now
    return ahead if ahead > AHEAD_SECONDS else max(-ahead, 0.0)
