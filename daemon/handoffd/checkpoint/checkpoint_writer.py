"""Writes the state of each active project: handoff.yaml and the brief.

The first change after a quiet time is written at once. While changes keep coming, they are
written at most every two seconds. git runs in parallel, so that a slow repository delays no other
project.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Protocol

from handoff.common import paths as client_paths
from handoffd.checkpoint import checkpoint_file
from handoffd.checkpoint.checkpoint_format import with_tags
from handoffd.checkpoint.checkpoint_reader import CheckpointReader
from handoffd.checkpoint.edits import (
    covers,
    deleted_lines,
    edited_values,
    merge,
    spoken,
    without_lines,
)
from handoffd.errors import StoreError
from handoffd.fs import files, mounts
from handoffd.projects.git_questions import GitQuestions
from handoffd.projects.lanes import ProjectView
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.project_state import ActiveProject, ProjectStates
from handoffd.projects.registry import Project, ProjectRegistry
from handoffd.runtime import clock, log
from handoffd.runtime.announcement import Announcement
from handoffd.session.fields import DEFAULT_NOW, NOT_STATED, OURS
from handoffd.session.text import KeptValues, keep_values
from handoffd.store.core import CoreStore

WRITE_SECONDS = 2.0
PUBLISH_SECONDS = 2.0
BUSY_WAIT_SECONDS = 0.2
RETRY_SECONDS = (1.0, 60.0)


Saved = tuple[dict[str, Any], KeptValues]


class BriefKeeper(Protocol):
    """The copy of a project's brief, written after its handoff.yaml (hooks/brief_writer.py)."""

    def is_due(self, project: Project, view: ProjectView) -> bool: ...
    async def write(self, active: ActiveProject, view: ProjectView) -> bool: ...


@dataclass(slots=True)
class CheckpointWriter:
    """Keeps each active project's files current."""

    core: CoreStore
    policy: LearningPolicy
    projects: ProjectRegistry
    project_states: ProjectStates
    reader: CheckpointReader
    git_questions: GitQuestions
    brief_writer: BriefKeeper
    # Announced whenever a project's state is published, even if no file had to be written.
    project_changed: Announcement[[dict[str, Any]]]
    writes: int = 0
    redacted: int = 0
    _writing: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        wake = self.project_states.changed
        while True:
            # Clear before the work: a project that is touched during it must wake us again.
            wake.clear()
            delay = await self._work()
            try:
                async with asyncio.timeout(delay):
                    await wake.wait()
            except TimeoutError:
                continue

    async def _work(self) -> float | None:
        """Do all work that is due. Return the seconds until more is due, or None."""
        waits = []
        for active in list(self.project_states.active_projects.values()):
            now = clock.monotonic()
            if active.git.wanted and active.git.not_before <= now:
                self.git_questions.ask_soon(active)
            elif active.git.wanted:
                waits.append(active.git.not_before - now)
            if active.dirty and active.write_not_before <= now and not active.turn.locked():
                await self._publish_in_time(active)
            # If the write is not due yet, or has failed, nothing else wakes us for it. If another
            # task has the turn, the end of that turn wakes us.
            if active.dirty and not active.turn.locked():
                waits.append(active.write_not_before - clock.monotonic())
        return max(min(waits), 0.0) if waits else None

    async def _publish_in_time(self, active: ActiveProject) -> None:
        """Write a project's files. Wait only a while: a hanging disk delays no other project."""
        task = asyncio.ensure_future(self.publish(active))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        await asyncio.wait({task}, timeout=PUBLISH_SECONDS)
        if task.done():
            task.result()

    async def publish(self, active: ActiveProject) -> None:
        """Write the checkpoint if its content is new, then the brief, and announce the state."""
        async with self.project_states.turn(active):
            try:
                await self._publish(active)
            except asyncio.CancelledError:  # the daemon stops: finish() writes it
                active.dirty = True
                raise
            except StoreError as problem:
                self._retry_later(active, problem)

    async def _publish(self, active: ActiveProject) -> None:
        # The disk may be absent by now, and the path is then only its mount point.
        project = self.projects.by_id(active.project.id, fresh=True) or active.project
        active.project = project
        if refusal := self.policy.refusal(project.id, project.root.path):
            active.dirty = refusal == mounts.SILENT
            active.write_asked = active.write_asked and active.dirty
            active.write_not_before = clock.monotonic() + WRITE_SECONDS
            return
        if not project.root.exists:
            active.problem = ""
        self.project_states.refresh(project)
        active.dirty = False
        if active.git.tracked is None:
            self.git_questions.ask_soon(active)  # the answer touches the project
            return
        view = self.project_states.view(project)
        stated = view.main is not None or bool(self.core.settings(project.id))
        if not stated and not self.brief_writer.is_due(project, view) and not active.write_asked:
            return
        try:
            if not self.project_states.refusal_to_write(active):
                await self._write_if_due(active, view)
            if await self.brief_writer.write(active, view):
                active.write_not_before = clock.monotonic() + WRITE_SECONDS
            active.write_asked = False
            active.retry_seconds = 0.0
            active.problem = ""
        except Exception as problem:  # noqa: BLE001  one project must not stop the others
            self._retry_later(active, problem)
        if stated:
            self.project_states.published.announce(active, view)
            self.project_changed.announce({"project": project.root.path, "document": view.document})

    async def _write_if_due(self, active: ActiveProject, view: ProjectView) -> None:
        """Write recent work; without any, only if a write was asked for: what git sees."""
        if self._is_current(view) or active.item_closed:
            await self._remove_leftovers(active)
            active.item_closed = False
            await self._write(active, view)
        elif active.write_asked:
            await self._keep_observed(active)

    async def _keep_observed(self, active: ActiveProject) -> None:
        await self.git_questions.ask(active)
        observed: dict[str, Any] = {}
        if active.git.branch:
            observed["branch"] = active.git.branch
        if active.git.uncommitted:
            observed["files"] = list(active.git.uncommitted)
        root = active.project.root.path
        async with active.file.lock:
            done = await asyncio.to_thread(
                checkpoint_file.keep_observed, root, observed, BUSY_WAIT_SECONDS
            )
        self._note_written(active, done)

    def _is_current(self, view: ProjectView) -> bool:
        """Return True if the work is recent: the files of old work are not written unasked."""
        return view.main is not None and view.main.idle_seconds < clock.DAY_SECONDS

    def _retry_later(self, active: ActiveProject, problem: Exception) -> None:
        least, most = RETRY_SECONDS
        busy = isinstance(problem, files.BusyError)
        active.retry_seconds = 0.2 if busy else min(max(active.retry_seconds * 2, least), most)
        active.write_not_before = clock.monotonic() + active.retry_seconds
        active.dirty = True
        if busy:
            return
        root = active.project.root.path
        active.problem = log.why(problem).replace(f"{root}/", "")
        log.get().warning("write_failed", project=root, why=active.problem)

    async def _remove_leftovers(self, active: ActiveProject) -> None:
        """Remove the temporary files of a killed writer, once per project in our lifetime."""
        if not active.file.tidy:
            await asyncio.to_thread(checkpoint_file.remove_leftovers, active.project.root.path)
            active.file.tidy = True

    async def _write(self, active: ActiveProject, view: ProjectView) -> None:
        new = view.document
        if (
            active.file.baseline is not None
            and covers(active.file.baseline, new)
            and self._is_unchanged(active)
        ):
            return
        # A file that is absent, or that an editor has emptied and is about to fill, holds our last
        # write when it comes back: those values are no edits.
        last = active.file.baseline or self.core.checkpoint(active.project.id)[0]
        self.reader.remember(active.project, last, new)
        edited: dict[str, Any] = {}
        deleted: list[str] = []

        def compute(found: dict[str, Any] | None) -> dict[str, Any] | None:
            edited.clear()
            deleted.clear()
            if found:  # an absent or empty file holds no edits
                edited.update(edited_values(found, (last, new)))
                deleted.extend(deleted_lines(found, (last, new)))
            wanted = without_lines(new, deleted) if deleted else new
            return merge(found, wanted, edited, checkpoint_file.next_timestamp(found))

        done = await self._change(active, compute, BUSY_WAIT_SECONDS)
        active.write_not_before = clock.monotonic() + WRITE_SECONDS
        if deleted:  # before the file is noted as ours: after a kill, they are found again
            self.project_states.drop_lines(active.project, deleted, clock.iso_milliseconds())
        self._note_written(active, done)
        self.core.drop_values(active.project.id, view.superseded)
        if edited:
            self.project_states.set_values(active.project, edited, clock.iso_milliseconds())

    def _is_unchanged(self, active: ActiveProject) -> bool:
        return (
            client_paths.checkpoint_stamp(active.project.root.path) == active.file.stamp != "none"
        )

    # On request

    def write_now(self, project: Project) -> None:
        """Make a write due at once, even if no session of the project is known yet."""
        if not project.id:
            if self.project_states.refusal_to_write(self.project_states.active(project)):
                return
            project = self.projects.at(project.root.path)
        self.project_states.refresh(project)
        self.project_states.touch(project.id)
        active = self.project_states.active(project)
        active.write_not_before = active.git.not_before = 0.0
        active.write_asked = True

    async def save(self, project: Project, given: dict[str, str | None], tags: list[str]) -> Saved:
        """Write the values that a person gave, in any project; they hold from now on.

        Return the content of the file now, and the values as they were kept.
        """
        project.root.require()
        active = self.project_states.active(project)
        async with self.project_states.turn(active):
            return await self._save(active, project, given, tags)

    async def _save(
        self, active: ActiveProject, project: Project, given: dict[str, str | None], tags: list[str]
    ) -> Saved:
        self.project_states.refresh(project)
        await self.git_questions.ask(active)
        kept = keep_values(spoken(given, self.project_states.view(project).document))
        self.redacted += kept.masked
        self.project_states.set_values(project, kept.values, clock.iso_milliseconds())
        new = self.project_states.view(project).document
        if new["now"] == NOT_STATED:
            new["now"] = DEFAULT_NOW

        def compute(found: dict[str, Any] | None) -> dict[str, Any]:
            now = checkpoint_file.next_timestamp(found)
            saved = merge(found, new, {}, now) or {**(found or new), "timestamp": now}
            return with_tags(saved, tags)

        self.reader.remember(project, active.file.baseline or {}, new)
        done = await self._change(active, compute, checkpoint_file.WAIT_SECONDS)
        self.projects.forget_cached()  # an unmarked directory has a marker now
        self._note_written(active, done)
        self.project_states.touch(project.id, git_too=False)
        return done.data, kept

    async def renew(self, active: ActiveProject) -> None:
        """Replace our fields of a checkpoint by the current state, regardless of their values.

        The caller holds the locks of the active project.
        """
        new = self.project_states.view(active.project).document

        def compute(found: dict[str, Any] | None) -> dict[str, Any]:
            kept = {name: value for name, value in (found or {}).items() if name not in OURS}
            return {**new, **kept, "timestamp": checkpoint_file.next_timestamp(found)}

        root = active.project.root.path
        self._note_written(active, await asyncio.to_thread(checkpoint_file.change, root, compute))

    async def _change(
        self, active: ActiveProject, compute: checkpoint_file.Compute, wait_seconds: float
    ) -> checkpoint_file.Written:
        root = active.project.root.path
        async with active.file.lock:  # any change on disk meanwhile is our own
            return await asyncio.to_thread(checkpoint_file.change, root, compute, wait_seconds)

    def _note_written(self, active: ActiveProject, done: checkpoint_file.Written) -> None:
        active.file.stamp = f"{done.status.st_size}.{done.status.st_mtime_ns}"
        active.file.baseline = done.data
        self.reader.remember(active.project, done.data, done.data)
        self.writes += 1

    async def finish(self) -> None:
        """Write all pending changes: the last work before the daemon ends."""
        for active in list(self.project_states.active_projects.values()):
            if active.dirty:
                await self.publish(active)
        if self._writing:
            await asyncio.wait(self._writing)
