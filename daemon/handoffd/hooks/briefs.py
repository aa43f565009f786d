"""The brief of each project: what a new session is told, and its copy for a client without us."""

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
    """Composes briefs, and keeps the copy of each on disk current."""

    config: LiveConfig
    policy: LearningPolicy
    project_states: ProjectStates

    def compose(
        self, project: Project, view: ProjectView, newest: Handoff | None, level: str = "L1"
    ) -> str:
        """Return what a session is told; it is short if the work is done or long ago."""
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
        left = brief.NewestHandoff(clock.iso(newest.seconds), newest.contract) if newest else None
        unread = [(thread.id, thread.number) for thread in self.project_states.unread(project)]
        around = brief.BriefContext(others, unread, left, self.moved(project, view))
        return brief.render(document, project.root.path, level, around)

    def moved(self, project: Project, view: ProjectView) -> list[str]:
        """Return the changes in git since the last record of the session that is shown."""
        git, state = self.project_states.active(project).git, view.main.state if view.main else None
        if state is None or not project.id:
            return []
        # A commit of the same second may be the session's own.
        since = clock.parse(state.last_time) + 1
        known = tuple(value.text.split(" ")[0] for value in state.commits)
        news = [commit.text for commit in git.commits if commit.seconds > since]
        news = [text for text in news if not text.startswith(known)]
        return brief.moves((state.branch and state.branch.text, git.branch), news)

    async def newest_handoff(self, project: Project) -> Handoff | None:
        """Return the newest handoff of a project, unless it is too old to be mentioned."""
        if self.policy.refusal(project.id, project.root.path):
            return None
        base = handoff_directory.handoffs_base(self.config.current.contract.directory)
        scope = handoff_directory.HandoffScope(project.root.path, project.root.path)
        active, began = self.project_states.active(project), clock.monotonic()
        if active.has_many_handoffs or mounts.may_hang(base):
            found = await asyncio.to_thread(handoff_directory.newest, base, scope)
        else:  # a thread would take longer to come back
            found = handoff_directory.newest(base, scope)
            active.has_many_handoffs = clock.monotonic() - began > LISTING_SECONDS
        return found if found and clock.wall() - found.seconds < UNREAD_SECONDS else None

    # The copy on disk

    def is_due(self, project: Project) -> bool:
        """Return True if a brief mentions threads alone, or did so once and must not stay."""
        if self.project_states.unread(project):
            return True
        parent, name = os.path.split(client_paths.brief_file(project.root.path))
        with contextlib.suppress(OSError, HandoffError), files.directory(parent) as handle:
            found = files.read(handle, name, _FILE_MAX_BYTES, cut=True)
            return found is not None and brief.is_mention_only(found[0].decode(errors="replace"))
        return False

    async def write(self, active: ActiveProject, view: ProjectView) -> bool:
        """Keep the rendered brief beside our state; return True if it says something new."""
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
            # Here, because nobody may be left to look after it was written.
            if self.policy.refusal(active.project.id, active.project.root.path):
                files.remove(handle, name)

    def drop(self, project: Project | None) -> None:
        """Remove the copies, so that a client without a daemon says nothing, either."""
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
