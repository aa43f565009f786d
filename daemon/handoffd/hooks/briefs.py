"""Compose the brief of each project for new sessions, and keep it in a file for offline clients."""

import asyncio
import contextlib
import os
from dataclasses import dataclass

from handoff.common import paths as client_paths
from handoff.common.errors import HandoffError
from handoff.common.remedies import refused
from handoffd.config import LiveConfig
from handoffd.contract import handoff_directory
from handoffd.contract.handoff_directory import Handoff
from handoffd.contract.presentation import UNREAD_SECONDS
from handoffd.fs import files, mounts
from handoffd.hooks import brief
from handoffd.projects.lanes import INHERITED_SECONDS, Lane, ProjectView
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.project_state import ActiveProject, ProjectStates
from handoffd.projects.registry import Project
from handoffd.runtime import clock
from handoffd.session import insights

LISTING_SECONDS = 0.002
# One line with the project's path, then the brief.
_FILE_MAX_BYTES = 4096 + 2 * brief.BRIEF_MAX_BYTES


@dataclass(slots=True)
class Briefs:
    """Composes briefs, and keeps the brief file of each project current."""

    config: LiveConfig
    policy: LearningPolicy
    project_states: ProjectStates

    def compose(
        self, project: Project, view: ProjectView, newest: Handoff | None, level: str = "L1"
    ) -> str:
        """Return the brief of a session; it is short if the work is done or long ago."""
        document = view.whole
        if view.main:
            document["timestamp"] = view.main.state.last_time
        if level == "L1" and _is_past(view):
            level = "L0"
        others = [
            f"session {lane.state.session_id[:8]}: {_now(lane)}"
            for lane in view.live
            if view.main and lane.state.session_id != view.main.state.session_id
        ]
        handoff = (
            brief.NewestHandoff(clock.iso(newest.seconds), newest.contract) if newest else None
        )
        unread = [(thread.id, thread.number) for thread in self.project_states.unread(project)]
        context = brief.BriefContext(others, unread, handoff, self.git_changes(project, view))
        return brief.render(document, project.root.path, level, context)

    def git_changes(self, project: Project, view: ProjectView) -> list[str]:
        """Return the changes in git since the last record of the session that is shown."""
        git, state = self.project_states.active(project).git, view.main.state if view.main else None
        if state is None or not project.id:
            return []
        # A commit of the same second may be the session's own.
        since = clock.parse(state.last_time) + 1
        known = tuple(value.text.split(" ")[0] for value in state.commits)
        recent = [commit.text for commit in git.commits if commit.seconds > since]
        commits = [text for text in recent if not text.startswith(known)]
        return brief.git_changes((state.branch and state.branch.text, git.branch), commits)

    async def newest_handoff(self, project: Project) -> Handoff | None:
        """Return the newest handoff of a project, unless it is too old to be mentioned."""
        if self.policy.refusal(project.id, project.root.path):
            return None
        base = handoff_directory.handoffs_base(self.config.current.contract.directory)
        scope = handoff_directory.HandoffScope(project.root.path, project.root.path)
        active, began = self.project_states.active(project), clock.monotonic()
        if active.has_many_handoffs or mounts.may_hang(base):
            found = await asyncio.to_thread(handoff_directory.newest, base, scope)
        else:  # a thread would take longer than the listing
            found = handoff_directory.newest(base, scope)
            active.has_many_handoffs = clock.monotonic() - began > LISTING_SECONDS
        return found if found and clock.wall() - found.seconds < UNREAD_SECONDS else None

    # The brief file

    def is_due(self, project: Project) -> bool:
        """Return True if a brief mentions only threads, or did so before and must be replaced."""
        if self.project_states.unread(project):
            return True
        parent, name = os.path.split(client_paths.brief_file(project.root.path))
        with contextlib.suppress(OSError, HandoffError), files.directory(parent) as handle:
            found = files.read(handle, name, _FILE_MAX_BYTES, cut=True)
            return found is not None and brief.is_mention_only(found[0].decode(errors="replace"))
        return False

    async def write(self, active: ActiveProject, view: ProjectView) -> bool:
        """Write the rendered brief into our state directory; return True if it changed."""
        root = active.project.root.path
        stamp = client_paths.checkpoint_stamp(root)
        newest = await self.newest_handoff(active.project)
        text = f"{root}\t{stamp}\n{self.compose(active.project, view, newest)}"
        if hash(text) == active.brief_hash:
            return False
        path = client_paths.brief_file(root)
        try:
            await asyncio.to_thread(self._put, path, text.encode("utf-8", "replace"), active)
        except OSError as problem:
            raise refused(problem, path) from None
        active.brief_hash = hash(text)
        return True

    def _put(self, path: str, data: bytes, active: ActiveProject) -> None:
        parent, name = os.path.split(path)
        with files.directory(parent) as handle:
            files.write(handle, name, data)
            # Check here, because after the write the caller may be gone and check no more.
            if self.policy.refusal(active.project.id, active.project.root.path):
                files.remove(handle, name)

    def drop(self, project: Project | None) -> None:
        """Remove brief files, so that a client without a daemon prints nothing, either."""
        for active in self.project_states.active_projects.values():
            if project is None or active.project.id == project.id:
                active.brief_hash = 0
        directory, name = os.path.split(
            client_paths.brief_file(project.root.path if project else "")
        )
        with contextlib.suppress(OSError, HandoffError), files.directory(directory) as handle:
            for found in [name] if project else os.listdir(handle):
                files.remove(handle, found)


def _is_past(view: ProjectView) -> bool:
    old = view.main is not None and view.main.idle_seconds > INHERITED_SECONDS
    return old or view.document["status"] == "completed"


def _now(lane: Lane) -> str:
    found = insights.now(lane.state)
    return found.text if found else ""
