"""Compose the brief of each project for new sessions, and keep it in a file for offline clients."""

import asyncio
import contextlib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import NamedTuple

from handoff.common import paths as client_paths
from handoff.common.errors import HandoffError
from handoff.common.remedies import refused
from handoffd.config import LiveConfig
from handoffd.contract import handoff_directory
from handoffd.contract.handoff_directory import Handoff
from handoffd.contract.presentation import UNREAD_SECONDS
from handoffd.fs import files, mounts
from handoffd.hooks import brief
from handoffd.projects.lanes import INHERITED_SECONDS, Lane, ProjectView, edited_files
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.neighbours import AROUND, BELOW, WORKTREE
from handoffd.projects.project_state import ActiveProject, ProjectStates
from handoffd.projects.registry import Project
from handoffd.runtime import clock
from handoffd.session import insights
from handoffd.session.state import Dropped

LISTING_SECONDS = 0.002
# The newest handoffs whose calls for a person are told.
HANDOFFS_READ = 8
EDITS_MAX = 3
_PLACES = {WORKTREE: "work tree", BELOW: "package", AROUND: "the project around this one,"}
# One line with the project's path, then the brief.
_FILE_MAX_BYTES = 4096 + 2 * brief.BRIEF_MAX_BYTES


class Audience(NamedTuple):
    """The session that a brief is for, and what only it is told."""

    session_id: str = ""
    # The files that this session and another live one have changed.
    contested: Sequence[str] = ()
    # Why the state may be old.
    note: str = ""
    # The items that the summary of its last compaction does not mention.
    dropped: Sequence[Dropped] = ()
    # The brief is kept for a client without a daemon: nobody knows what is live when it is read.
    offline: bool = False


ANY_SESSION = Audience()


@dataclass(slots=True)
class BriefWriter:
    """Composes briefs, and keeps the brief file of each project current."""

    config: LiveConfig
    policy: LearningPolicy
    project_states: ProjectStates

    def compose(
        self,
        project: Project,
        view: ProjectView,
        handoffs: Sequence[Handoff],
        level: str = "L1",
        audience: Audience = ANY_SESSION,
    ) -> str:
        """Return the brief of a session; it is short if the work is done or long ago.

        It holds marks for ages, which `handoff.common.ages` replaces.
        """
        document = view.whole
        if view.main:
            document["timestamp"] = view.main.state.last_time
        main_id = view.main.state.session_id if view.main else ""
        # A session whose own context was compacted needs its rules, even if its work is done.
        own = bool(main_id) and audience.session_id == main_id
        if level == "L1" and _is_past(view) and not own:
            level = "L0"
        speaker = _speaker(view, audience)
        live = speaker is not None and speaker.kind == "live"
        newest = next(iter(handoffs), None)
        context = brief.BriefContext(
            others=[_live_line(lane) for lane in view.live if lane.state.session_id != main_id],
            unread=[(found.id, found.number) for found in self.project_states.unread(project)],
            newest=brief.NewestHandoff(newest.seconds, newest.contract) if newest else None,
            changes=self.git_changes(project, view),
            speaker=speaker,
            edits=edited_files(view.main.state)[:EDITS_MAX] if view.main and live else (),
            contested=audience.contested,
            unfinished=[_unfinished(lane) for lane in view.unfinished],
            elsewhere=[_elsewhere(lane) for lane in view.elsewhere],
            parked=len(view.parked),
            calls=brief.calls_of(*(handoff.contract for handoff in handoffs)),
            note=audience.note,
            dropped=audience.dropped,
            free=brief.NOTE_BYTES if audience.offline else 0,
        )
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

    async def recent_handoffs(self, project: Project) -> list[Handoff]:
        """Return the handoffs of a project that are not too old to be mentioned, newest first."""
        if self.policy.refusal(project.id, project.root.path):
            return []
        base = handoff_directory.handoffs_base(self.config.current.contract.directory)
        scope = handoff_directory.HandoffScope(project.root.path, project.root.path)
        active, began = self.project_states.active(project), clock.monotonic()
        if active.has_many_handoffs or mounts.may_hang(base):
            return await asyncio.to_thread(_recent, base, scope)
        # A thread would take longer than the listing.
        found = _recent(base, scope)
        active.has_many_handoffs = clock.monotonic() - began > LISTING_SECONDS
        return found

    # The brief file

    def is_due(self, project: Project, view: ProjectView) -> bool:
        """Return True if a project without a state has a brief, or had one that must be replaced.

        The brief on disk stays if it tells a state: it may be the only copy.
        """
        if view.elsewhere or self.project_states.unread(project):
            return True
        parent, name = os.path.split(client_paths.brief_file(project.root.path))
        with contextlib.suppress(OSError, HandoffError), files.directory(parent) as handle:
            found = files.read(handle, name, _FILE_MAX_BYTES, cut=True)
            return found is not None and brief.is_without_state(found[0].decode(errors="replace"))
        return False

    async def write(self, active: ActiveProject, view: ProjectView) -> bool:
        """Write the rendered brief into our state directory; return True if it changed."""
        root = active.project.root.path
        stamp = client_paths.checkpoint_stamp(root)
        handoffs = await self.recent_handoffs(active.project)
        body = self.compose(active.project, view, handoffs, audience=Audience(offline=True))
        text = f"{root}\t{stamp}\n{body}"
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

    async def drop_telling(self, sessions: Collection[str]) -> None:
        """Remove the brief files that tell of erased sessions, and compose those briefs anew.

        Besides their own project, the projects that belong to it tell of sessions.
        """
        for root in await asyncio.to_thread(_remove_telling, sessions):
            project_id = self.project_states.core.project_id(root, None) or ""
            self.project_states.touch(project_id, git_too=False)
            if active := self.project_states.active_projects.get(project_id):
                active.brief_hash = 0


def _remove_telling(sessions: Collection[str]) -> list[str]:
    """Remove the brief files that name one of the sessions; return the roots of their projects."""
    roots, parent = [], os.path.dirname(client_paths.brief_file(""))
    with contextlib.suppress(OSError, HandoffError), files.directory(parent) as handle:
        for name in os.listdir(handle):
            with contextlib.suppress(OSError, HandoffError):
                found = files.read(handle, name, _FILE_MAX_BYTES, cut=True)
                text = found[0].decode(errors="replace") if found else ""
                if any(session_id[:8] in text for session_id in sessions):
                    files.remove(handle, name)
                    roots.append(text.partition("\t")[0])
    return roots


def _recent(base: str, scope: handoff_directory.HandoffScope) -> list[Handoff]:
    """Return the few newest handoffs; the listing is sorted, and reading ends with an old one."""
    recent = takewhile(
        lambda handoff: clock.wall() - handoff.seconds < UNREAD_SECONDS,
        handoff_directory.handoffs(base, scope),
    )
    return list(islice(recent, HANDOFFS_READ))


def _speaker(view: ProjectView, audience: Audience) -> brief.Speaker | None:
    """Return the session whose state is told, and how it is described to this audience."""
    lane = view.main
    if lane is None:
        return None
    session_id, last = lane.state.session_id, clock.parse(lane.state.last_time)
    kind, how, at = "left", "last active", last
    if audience.session_id == session_id:
        kind = "own"
    elif lane.live and not audience.offline:
        kind = "live"
    elif lane.killed:  # its last record is the last that anybody knows of it
        how = "killed"
    elif lane.ended_seconds is not None:
        how, at = "ended", clock.wall() - lane.ended_seconds
    return brief.Speaker(session_id, at, kind, how, last, outdated=lane.outdated)


def _live_line(lane: Lane) -> str:
    edits = edited_files(lane.state)[:EDITS_MAX]
    changed = f" (edits {', '.join(edits)})" if edits else ""
    return f"session {lane.state.session_id[:8]}: {_now(lane)}{changed}"


def _unfinished(lane: Lane) -> tuple[str, float, str]:
    goal = insights.goal(lane.state)
    return lane.state.session_id, clock.parse(lane.state.last_time), goal.text if goal else ""


def _elsewhere(lane: Lane) -> str:
    """Return one line about work in another project that belongs to this one."""
    goal = insights.goal(lane.state)
    where = f"{_PLACES[lane.relation]} {lane.place}" if lane.place else "background agent"
    state = "live" if lane.live else "finished" if _is_done(lane) else "not finished"
    said = f"{state}, {lane.job}" if lane.job else state
    edits = edited_files(lane.state)[:EDITS_MAX] if lane.live else []
    changed = f" (edits {', '.join(edits)})" if edits else ""
    words = goal.text if goal else ""
    return f"{where}, session {lane.state.session_id[:8]}, {said}: {words}{changed}"


def _is_done(lane: Lane) -> bool:
    found = insights.status(lane.state)
    return found is not None and found.text == "completed"


def _is_past(view: ProjectView) -> bool:
    """Return True if the state is long ago, or if its work is completed."""
    old = view.main is not None and view.main.idle_seconds > INHERITED_SECONDS
    return old or view.document["status"] == "completed"


def _now(lane: Lane) -> str:
    found = insights.now(lane.state)
    return found.text if found else ""
