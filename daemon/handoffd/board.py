"""From session states to documents: what is true of each project, and its files on disk.

The first change after quiet is written at once, then at most every two seconds; what is
answered over the socket is always the newest.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from handoff import paths as client_paths
from handoff.errors import HandoffError
from handoffd import clock, files, log
from handoffd.gate import Gate
from handoffd.handoffs import briefing, checkpoint_file
from handoffd.handoffs.checkpoint import DEFAULT_NOW, NOT_STATED, with_tags
from handoffd.handoffs.lanes import INHERITED_SECONDS, Lane, View, choose, compose
from handoffd.links import git
from handoffd.projects import Project, Projects
from handoffd.session.state import load
from handoffd.session.text import keep_values
from handoffd.sources import projects as directories
from handoffd.store.core import CoreStore, Setting
from handoffd.store.state import StateStore

WRITE_SECONDS = 2.0
GIT_SECONDS = 5.0
LANES_MAX = 8
BUSY_WAIT_SECONDS = 0.2
RETRY_SECONDS = (1.0, 60.0)
FIRST_START_SECONDS = 24 * 3600.0
# The fields in which a person's edit is recognised and stands.
SETTABLE = ("goal", "status", "now", "hypothesis", "outcome")


@dataclass(slots=True)
class Card:
    """What the board remembers of a project while it is active."""

    project: Project
    branch: str | None = None
    uncommitted: list[str] = field(default_factory=list)
    baseline: dict[str, Any] | None = None
    stamp: str = ""
    dirty: bool = False
    write_not_before: float = 0.0
    git_not_before: float = 0.0
    git_wanted: bool = False
    retry_seconds: float = 0.0
    tracked: bool | None = None
    problem: str = ""
    touched: float = 0.0
    brief_hash: int = 0
    tidy: bool = False


@dataclass(slots=True)
class Board:
    """Keeps each active project's checkpoint and brief true."""

    core: CoreStore
    state: StateStore
    gate: Gate
    projects: Projects
    published: Callable[[dict[str, Any]], None]
    cards: dict[str, Card] = field(default_factory=dict)
    writes: int = 0
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def card(self, project: Project) -> Card:
        card = self.cards.get(project.id)
        if card is None:
            card = self.cards[project.id] = Card(project)
            card.branch = directories.branch(project.root.path)
        card.project = project
        return card

    # What is true now

    def lanes(self, project_id: str) -> list[Lane]:
        now = clock.wall()
        stored = self.state.sessions(project_id, LANES_MAX)
        return [Lane(load(item.fold), max(now - item.last_seconds, 0.0)) for item in stored]

    def view(self, project: Project) -> View:
        """Compose the newest document of a project."""
        card = self.card(project)
        root = project.root.path
        settings = self.core.settings(project.id)
        view = compose(root, self.lanes(project.id), settings, card.branch, card.uncommitted)
        if view.superseded:
            self.core.drop_values(project.id, view.superseded)
        return view

    def refresh(self, project: Project) -> None:
        """Look at what a watch would have told: the branch, and a person's edit."""
        card = self.card(project)
        branch = directories.branch(project.root.path)
        if branch != card.branch:
            card.branch = branch
            self.touch(project.id)
        if card.baseline is None or client_paths.checkpoint_stamp(project.root.path) != card.stamp:
            self.reread(card)

    def reread(self, card: Card) -> None:
        """Take over what somebody else wrote into handoff.yaml."""
        root = card.project.root.path
        if self.gate.refusal(card.project.id, root):
            return
        card.stamp = client_paths.checkpoint_stamp(root)
        try:
            stored = checkpoint_file.load(root)
        except HandoffError as problem:
            card.problem = problem.title
            return
        card.problem = f"handoff.yaml: {stored.problem}" if stored.problem else ""
        if stored.status is None and not stored.problem:
            self.core.drop_values(card.project.id, [*SETTABLE, "files"])
        if stored.data is not None and stored.status is not None:
            ours = self.core.checkpoint(card.project.id)
            self.learn_edits(card.project, stored.data, ours, stored.status.st_mtime)
        card.baseline = stored.data or {}
        self.touch(card.project.id, git_too=False)

    def learn_edits(
        self,
        project: Project,
        found: dict[str, Any],
        ours: Sequence[dict[str, Any]],
        edited_at: float,
    ) -> None:
        """Keep the values that differ from everything of ours: a person set them."""
        edited: dict[str, Any] = edited_values(found, ours)
        listed = found.get("files")
        if isinstance(listed, list) and any(ours):
            known = [path for document in ours for path in document.get("files") or []]
            added = [path for path in listed if isinstance(path, str) and path not in known]
            if added:
                edited["files"] = added
        if edited:
            self.set_values(project, edited, clock.iso_milliseconds(edited_at))

    def set_values(self, project: Project, values: dict[str, Any], at: str) -> None:
        """Enter what a person set, with the session in whose presence it was set."""
        main = choose(self.lanes(project.id))
        present = main is not None and main.state.first_time <= at
        session_id = main.state.session_id if main and present else ""
        self.core.set_values(
            project.id, {name: Setting(value, session_id, at) for name, value in values.items()}
        )

    # Changes

    def touch(self, project_id: str, *, git_too: bool = True) -> None:
        """Note that something about a project has changed."""
        project = self.projects.by_id(project_id)
        if project is None:
            return
        card = self.card(project)
        card.dirty = True
        card.touched = clock.wall()
        card.git_wanted = card.git_wanted or git_too
        self._wake.set()

    def retire(self, idle_seconds: float) -> None:
        """Let go of projects in which nothing has happened for long."""
        limit = clock.wall() - idle_seconds
        for project_id, card in list(self.cards.items()):
            if card.touched < limit and not card.dirty:
                del self.cards[project_id]

    async def run(self) -> None:
        while True:
            # Cleared before the work: what is touched during it must wake us again.
            self._wake.clear()
            delay = await self._work()
            try:
                async with asyncio.timeout(delay):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _work(self) -> float | None:
        """Do what is due; return the seconds until something else is."""
        soonest: float | None = None
        for card in list(self.cards.values()):
            now = clock.monotonic()
            for wanted, due, act in (
                (card.git_wanted, card.git_not_before, self.ask_git),
                (card.dirty, card.write_not_before, self.publish),
            ):
                if wanted and due <= now:
                    await act(card)
                elif wanted:
                    soonest = min(due - now, soonest or due - now)
        return soonest

    async def ask_git(self, card: Card) -> None:
        card.git_wanted = False
        root = card.project.root
        if not root.exists or directories.git_directory(root.path) is None:
            card.uncommitted = []
            return
        card.git_not_before = clock.monotonic() + GIT_SECONDS
        try:
            found = await asyncio.to_thread(git.uncommitted_files, root.path)
            if card.tracked is None:
                name = client_paths.CHECKPOINT
                card.tracked = await asyncio.to_thread(git.is_tracked, root.path, name)
        except git.GitError as problem:
            log.get().warning("git_failed", project=root.path, why=str(problem))
            card.git_not_before = clock.monotonic() + 12 * GIT_SECONDS
            return
        if found != card.uncommitted:
            card.uncommitted = found
            card.dirty = True

    # Writing

    def refusal_to_write(self, card: Card) -> str:
        """Return why a project's handoff.yaml is not written unasked, or an empty text."""
        root = card.project.root
        refused = self.gate.refusal(card.project.id, root.path)
        if refused:
            return refused
        if self.gate.config.checkpoint.write == "none":
            return "writing is switched off ([checkpoint] write)"
        if not root.writable_unasked:
            return "no project of yours is here (no marker, or not your directory)"
        if card.tracked and not self.gate.config.checkpoint.write_tracked:
            return "git tracks handoff.yaml ([checkpoint] write_tracked)"
        return ""

    async def publish(self, card: Card) -> None:
        """Write the checkpoint if it says something new, then the brief; tell the watchers."""
        card.write_not_before = clock.monotonic() + WRITE_SECONDS
        project = self.projects.by_id(card.project.id) or card.project
        card.project = project
        if self.gate.refusal(project.id, project.root.path):
            card.dirty = False
            return
        self.refresh(project)
        card.dirty = False
        view = self.view(project)
        if view.main is None and not self.core.settings(project.id):
            return
        try:
            if not self.refusal_to_write(card) and self._is_current(view):
                await self._tidy(card)
                await self._write(card, view)
            await self._write_brief(card, view)
            card.retry_seconds = 0.0
            card.problem = ""
        except (OSError, HandoffError) as problem:
            self._retry_later(card, problem)
        self.published({"project": project.root.path, "document": view.document})

    def _is_current(self, view: View) -> bool:
        """Leave the files of old work alone: only what is active now is written unasked."""
        return view.main is None or view.main.idle_seconds < FIRST_START_SECONDS

    def _retry_later(self, card: Card, problem: Exception) -> None:
        least, most = RETRY_SECONDS
        busy = isinstance(problem, files.BusyError)
        card.retry_seconds = 0.2 if busy else min(max(card.retry_seconds * 2, least), most)
        card.write_not_before = clock.monotonic() + card.retry_seconds
        card.dirty = True
        if not busy:
            card.problem = str(problem).splitlines()[0]
            log.get().warning("write_failed", project=card.project.root.path, why=card.problem)

    async def _tidy(self, card: Card) -> None:
        """Once in our life, remove what a killed writer may have left in a project."""
        if not card.tidy:
            await asyncio.to_thread(checkpoint_file.tidy, card.project.root.path)
            card.tidy = True

    async def _write(self, card: Card, view: View) -> None:
        new = view.document
        if card.baseline is not None and covers(card.baseline, new) and self._unchanged(card):
            return
        baseline = card.baseline or {}
        self.core.set_checkpoint(card.project.id, baseline, new)
        edited: dict[str, Any] = {}

        def compute(found: dict[str, Any] | None) -> dict[str, Any] | None:
            edited.clear()
            edited.update(edited_values(found or {}, (baseline, new)))
            return merge(found, new, edited)

        root = card.project.root.path
        done = await asyncio.to_thread(checkpoint_file.change, root, compute, BUSY_WAIT_SECONDS)
        self._wrote(card, done)
        if edited:
            self.set_values(card.project, edited, clock.iso_milliseconds())

    def _unchanged(self, card: Card) -> bool:
        return client_paths.checkpoint_stamp(card.project.root.path) == card.stamp != "none"

    async def _write_brief(self, card: Card, view: View) -> None:
        """Keep the rendered brief beside our state, for a client that finds no daemon."""
        root = card.project.root.path
        stamp = client_paths.checkpoint_stamp(root)
        text = f"{root}\t{stamp}\n{self.brief(card.project, view)}"
        if hash(text) == card.brief_hash:
            return
        path = client_paths.brief_file(root)
        await asyncio.to_thread(_write_private, path, text.encode("utf-8", "replace"))
        card.brief_hash = hash(text)

    def brief(self, project: Project, view: View, level: str = "L1") -> str:
        document = {**view.document}
        if view.main:
            document.setdefault("timestamp", view.main.state.last_time)
        if view.main and view.main.idle_seconds > INHERITED_SECONDS:
            level = "L0"
        others = [
            f"session {lane.state.session_id[:8]}: {lane.state.now.text if lane.state.now else ''}"
            for lane in view.live
            if view.main and lane.state.session_id != view.main.state.session_id
        ]
        return briefing.render(document, project.root.path, others, level)

    # Asked for

    def write_now(self, project: Project) -> None:
        """Write at once what would be written within two seconds."""
        self.refresh(project)
        self.touch(project.id)
        card = self.card(project)
        card.write_not_before = card.git_not_before = 0.0

    async def save(
        self, project: Project, given: dict[str, str | None], tags: list[str]
    ) -> tuple[str, dict[str, Any], int]:
        """Write what a person said, wherever the project is; it stands from now on."""
        card = self.card(project)
        root = project.root.path
        self.refresh(project)
        card.git_wanted = True
        await self.ask_git(card)
        message = given.pop("message")
        values = {name: value for name, value in given.items() if value is not None}
        before = self.view(project).document
        if message is not None:
            values.setdefault("now", message)
            if before["goal"] == NOT_STATED:
                values.setdefault("goal", message)
        kept, masked = keep_values(values)
        self.set_values(project, kept, clock.iso_milliseconds())
        new = self.view(project).document
        if new["now"] == NOT_STATED:
            new["now"] = DEFAULT_NOW

        def compute(found: dict[str, Any] | None) -> dict[str, Any]:
            return with_tags({**(found or {}), **new, "timestamp": clock.iso()}, tags)

        self.core.set_checkpoint(project.id, card.baseline or {}, new)
        done = await asyncio.to_thread(checkpoint_file.change, root, compute)
        self.projects.forget_cached()  # an unmarked directory has a marker now
        self._wrote(card, done)
        self.touch(project.id, git_too=False)
        return f"{root}/{client_paths.CHECKPOINT}", done.data, masked

    def _wrote(self, card: Card, done: checkpoint_file.Written) -> None:
        card.stamp = f"{done.status.st_size}.{done.status.st_mtime_ns}"
        card.baseline = done.data
        self.core.set_checkpoint(card.project.id, done.data, done.data)
        self.writes += 1

    async def finish(self) -> None:
        """Write what is still unwritten: the last thing before the end."""
        for card in list(self.cards.values()):
            if card.dirty:
                await self.publish(card)


def edited_values(found: dict[str, Any], ours: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields of a file whose values are none of ours."""
    return {
        name: value
        for name in SETTABLE
        if isinstance(value := found.get(name), str)
        and value.strip()
        and all(value != document.get(name) for document in ours)
    }


def covers(found: dict[str, Any], new: dict[str, Any]) -> bool:
    """Tell whether a file says all of this already; the time does not count."""
    return all(found.get(name) == value for name, value in new.items() if name != "timestamp")


def merge(
    found: dict[str, Any] | None, new: dict[str, Any], edited: dict[str, Any]
) -> dict[str, Any] | None:
    """Lay our document over the file's, keeping what a person just changed and what we do not know.

    Nothing but the time being new is no reason to write.
    """
    wanted = {**new, **edited}
    if found is not None and covers(found, wanted):
        return None
    return {**(found or {}), **wanted, "timestamp": clock.iso()}


def _write_private(path: str, data: bytes) -> None:
    parent, name = os.path.split(path)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    with files.directory(parent) as handle:
        files.write(handle, name, data)
