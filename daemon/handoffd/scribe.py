"""Writes what the board says: handoff.yaml and briefs.

The first change after quiet is written at once, then at most every two seconds while changes
keep coming. git is asked beside it, so that a slow repository holds up no other project.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from handoff import paths as client_paths
from handoff.errors import HandoffError
from handoff.remedies import refused
from handoffd import clock, files, log, mounts
from handoffd.board import Board, Card
from handoffd.errors import StoreError
from handoffd.handoffs import briefing, checkpoint_file
from handoffd.handoffs.checkpoint import DEFAULT_NOW, FIELDS, LISTS, NOT_STATED, with_tags
from handoffd.handoffs.edits import covers, edited_values, merge, spoken
from handoffd.handoffs.lanes import INHERITED_SECONDS, View
from handoffd.links import git, git_discovery, program, repository
from handoffd.projects import Project
from handoffd.session.text import keep_values
from handoffd.sources import projects as directories

WRITE_SECONDS = 2.0
PUBLISH_SECONDS = 2.0
GIT_SECONDS = 5.0
BUSY_WAIT_SECONDS = 0.2
RETRY_SECONDS = (1.0, 60.0)
# A line with the project's path, and the brief.
_BRIEF_FILE_MAX_BYTES = 4096 + 2 * briefing.BRIEF_MAX_BYTES
# What is ours in a checkpoint; all the rest is a person's.
_OURS = frozenset((*FIELDS, *LISTS, "previous_goal"))


@dataclass(frozen=True, slots=True)
class Saved:
    """What the file says now, how many secrets were masked, whether something was cut."""

    document: dict[str, Any]
    masked: int
    cut: bool


@dataclass(slots=True)
class Scribe:
    """Keeps each active project's files true."""

    board: Board
    published: Callable[[dict[str, Any]], None]
    writes: int = 0
    redacted: int = 0
    _beside: set[asyncio.Task[None]] = field(default_factory=set)
    _writing: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        wake = self.board.changed
        while True:
            # Cleared before the work: what is touched during it must wake us again.
            wake.clear()
            delay = await self._work()
            try:
                async with asyncio.timeout(delay):
                    await wake.wait()
            except TimeoutError:
                continue

    async def _work(self) -> float | None:
        """Do what is due; return the seconds until something else is."""
        waits = []
        for card in list(self.board.cards.values()):
            now = clock.monotonic()
            if card.git_wanted and card.git_not_before <= now:
                self._ask_git_beside(card)
            elif card.git_wanted:
                waits.append(card.git_not_before - now)
            if card.dirty and card.write_not_before <= now and not card.turn.locked():
                await self._publish_in_time(card)
            # Not due yet, or in vain: nobody else would wake us for it; the end of a turn does.
            if card.dirty and not card.turn.locked():
                waits.append(card.write_not_before - clock.monotonic())
        return max(min(waits), 0.0) if waits else None

    async def _publish_in_time(self, card: Card) -> None:
        """Write a project's files; one whose disk hangs holds up no other."""
        task = asyncio.ensure_future(self.publish(card))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        await asyncio.wait({task}, timeout=PUBLISH_SECONDS)
        if task.done():
            task.result()

    def _ask_git_beside(self, card: Card) -> None:
        card.git_wanted = False
        card.git_not_before = clock.monotonic() + GIT_SECONDS
        if card.asking:
            return
        card.asking = True
        task = asyncio.ensure_future(self.ask_git(card))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def ask_git(self, card: Card) -> None:
        """Learn which files are uncommitted, and whether git tracks our own."""
        before = card.uncommitted, card.commits
        try:
            await self._learn_from_git(card)
        except git.GitError as problem:
            await self._go_without_git(card, problem)
        else:
            card.git_problem, card.git_failures = "", 0
        finally:
            card.asking = False
        if (card.uncommitted, card.commits) != before:
            self.board.touch(card.project.id, git_too=False)

    async def _go_without_git(self, card: Card, problem: git.GitError) -> None:
        """Ask again later; until then what git would say is missing, and nothing else."""
        root = card.project.root.path
        log.get().warning("git_failed", project=root, why=str(problem))
        card.git_not_before = clock.monotonic() + 12 * GIT_SECONDS
        card.git_wanted = True
        card.git_failures += 1
        if not problem.missing and (not problem.late or card.git_failures > 1):
            card.git_problem = str(problem)
        directory = git_discovery.suspected(root)
        if card.tracked is None and directory is not None:
            path = client_paths.CHECKPOINT
            tracked = await asyncio.to_thread(git.may_be_tracked, directory, path)
            self._set_tracked(card, tracked=tracked)

    async def _learn_from_git(self, card: Card) -> None:
        root = card.project.root
        if self.board.gate.refusal(card.project.id, root.path):
            return
        if not root.exists or git_discovery.find(root.path) is None:
            card.uncommitted = []
            self._set_tracked(card, tracked=False)
            return
        # First what decides whether we may write, then what may take its time.
        tracked = await asyncio.to_thread(git.is_tracked, root.path, client_paths.CHECKPOINT)
        self._set_tracked(card, tracked=tracked)
        card.uncommitted = await asyncio.to_thread(git.uncommitted_files, root.path)
        await self._learn_commits(card)

    async def _learn_commits(self, card: Card) -> None:
        """Ask for the commits of the last days, if HEAD has moved since they were asked for."""
        root = card.project.root.path
        stamp = directories.reflog_stamp(root)
        if stamp != card.reflog:
            since = clock.iso(clock.wall() - INHERITED_SECONDS)
            card.commits = await asyncio.to_thread(
                repository.commits_after, root, since, git.TIMEOUT_SECONDS
            )
            card.reflog = stamp

    def _set_tracked(self, card: Card, *, tracked: bool) -> None:
        first, card.tracked = card.tracked is None, tracked
        if first:
            self.board.touch(card.project.id, git_too=False)  # now it may be written

    async def publish(self, card: Card) -> None:
        """Write the checkpoint if it says something new, then the brief; tell the watchers."""
        async with self.board.turn(card):
            try:
                await self._publish(card)
            except asyncio.CancelledError:  # we are ending: what is half done is done then
                card.dirty = True
                raise
            except StoreError as problem:
                self._retry_later(card, problem)

    async def _publish(self, card: Card) -> None:
        # Its disk may have gone since, and what is there then is only the place of it.
        project = self.board.projects.by_id(card.project.id, fresh=True) or card.project
        card.project = project
        if refusal := self.board.gate.refusal(project.id, project.root.path):
            card.dirty = refusal == mounts.SILENT
            card.write_not_before = clock.monotonic() + WRITE_SECONDS
            return
        if not project.root.exists:
            card.problem = ""
        self.board.refresh(project)
        card.dirty = False
        if card.tracked is None:
            self._ask_git_beside(card)  # which touches the project when it is done
            return
        view = self.board.view(project)
        stated = view.main is not None or bool(self.board.core.settings(project.id))
        if not stated and not self._is_mentioned(project):
            return
        try:
            if not self.board.refusal_to_write(card) and self._is_current(view):
                await self._tidy(card)
                await self._write(card, view)
            await self._write_brief(card, view)
            card.retry_seconds = 0.0
            card.problem = ""
        except Exception as problem:  # noqa: BLE001  one project must not stop the others
            self._retry_later(card, problem)
        if stated:
            self.published({"project": project.root.path, "document": view.document})

    def _is_mentioned(self, project: Project) -> bool:
        """Tell whether a brief is due for threads alone, or was once and must not stay."""
        if self.board.unread(project):
            return True
        parent, name = os.path.split(client_paths.brief_file(project.root.path))
        with contextlib.suppress(OSError, HandoffError), files.directory(parent) as handle:
            found = files.read(handle, name, _BRIEF_FILE_MAX_BYTES, cut=True)
            return found is not None and briefing.is_mention_only(found[0].decode(errors="replace"))
        return False

    def _is_current(self, view: View) -> bool:
        """Leave the files of old work alone: only what is active now is written unasked."""
        return view.main is not None and view.main.idle_seconds < clock.DAY_SECONDS

    def _retry_later(self, card: Card, problem: Exception) -> None:
        least, most = RETRY_SECONDS
        busy = isinstance(problem, files.BusyError)
        card.retry_seconds = 0.2 if busy else min(max(card.retry_seconds * 2, least), most)
        card.write_not_before = clock.monotonic() + card.retry_seconds
        card.dirty = True
        if busy:
            return
        root = card.project.root.path
        card.problem = log.why(problem).replace(f"{root}/", "")
        log.get().warning("write_failed", project=root, why=card.problem)

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
        # A file that is not there may come back, with its disk: it says what we wrote last.
        last = baseline or self.board.core.checkpoint(card.project.id)[0]
        self.board.remember(card.project, last, new)
        edited: dict[str, Any] = {}

        def compute(found: dict[str, Any] | None) -> dict[str, Any] | None:
            edited.clear()
            edited.update(edited_values(found or {}, (baseline, new)))
            return merge(found, new, edited, clock.iso())

        done = await self._change(card, compute, BUSY_WAIT_SECONDS)
        card.write_not_before = clock.monotonic() + WRITE_SECONDS
        self._wrote(card, done)
        self.board.core.drop_values(card.project.id, view.superseded)
        if edited:
            self.board.set_values(card.project, edited, clock.iso_milliseconds())

    def _unchanged(self, card: Card) -> bool:
        return client_paths.checkpoint_stamp(card.project.root.path) == card.stamp != "none"

    async def _write_brief(self, card: Card, view: View) -> None:
        """Keep the rendered brief beside our state, for a client that finds no daemon."""
        root = card.project.root.path
        stamp = client_paths.checkpoint_stamp(root)
        newest = await self.board.newest_handoff(card.project)
        text = f"{root}\t{stamp}\n{self.board.brief(card.project, view, newest)}"
        if hash(text) == card.brief_hash:
            return
        path = client_paths.brief_file(root)
        try:
            await asyncio.to_thread(self._put_brief, path, text.encode("utf-8", "replace"), card)
        except OSError as problem:
            raise refused(problem, path) from None
        card.brief_hash = hash(text)
        card.write_not_before = clock.monotonic() + WRITE_SECONDS

    def _put_brief(self, path: str, data: bytes, card: Card) -> None:
        parent, name = os.path.split(path)
        with files.directory(parent) as handle:
            files.write(handle, name, data)
            # Here, because nobody may be left to look after it was written.
            if self.board.gate.refusal(card.project.id, card.project.root.path):
                files.remove(handle, name)

    # Asked for

    def drop_briefs(self, project: Project | None) -> None:
        """Let a client that finds no daemon say nothing, either, of what is left alone."""
        for card in self.board.cards.values():
            if project is None or card.project.id == project.id:
                card.brief_hash = 0
        directory, name = os.path.split(
            client_paths.brief_file(project.root.path if project else "")
        )
        with contextlib.suppress(OSError, HandoffError), files.directory(directory) as handle:
            for found in [name] if project else os.listdir(handle):
                files.remove(handle, found)

    def write_now(self, project: Project) -> None:
        """Write at once what would be written within two seconds."""
        self.board.refresh(project)
        self.board.touch(project.id)
        card = self.board.card(project)
        card.write_not_before = card.git_not_before = 0.0

    async def save(self, project: Project, given: dict[str, str | None], tags: list[str]) -> Saved:
        """Write what a person said, wherever the project is; it stands from now on."""
        project.root.require()
        card = self.board.card(project)
        async with self.board.turn(card):
            return await self._save(card, project, given, tags)

    async def _save(
        self, card: Card, project: Project, given: dict[str, str | None], tags: list[str]
    ) -> Saved:
        self.board.refresh(project)
        await self.ask_git(card)
        goal = self.board.view(project).document["goal"]
        kept = keep_values(spoken(given, goal))
        self.redacted += kept.masked
        self.board.set_values(project, kept.values, clock.iso_milliseconds())
        new = self.board.view(project).document
        if new["now"] == NOT_STATED:
            new["now"] = DEFAULT_NOW

        def compute(found: dict[str, Any] | None) -> dict[str, Any]:
            now = clock.iso()
            saved = merge(found, new, {}, now) or {**(found or new), "timestamp": now}
            return with_tags(saved, tags)

        self.board.remember(project, card.baseline or {}, new)
        done = await self._change(card, compute, checkpoint_file.WAIT_SECONDS)
        self.board.projects.forget_cached()  # an unmarked directory has a marker now
        self._wrote(card, done)
        self.board.touch(project.id, git_too=False)
        return Saved(done.data, kept.masked, kept.cut)

    async def renew(self, card: Card) -> None:
        """Replace what is ours in a checkpoint by what is known now, whatever was there.

        Call it with the card's locks held.
        """
        new = self.board.view(card.project).document

        def compute(found: dict[str, Any] | None) -> dict[str, Any]:
            kept = {name: value for name, value in (found or {}).items() if name not in _OURS}
            return {**new, **kept, "timestamp": clock.iso()}

        root = card.project.root.path
        self._wrote(card, await asyncio.to_thread(checkpoint_file.change, root, compute))

    async def _change(
        self, card: Card, compute: checkpoint_file.Compute, wait_seconds: float
    ) -> checkpoint_file.Written:
        root = card.project.root.path
        async with card.lock:  # what changes on disk meanwhile is our own doing
            return await asyncio.to_thread(checkpoint_file.change, root, compute, wait_seconds)

    def _wrote(self, card: Card, done: checkpoint_file.Written) -> None:
        card.stamp = f"{done.status.st_size}.{done.status.st_mtime_ns}"
        card.baseline = done.data
        self.board.remember(card.project, done.data, done.data)
        self.writes += 1

    def close(self) -> None:
        """Let no git outlive us."""
        program.end_all()

    async def finish(self) -> None:
        """Write what is still unwritten: the last thing before the end."""
        for card in list(self.board.cards.values()):
            if card.dirty:
                await self.publish(card)
        if self._writing:
            await asyncio.wait(self._writing)
