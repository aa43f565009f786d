"""Detect the start and end of epics and of tracks: by Beads, by tracks.md or by a command."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from handoff.common.triggers import EPIC_START
from handoffd.links.issue_tree import IssueTree, TaskCount
from handoffd.projects.registry import Project
from handoffd.runtime import clock
from handoffd.session.state import SlashCommand
from handoffd.store.core import CoreStore
from handoffd.store.ledger import Firing, Sighting
from handoffd.tracks.conductor_directory import Track
from handoffd.tracks.settings import TrackSettings
from handoffd.triggers import epic

# An epic that is already closed when it is first seen ended just now, if it is so recent.
JUST_CLOSED_SECONDS = 300.0
# Kinds of sightings: the rule by which epics are observed, and commands to implement a track.
_RULE, _IMPLEMENT = "rule", "implement"


@dataclass(slots=True)
class LastLook:
    """The state of a project at the last look."""

    conductor_stamp: str = ""
    beads_stamp: str = ""
    # None until they are read for the first time.
    settings: TrackSettings | None = None
    tracks: list[Track] | None = None
    issues: IssueTree | None = None
    beads_root: str = ""
    # Beads did not answer, and is not asked again before this time.
    silent_until: float = 0.0
    silences: int = 0
    # A project with neither conductor/ nor .beads is looked at less often.
    bare_until: float = 0.0
    problem: str = ""


class Implementation(NamedTuple):
    """A `/conductor-implement` of a session."""

    project_id: str
    session_id: str
    command: SlashCommand


class MakeFiring(Protocol):
    """Returns the entry of a trigger of a project."""

    def __call__(
        self, project: Project, trigger: str, cause: str, why: str, about: dict[str, Any]
    ) -> Firing: ...


@dataclass(frozen=True, slots=True)
class EpicDetector:
    """Compares epics and tracks with their last known status, and fires epic-start and epic-end."""

    core: CoreStore
    # The triggers that a project switched off.
    off: Callable[[str], Collection[str]]
    firing: MakeFiring

    def observe(self, project: Project, last: LastLook) -> None:
        """Fire for the changes since the look before."""
        self._observe_work(project, last)
        self._observe_epics(project, last)

    def _observe_work(self, project: Project, last: LastLook) -> None:
        """Fire for tracks without an epic that were begun or done, by their marks in tracks.md."""
        without = not last.beads_root
        tracks = [track for track in last.tracks or () if without or not track.epics]
        off = self.off(project.id)

        def firing_for(name: str, before: str, now: str, changes: int) -> Firing | None:
            trigger = epic.name(before, now, just_closed=False)
            if trigger is None or trigger in off:
                return None
            cause = epic.cause(trigger, project.id, name, changes)
            why = f"track {name} went from {before or 'new'} to {now} in conductor/tracks.md"
            return self.firing(project, trigger, cause, why, {"track": name})

        found = {track.id: Sighting(epic.status_of_track(track)) for track in tracks}
        self.core.ledger.observe(project.id, epic.TRACK, found, firing_for)

    def _observe_epics(self, project: Project, last: LastLook) -> None:
        """Fire for epics that were started or closed, once for all work trees that share them."""
        if last.issues is None:
            return
        ledger = self.core.ledger
        scope = self._scope(project, last)
        epics = {issue.id: issue for issue in last.issues.epics}
        for named in (each for track in last.tracks or () for each in track.epics):
            if named in last.issues.lines:
                epics[named] = last.issues.lines[named].issue
        works = {name: self._work_of(name, last) for name in epics}
        off = self.off(project.id)
        # A version that did not know tasks and marks noted the epics' own status: what tasks and
        # marks said by then is no news.
        is_first = not ledger.sighting(scope, _RULE, epic.EPIC).status

        def firing_for(name: str, before: str, now: str, changes: int) -> Firing | None:
            track, work = works[name]
            just = clock.wall() - work.closed_at < JUST_CLOSED_SECONDS
            trigger = epic.name(before, now, just_closed=just)
            if trigger is None or trigger in off or (is_first and before and epic.is_by_track(now)):
                return None
            # Before the track had an epic, its mark said the same.
            if track and epic.plain(
                ledger.sighting(project.id, epic.TRACK, track.id).status
            ) == epic.plain(now):
                return None
            cause = epic.cause(trigger, scope, name, changes)
            why = f"epic {name} went from {before or 'new'} to {now}"
            about = {"bead": name} | ({"words": track.id} if track else {})
            return self.firing(project, trigger, cause, why, about)

        found = {}
        seen = ledger.sightings(scope, epic.EPIC)
        for name, issue in epics.items():
            track, work = works[name]
            box = track.mark.box if track and len(track.epics) == 1 else ""
            done = track is not None and work.is_done
            now = epic.status(issue.status, tasks_done=done, box=box)
            # A track that is not there (on another branch, or in the archive) says nothing new.
            known = name in seen and epic.is_by_track(seen[name].status)
            if track is not None or now == epic.CLOSED or not known:
                found[name] = Sighting(now, work.updated_at)
        ledger.observe(scope, epic.EPIC, found, firing_for, certain=not last.problem)
        ledger.observe(scope, _RULE, {epic.EPIC: Sighting("by its track")}, _fire_nothing)

    def _scope(self, project: Project, last: LastLook) -> str:
        """Return the project id that is common to all work trees that share their epics."""
        owner = self.core.project_id(last.beads_root, clock.iso()) if last.beads_root else None
        return owner or project.id

    def _work_of(self, epic_id: str, last: LastLook) -> tuple[Track | None, TaskCount]:
        """Return the track that names an epic, and the state of the epic's tasks."""
        track = next((track for track in last.tracks or () if epic_id in track.epics), None)
        alone = track is not None and len(track.epics) == 1
        named = track.metadata.tasks if alone and track and track.metadata else ()
        return track, last.issues.work([epic_id], named) if last.issues else TaskCount()

    def observe_command(self, project: Project, last: LastLook, given: Implementation) -> None:
        """Fire for the track that a command takes up, once per start of its epic."""
        ledger, name = self.core.ledger, given.command.receipt.time
        if last.tracks is None or ledger.sighting(project.id, _IMPLEMENT, name).status:
            return
        start = self._start(project, last, given)
        # At a first look nothing fires; the ledger's birth has already left out old commands.
        ledger.observe(project.id, _IMPLEMENT, {}, _fire_nothing)
        ledger.observe(project.id, _IMPLEMENT, {name: Sighting("given")}, lambda *_: start)

    def _start(self, project: Project, last: LastLook, given: Implementation) -> Firing | None:
        receipt, ledger = given.command.receipt, self.core.ledger
        just_now = clock.wall() - clock.parse(receipt.time) < JUST_CLOSED_SECONDS
        track = epic.implemented_track(
            last.tracks or [], given.command.arguments, just_now=just_now
        )
        if track is None or EPIC_START in self.off(project.id):
            return None
        bead = self._first_open_epic(track, last) if last.beads_root else ""
        scope = self._scope(project, last) if bead else project.id
        kind = epic.EPIC if bead else epic.TRACK
        seen = ledger.sighting(scope, kind, bead or track.id).status
        if epic.plain(seen) == epic.CLOSED:
            return None
        why = f"/{given.command.name} at {receipt.time}, record {receipt.uuid}"
        cause = epic.start_cause(ledger, scope, bead, track.id)
        request = {"track": track.id, "bead": bead, "implement": True, "binds": True}
        return replace(
            self.firing(project, EPIC_START, cause, why, request), session_id=given.session_id
        )

    def _first_open_epic(self, track: Track, last: LastLook) -> str:
        lines = last.issues.lines if last.issues else {}
        known = [lines[each].issue for each in track.epics if each in lines]
        is_open = [issue.id for issue in known if issue.status != epic.CLOSED]
        return next(iter([*is_open, *track.epics]), "")


def _fire_nothing(*_change: object) -> None:
    """Return no trigger: the status is only noted."""
