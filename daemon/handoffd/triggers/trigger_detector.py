"""Sees what fires: in sessions, in conductor/ and in Beads; enters it in the ledger.

A look every few seconds compares what is on disk with what was seen last. Beads is asked only
when one of its files has changed, and nothing of it runs in between.
"""

import asyncio
import math
from dataclasses import dataclass, field
from typing import NamedTuple

from handoff.common.triggers import DESIGN_END, IDLE, PRE_FINISH
from handoffd.config import LiveConfig
from handoffd.fs import mounts
from handoffd.links.beads import Beads, BeadsError, BeadsProgram, Issue
from handoffd.projects.lanes import choose
from handoffd.projects.project_state import ActiveProject, ProjectStates
from handoffd.projects.registry import Project, ProjectRegistry
from handoffd.runtime import clock, log
from handoffd.session import insights
from handoffd.session.state import SessionState, SlashCommand
from handoffd.store.core import CoreStore
from handoffd.store.ledger import Firing, Sighting
from handoffd.tracks.conductor_directory import ConductorDirectory, Track
from handoffd.tracks.settings import TrackSettings
from handoffd.triggers import design_end, epic, idle, pre_finish

PROJECTS_MAX = 64
# An epic that is seen for the first time ended just now, if it was closed so lately.
JUST_SECONDS = 300.0
SILENT_SECONDS, SILENT_MOST_SECONDS = 10.0, 600.0
FIRED_MAX = 10_000
# A session that has not spoken for so long is not at its design.
DESIGNING_SECONDS = 300.0
BARE_SECONDS = 15.0
# A file's time and a record's are taken by two programs.
LATE_SECONDS = 5.0
NONE = "none"


@dataclass(slots=True)
class ProjectLook:
    """What was found in one look at a project; None: it was not asked, since nothing changed."""

    conductor_stamp: str
    beads_stamp: str
    settings: TrackSettings | None = None
    tracks: list[Track] | None = None
    epics: list[Issue] | None = None
    # The directory in which .beads is: of a work tree, that of the main one.
    beads_root: str = ""


@dataclass(slots=True)
class LastLook:
    """What is known of a project from the last look."""

    conductor_stamp: str = ""
    beads_stamp: str = ""
    # None until they were read for the first time.
    settings: TrackSettings | None = None
    # Until then Beads is not asked again: it did not answer.
    silent_until: float = 0.0
    silences: int = 0
    # Where there is neither conductor/ nor .beads, it is looked for less often.
    bare_until: float = 0.0
    problem: str = ""


class Design(NamedTuple):
    """A design under way: where, since when, and until when; no end while it goes on."""

    project_id: str
    began: float
    ended: float = math.inf


@dataclass(slots=True)
class TriggerDetector:
    """Knows what was, and tells what is new."""

    core: CoreStore
    config: LiveConfig
    projects: ProjectRegistry
    project_states: ProjectStates
    sights: dict[str, LastLook] = field(default_factory=dict)
    # Sessions with a /conductor-newtrack, and what is known of it.
    _designs: dict[str, Design] = field(default_factory=dict)
    _fired: set[str] = field(default_factory=set)

    # What sessions say

    def session_changed(self, state: SessionState, project_id: str, _last_seconds: float) -> None:
        """Look at the commands of a session that went on."""
        self._designs.pop(state.session_id, None)
        born = self.core.ledger.born_at
        for number, command in enumerate(state.commands):
            if command.receipt.time <= born:
                continue
            if design_end.is_start(command.name):
                at = clock.parse(command.receipt.time)
                self._designs[state.session_id] = Design(project_id, at, _end(state, number))
            elif pre_finish.is_start(command.name):
                self._fire_pre_finish(state, project_id, command)

    def _fire_pre_finish(self, state: SessionState, project_id: str, command: SlashCommand) -> None:
        receipt = command.receipt
        self.fire(
            Firing(
                pre_finish.cause(project_id, receipt.time),
                PRE_FINISH,
                project_id,
                state.session_id,
                clock.iso_milliseconds(),
                f"/{command.name} at {receipt.time}, record {receipt.uuid}",
                request={"words": command.arguments},
            )
        )

    def is_silent(self, project_id: str, silent_seconds: float) -> bool:
        return idle.is_idle(silent_seconds, self.idle_seconds(project_id))

    def fire_idle(self, session_id: str, project_id: str, first_at: float, heard_at: float) -> None:
        """Enter the idle trigger, once for each silence."""
        # A silence that was idle before we were there is no news.
        idle_at = heard_at + self.idle_seconds(project_id)
        if idle_at > clock.parse(self.core.ledger.born_at):
            cause = idle.cause(project_id, first_at, heard_at)
            silent = f"session {session_id} was last heard at {clock.iso(heard_at)}"
            now = clock.iso_milliseconds()
            self.fire(Firing(cause, IDLE, project_id, session_id, now, silent))

    def fire(self, firing: Firing) -> bool:
        """Enter a trigger, unless the project's own settings switch it off."""
        if firing.trigger in self.settings_of(firing.project_id).off:
            return False
        # A session is heard often; the store need not be asked each time.
        if firing.cause in self._fired:
            return False
        new = self.core.ledger.fire(firing)
        if len(self._fired) > FIRED_MAX:
            self._fired.clear()
        self._fired.add(firing.cause)
        if new:
            log.get().info("triggered", trigger=firing.trigger, cause=firing.cause)
        return new

    def forget(self, project_id: str) -> None:
        """Let go of what was seen of a project."""
        self.sights.pop(project_id, None)
        self._fired.clear()

    def settings_of(self, project_id: str) -> TrackSettings:
        sight = self.sights.setdefault(project_id, LastLook())
        if sight.settings is None:
            # Nobody has looked yet: a project that wants none must not be idle meanwhile.
            project = self.projects.by_id(project_id)
            known = project is not None and mounts.answers(project.root.path)
            sight.settings = (
                read_settings(project.root.path) if project and known else TrackSettings()
            )
        return sight.settings

    def problems(self) -> dict[str, str]:
        """Return what is wrong with conductor/workflow.md, by project."""
        found = {}
        for project_id, sight in self.sights.items():
            problem = sight.settings.problem if sight.settings else ""
            project = self.projects.by_id(project_id) if problem else None
            if project is not None:
                root = project.root.path
                found[root] = f"{root}/conductor/workflow.md: {problem}"
        return found

    def silences(self) -> dict[str, str]:
        """Return why conductor/ or Beads could not be looked at, by project, if more than once."""
        found = {}
        for project_id, sight in self.sights.items():
            lasting = sight.problem and sight.silences != 1
            project = self.projects.by_id(project_id) if lasting else None
            if project is not None:
                found[project.root.path] = sight.problem
        return found

    def idle_seconds(self, project_id: str) -> float:
        """Return after how much silence a session of a project is idle; 0: never."""
        own = self.settings_of(project_id).idle_minutes
        minutes = self.config.current.triggers.idle_minutes if own is None else own
        return minutes * 60

    # What the disk says

    async def look(self) -> None:
        """Compare every active project with what was seen of it last."""
        now = clock.monotonic()
        active_projects = []
        for active in self._recent_projects():
            sight = self._sight(active)
            if now < sight.bare_until or not self.project_states.may_write_unasked(active.project):
                continue
            if is_news(active.project.root.path, sight):
                active_projects.append(active)
            await asyncio.sleep(0)  # the socket is answered between two projects
        sights = [self._sight(active) for active in active_projects]
        roots = [active.project.root.path for active in active_projects]
        beads = self.config.current.beads
        program = BeadsProgram(beads.command, beads.confine)
        # One thread for all, and none for nothing: a turn of it wakes the processor many times.
        found = await asyncio.to_thread(see_all, roots, sights, program) if active_projects else []
        for active, sight, seen in zip(active_projects, sights, found, strict=True):
            self._take(active.project, sight, seen)
        for project_id in set(self.sights) - set(self.project_states.active_projects):
            del self.sights[project_id]

    def _sight(self, active: ActiveProject) -> LastLook:
        return self.sights.setdefault(active.project.id, LastLook())

    def _recent_projects(self) -> list[ActiveProject]:
        recent = clock.wall() - clock.DAY_SECONDS
        active_projects = [
            active
            for active in self.project_states.active_projects.values()
            if active.touched > recent
        ]
        active_projects.sort(key=lambda active: active.touched, reverse=True)
        return active_projects[:PROJECTS_MAX]

    def _take(self, project: Project, sight: LastLook, found: ProjectLook) -> None:
        if found.settings is not None:
            sight.settings = found.settings
        if found.tracks is not None:
            began = self._designing_since(project.id)
            # What is being designed is not finished, whatever is there already.
            tracks = [track for track in found.tracks if track.changed_seconds < began]
            self._observe_tracks(project, tracks)
            if len(tracks) == len(found.tracks):
                sight.conductor_stamp = found.conductor_stamp
        if found.epics is not None:
            self._observe_epics(project, found.beads_root, found.epics)
            # What a file says that may lag behind is not all there is to know.
            if not sight.problem:
                sight.beads_stamp = found.beads_stamp

    def _designing_since(self, project_id: str) -> float:
        """Return when a design began that a live session is at; no time at all if none is."""
        live = {
            lane.state.session_id
            for lane in self.project_states.lanes(project_id)
            if lane.live and lane.idle_seconds < DESIGNING_SECONDS
        }
        times = (
            design.began
            for session, design in self._designs.items()
            if design.project_id == project_id and design.ended == math.inf and session in live
        )
        return min(times, default=math.inf)

    def _observe_tracks(self, project: Project, tracks: list[Track]) -> None:
        """Enter the tracks that are designed now and were not before."""
        ledger = self.core.ledger
        designs = [found for found in self._designs.values() if found.project_id == project.id]
        found: dict[str, str] = {}
        left: set[str] = set()
        for track in tracks:
            state = track.metadata.state if track.metadata else ""
            documents = track.metadata is not None and track.has_spec and track.has_plan
            found[track.id] = design_end.status(state, has_documents=documents)
            # What a command that is over left behind, whatever it calls itself.
            made = any(found.began <= track.changed_seconds <= found.ended for found in designs)
            if made and not ledger.sighting(project.id, "track", track.id).status:
                found[track.id] = design_end.DESIGNED
                left.add(track.id)

        def news(name: str, _before: str, now: str, _changes: int) -> Firing | None:
            if now != design_end.DESIGNED:
                return None
            cause = design_end.cause(project.id, name)
            why = f"conductor/tracks/{name} is designed"
            return self._news(project, DESIGN_END, cause, why, {"words": name})

        # That is news also at first sight of a project, at which nothing else is.
        sightings = {name: Sighting(status) for name, status in found.items()}
        old = {name: seen for name, seen in sightings.items() if name not in left}
        ledger.observe(project.id, "track", old, news)
        ledger.observe(project.id, "track", sightings, news)

    def _observe_epics(self, project: Project, beads_root: str, epics: list[Issue]) -> None:
        """Enter the epics that were taken up or closed, once for all work trees that share them."""
        owner = self.core.project_id(beads_root, clock.iso()) if beads_root else None
        scope = owner or project.id
        by_id = {issue.id: issue for issue in epics}
        off = self.settings_of(project.id).off

        def news(name: str, before: str, now: str, changes: int) -> Firing | None:
            just = clock.wall() - clock.parse(by_id[name].closed_at) < JUST_SECONDS
            trigger = epic.name(before, now, just_closed=just)
            if trigger is None or trigger in off:
                return None
            cause = epic.cause(trigger, scope, name, changes)
            why = f"epic {name} went from {before or 'new'} to {now}"
            return self._news(project, trigger, cause, why, {"bead": name})

        found = {issue.id: Sighting(issue.status, clock.parse(issue.updated_at)) for issue in epics}
        self.core.ledger.observe(scope, "epic", found, news)

    def _news(
        self, project: Project, trigger: str, cause: str, why: str, about: dict[str, str]
    ) -> Firing:
        main = choose(self.project_states.lanes(project.id))
        session_id = main.state.session_id if main and main.live else ""
        log.get().info("triggered", trigger=trigger, cause=cause)
        return Firing(
            cause,
            trigger,
            project.id,
            session_id,
            clock.iso_milliseconds(),
            why,
            about.get("bead", ""),
            about,
        )


def _end(state: SessionState, number: int) -> float:
    """Return when a command had been dealt with: the assistant said so, or another one came."""
    if number < len(state.commands) - 1:
        return clock.parse(state.commands[number + 1].receipt.time)
    over = state.spoke_last and not state.waiting and not insights.questions(state)
    return clock.parse(state.last_time) + LATE_SECONDS if over else math.inf


def read_settings(root: str) -> TrackSettings:
    try:
        return ConductorDirectory(root).settings()
    except OSError:
        return TrackSettings()


def is_news(root: str, sight: LastLook) -> bool:
    """Tell whether there is something to read; costs a few stats, as a rescan does."""
    try:
        conductor, beads = _stamps(root)
    except Exception:  # noqa: BLE001  whoever looks closer says what is wrong
        return True
    if conductor == beads == NONE:
        sight.bare_until = clock.monotonic() + BARE_SECONDS
    asked = clock.monotonic() > sight.silent_until
    return conductor != sight.conductor_stamp or (asked and beads != sight.beads_stamp)


def _stamps(root: str) -> tuple[str, str]:
    return ConductorDirectory(root).stamp() or NONE, Beads(root).stamp() or NONE


def see_all(roots: list[str], sights: list[LastLook], program: BeadsProgram) -> list[ProjectLook]:
    return [_see_safely(root, sight, program) for root, sight in zip(roots, sights, strict=True)]


def _see_safely(root: str, sight: LastLook, program: BeadsProgram) -> ProjectLook:
    try:
        return see(root, sight, program)
    except Exception as problem:  # noqa: BLE001  one project must not hide the others
        sight.problem = log.why(problem)
        return ProjectLook(sight.conductor_stamp, sight.beads_stamp)


def see(root: str, sight: LastLook, program: BeadsProgram) -> ProjectLook:
    """Look at conductor/ and at Beads; each is read only if it changed since."""
    conductor, beads = ConductorDirectory(root), Beads(root, program)
    found = ProjectLook(*_stamps(root))
    if found.conductor_stamp != sight.conductor_stamp:
        found.tracks = conductor.tracks() if conductor.exists else []
        found.settings = conductor.settings()
    if found.beads_stamp == NONE:
        found.epics = [] if sight.beads_stamp == "" else None
    elif found.beads_stamp != sight.beads_stamp and clock.monotonic() > sight.silent_until:
        _ask(beads, sight, found)
    return found


def _ask(beads: Beads, sight: LastLook, found: ProjectLook) -> None:
    try:
        found.epics, sight.problem = beads.read_epics()
        found.beads_root = beads.home()
    except BeadsError as reason:
        sight.problem = str(reason)
    sight.silences = sight.silences + 1 if sight.problem else 0
    if sight.silences:
        pause = min(SILENT_SECONDS * 2 ** (sight.silences - 1), SILENT_MOST_SECONDS)
        sight.silent_until = clock.monotonic() + pause
