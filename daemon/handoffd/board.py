"""What is true of each project now: its lanes, its git state, and what a person set.

What is answered over the socket comes from here, and is always the newest.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from handoff import paths as client_paths
from handoff.errors import HandoffError
from handoffd import clock, log, mounts
from handoffd.gate import Gate
from handoffd.handoffs import briefing, checkpoint_file, shelf
from handoffd.handoffs.checkpoint import LISTS
from handoffd.handoffs.edits import SETTABLE, added_files, edited_values
from handoffd.handoffs.lanes import INHERITED_SECONDS, Lane, View, choose, compose
from handoffd.handoffs.opening import UNREAD_SECONDS
from handoffd.projects import Project, Projects
from handoffd.session import insights
from handoffd.session.state import Value
from handoffd.session.storage import load
from handoffd.session.text import redact_values
from handoffd.sources import projects as directories
from handoffd.store.core import CoreStore, Setting
from handoffd.store.state import StateStore
from handoffd.store.threads import Unread

LANES_MAX = 8
ABSENT_SECONDS = 2.0
SHELF_SECONDS = 0.002
# Two clocks may differ by so much; a record that is further ahead is from before ours was set back.
AHEAD_SECONDS = 60.0

# The same few folds are asked for again and again; nobody changes what comes out.
_load = lru_cache(maxsize=16)(load)


class Committed(Protocol):
    """A commit (see links.repository.Commit)."""

    @property
    def seconds(self) -> float: ...
    @property
    def text(self) -> str: ...


@dataclass(slots=True)
class Card:
    """What the board remembers of a project while it is active."""

    project: Project
    branch: str | None = None
    uncommitted: list[str] = field(default_factory=list)
    # What was committed in the last days, and how HEAD's log looked when that was asked.
    commits: Sequence[Committed] = ()
    reflog: str | None = None
    baseline: dict[str, Any] | None = None
    stamp: str = ""
    dirty: bool = False
    write_not_before: float = 0.0
    git_not_before: float = 0.0
    git_wanted: bool = False
    # Why git gives no answer, and how often it did not.
    git_problem: str = ""
    git_failures: int = 0
    retry_seconds: float = 0.0
    tracked: bool | None = None
    problem: str = ""
    touched: float = 0.0
    brief_hash: int = 0
    tidy: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Held from looking at what is true until it is written.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    unreadable: str = ""
    absent_since: float = 0.0
    asking: bool = False
    # To look through its handoffs takes long.
    has_long_shelf: bool = False


@dataclass(slots=True)
class Board:
    """Knows each active project."""

    core: CoreStore
    state: StateStore
    gate: Gate
    projects: Projects
    cards: dict[str, Card] = field(default_factory=dict)
    # The sessions whose clients are known to be gone, and when that was seen.
    ended: dict[str, float] = field(default_factory=dict)
    # The sessions whose clients ask a person for something, as their hooks say.
    waiting: dict[str, Value] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def card(self, project: Project) -> Card:
        card = self.cards.get(project.id)
        if card is None:
            card = Card(project, directories.branch(project.root.path))
            if project.id:
                self.cards[project.id] = card
        card.project = project
        return card

    # What is true now

    def lanes(self, project_id: str, wanted: str = "") -> list[Lane]:
        now = clock.wall()
        stored = [
            *self.state.sessions(project_id, LANES_MAX, headless=False),
            *self.state.sessions(project_id, LANES_MAX, headless=True),
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

    def view(self, project: Project, session_id: str = "") -> View:
        """Compose the newest document of a project, or of one of its sessions."""
        card = self.card(project)
        root = project.root.path
        settings = self.core.settings(project.id)
        lanes = self.lanes(project.id, session_id)
        view = compose(root, lanes, settings, card.branch, card.uncommitted)
        known = card.baseline or {}
        ours = (*LISTS, *view.document)
        view.extras = {key: known[key] for key in known if key not in ours}
        return view

    def refresh(self, project: Project) -> None:
        """Look at what a watch would have told: the branch, and a person's edit."""
        if not project.id or self.gate.refusal(project.id, project.root.path):
            return
        card = self.card(project)
        try:
            self._look(card, project)
        except Exception as problem:  # noqa: BLE001  one project must not stop the others
            card.stamp = ""  # look again
            why = f"its handoff.yaml could not be looked at: {log.why(problem)}"
            remedy = getattr(problem, "hint", "") or "Find out more with: handoff doctor"
            if why != card.problem:
                log.get().error("project_failed", project=project.root.path, why=why, remedy=remedy)
            card.problem = why

    def _look(self, card: Card, project: Project) -> None:
        branch = directories.branch(project.root.path)
        if branch != card.branch:
            card.branch = branch
            self.touch(project.id)
        # What is read must be remembered, or our own words would be taken for a person's.
        if card.lock.locked():
            return
        if card.baseline is None or client_paths.checkpoint_stamp(project.root.path) != card.stamp:
            self.reread(card)

    def reread(self, card: Card) -> None:
        """Take over what somebody else wrote into handoff.yaml."""
        root = card.project.root.path
        card.stamp = client_paths.checkpoint_stamp(root)
        try:
            stored = checkpoint_file.load(root)
        except HandoffError as problem:
            card.problem = problem.title
            return
        card.unreadable = stored.problem
        if stored.status is None and not stored.problem:
            self._missed(card)
            return
        card.absent_since = 0.0
        if stored.data is not None and stored.status is not None:
            ours = self.core.checkpoint(card.project.id)
            self.learn_edits(card.project, stored.data, ours, stored.status.st_mtime)
            self.remember(card.project, stored.data, stored.data)
        card.baseline = stored.data or {}
        self.touch(card.project.id, git_too=False)

    def _missed(self, card: Card) -> None:
        """Forget what a person set only when the file is gone for good, not while it is replaced.

        An editor may rename it away before it writes; a whole disk may be away for a while.
        """
        now = clock.monotonic()
        card.absent_since = card.absent_since or now
        if card.baseline and now - card.absent_since < ABSENT_SECONDS:
            card.stamp = ""  # look again
            return
        directory = f"{card.project.root.path}/{checkpoint_file.DIRECTORY}"
        if card.baseline and os.path.isdir(directory):
            self.core.drop_values(card.project.id, [*SETTABLE, *LISTS, "files"])
        if card.project.root.exists:
            card.baseline = {}
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
        added = added_files(found, ours)
        if added:
            edited["files"] = added
        if edited:
            at = clock.iso_milliseconds(edited_at)
            self.set_values(project, edited, at)

    def remember(self, project: Project, written: dict[str, Any], intended: dict[str, Any]) -> None:
        """Keep what the file says, so that a value that is neither is known as a person's."""
        self.core.set_checkpoint(project.id, redact_values(written), redact_values(intended))

    def set_values(self, project: Project, values: dict[str, Any], at: str) -> None:
        """Enter what a person set, with the session in whose presence it was set."""
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
        card = self.card(project)
        card.dirty = True
        card.touched = clock.wall()
        card.git_wanted = card.git_wanted or git_too
        self.changed.set()

    @asynccontextmanager
    async def turn(self, card: Card) -> AsyncIterator[None]:
        """Hold a card's turn; who waits to write what came meanwhile is woken at its end."""
        async with card.turn:
            try:
                yield
            finally:
                self.changed.set()

    def forget(self, project: Project) -> None:
        """Let go of what was read and written; call it with the card's locks held."""
        card = self.card(project)
        card.baseline, card.stamp, card.brief_hash = None, "", 0
        card.dirty, card.problem, card.unreadable = False, "", ""
        card.touched = clock.wall()
        _load.cache_clear()

    def end(self, session_id: str) -> None:
        """Take note that a session's client is gone."""
        self.ended[session_id] = clock.wall()
        self.waiting.pop(session_id, None)
        self.state.set_ended(session_id, self.ended[session_id])

    def revive(self, session_id: str) -> None:
        """Take note that a session goes on after all."""
        if self.ended.pop(session_id, None) is not None:
            self.state.set_ended(session_id, None)

    def retire(self, idle_seconds: float) -> None:
        """Let go of projects and sessions in which nothing has happened for long."""
        limit = clock.wall() - idle_seconds
        self.ended = {name: at for name, at in self.ended.items() if at > limit}
        self.waiting = {
            name: value
            for name, value in self.waiting.items()
            if clock.parse(value.receipt.time) > limit
        }
        for project_id, card in list(self.cards.items()):
            if card.touched < limit and not card.dirty:
                del self.cards[project_id]

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
        if card.unreadable:
            return f"the file cannot be read ({card.unreadable})"
        if card.tracked and not self.gate.config.checkpoint.write_tracked:
            return "git tracks handoff.yaml ([checkpoint] write_tracked)"
        return ""

    def brief(
        self, project: Project, view: View, newest: shelf.Handoff | None, level: str = "L1"
    ) -> str:
        """Tell a session what is known, in short where the work is done or long ago."""
        document = view.whole
        if view.main:
            document["timestamp"] = view.main.state.last_time
        if level == "L1" and self._is_past(view):
            level = "L0"
        others = [
            f"session {lane.state.session_id[:8]}: {_now(lane)}"
            for lane in view.live
            if view.main and lane.state.session_id != view.main.state.session_id
        ]
        left = briefing.Left(clock.iso(newest.seconds), newest.contract) if newest else None
        unread = [(thread.id, thread.number) for thread in self.unread(project)]
        around = briefing.Around(others, unread, left, self.moved(project, view))
        return briefing.render(document, project.root.path, level, around)

    def _is_past(self, view: View) -> bool:
        old = view.main is not None and view.main.idle_seconds > INHERITED_SECONDS
        return old or view.document["status"] == "completed"

    def moved(self, project: Project, view: View) -> list[str]:
        """Say what became different in git since the last record of the session that is shown."""
        card, state = self.card(project), view.main.state if view.main else None
        if state is None or not project.id:
            return []
        # A commit of the same second may be the session's own.
        since = clock.parse(state.last_time) + 1
        known = tuple(value.text.split(" ")[0] for value in state.commits)
        news = [commit.text for commit in card.commits if commit.seconds > since]
        news = [text for text in news if not text.startswith(known)]
        return briefing.moves((state.branch and state.branch.text, card.branch), news)

    async def newest_handoff(self, project: Project) -> shelf.Handoff | None:
        """Return the newest handoff of a project, unless it is too old to be told of."""
        if self.gate.refusal(project.id, project.root.path):
            return None
        base = shelf.shelves(self.gate.config.contract.directory)
        place = shelf.Place(project.root.path, project.root.path)
        card, began = self.card(project), clock.monotonic()
        if card.has_long_shelf or mounts.may_hang(base):
            found = await asyncio.to_thread(shelf.newest, base, place)
        else:  # a thread would take longer to come back
            found = shelf.newest(base, place)
            card.has_long_shelf = clock.monotonic() - began > SHELF_SECONDS
        return found if found and clock.wall() - found.seconds < UNREAD_SECONDS else None

    def unread(self, project: Project) -> list[Unread]:
        """Return the threads used in a project that have something new for Code."""
        if not project.id or self.gate.refusal(project.id, project.root.path):
            return []
        return self.core.threads.unread(project.id)


def _now(lane: Lane) -> str:
    found = insights.now(lane.state)
    return found.text if found else ""


def _idle_seconds(now: float, last: float) -> float:
    """Return for how long nothing was heard; of what is far ahead nobody knows, so as long as that.

    Otherwise it would come before all that happened since the clock was set back.
    """
    ahead = last - now
    return ahead if ahead > AHEAD_SECONDS else max(-ahead, 0.0)
