"""Detect triggers in sessions, in conductor/ and in Beads, and enter them in the ledger.

A look every few seconds compares the files on disk with the last look. Beads is asked only when
one of its files has changed; no process of Beads runs in between.
"""

import asyncio
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from handoff.common.triggers import DESIGN_END, IDLE, PRE_FINISH
from handoffd.config import Config, LiveConfig
from handoffd.fs import mounts
from handoffd.links.issue_tree import IssueTree
from handoffd.links.tracker import Tracker, TrackerError
from handoffd.links.trackers import tracker_at
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
from handoffd.triggers.epic_detector import EpicDetector, Implementation, LastLook

PROJECTS_MAX = 64
SILENT_SECONDS, SILENT_MOST_SECONDS = 10.0, 600.0
FIRED_MAX = 10_000
# A session without a record for so long is not working on its design.
DESIGNING_SECONDS = 300.0
BARE_SECONDS = 15.0
# Two programs take the times of a file and of a record, so these may differ by so much.
LATE_SECONDS = 5.0
NONE = "none"


@dataclass(slots=True)
class ProjectLook:
    """The result of one look at a project; a field is None if unchanged files were not read."""

    conductor_stamp: str
    beads_stamp: str
    settings: TrackSettings | None = None
    tracks: list[Track] | None = None
    issues: IssueTree | None = None
    # The directory that holds .beads; for a work tree it is in the main one.
    beads_root: str = ""


class Design(NamedTuple):
    """A design of a session: its project, its begin and its end; infinite while it continues."""

    project_id: str
    began: float
    ended: float = math.inf


@dataclass(slots=True)
class TriggerDetector:
    """Compares sessions and projects with their last known state, and fires triggers."""

    core: CoreStore
    config: LiveConfig
    projects: ProjectRegistry
    project_states: ProjectStates
    last_looks: dict[str, LastLook] = field(default_factory=dict)
    # The design of each session with a /conductor-newtrack.
    _designs: dict[str, Design] = field(default_factory=dict)
    # The last /conductor-implement commands of each session.
    _implementations: dict[str, list[Implementation]] = field(default_factory=dict)
    _fired: set[str] = field(default_factory=set)

    @property
    def _epics(self) -> EpicDetector:
        return EpicDetector(self.core, lambda each: self.settings_of(each).off, self._firing)

    # Triggers of sessions

    def session_changed(self, state: SessionState, project_id: str, _last_seconds: float) -> None:
        """Look at the commands of a session that has new records."""
        self._designs.pop(state.session_id, None)
        self._implementations.pop(state.session_id, None)
        born = self.core.ledger.born_at
        for number, command in enumerate(state.commands):
            if command.receipt.time <= born:
                continue
            if design_end.is_start(command.name):
                at = clock.parse(command.receipt.time)
                end = _command_end(state, number)
                self._designs[state.session_id] = Design(project_id, at, end)
            elif pre_finish.is_start(command.name):
                self._fire_pre_finish(state, project_id, command)
            elif epic.is_start(command.name):
                given = Implementation(project_id, state.session_id, command)
                self._implementations.setdefault(state.session_id, []).append(given)

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
        """Enter the idle trigger, once per silence."""
        # Don't fire for a session that was idle before the ledger was created.
        idle_at = heard_at + self.idle_seconds(project_id)
        if idle_at > clock.parse(self.core.ledger.born_at):
            cause = idle.cause(project_id, first_at, heard_at)
            silent = f"session {session_id} was last heard at {clock.iso(heard_at)}"
            now = clock.iso_milliseconds()
            self.fire(Firing(cause, IDLE, project_id, session_id, now, silent))

    def fire(self, firing: Firing) -> bool:
        """Enter a trigger and return True, unless it is old or the project switched it off."""
        if firing.trigger in self.settings_of(firing.project_id).off:
            return False
        # A session changes often; the store need not be asked each time.
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
        """Forget the last look at a project."""
        self.last_looks.pop(project_id, None)
        self._fired.clear()

    def settings_of(self, project_id: str) -> TrackSettings:
        last = self.last_looks.setdefault(project_id, LastLook())
        if last.settings is None:
            # There was no look yet: a project that switched idle off must not be idle meanwhile.
            project = self.projects.by_id(project_id)
            known = project is not None and mounts.answers(project.root.path)
            last.settings = (
                _project_settings(project.root.path) if project and known else TrackSettings()
            )
        return last.settings

    def problems(self) -> dict[str, str]:
        """Return the problems of conductor/workflow.md, by project."""
        found = {}
        for project_id, last in self.last_looks.items():
            problem = last.settings.problem if last.settings else ""
            project = self.projects.by_id(project_id) if problem else None
            if project is not None:
                root = project.root.path
                found[root] = f"{root}/conductor/workflow.md: {problem}"
        return found

    def silences(self) -> dict[str, str]:
        """Return why conductor/ or Beads cannot be read, by project.

        A single failure of Beads is left out.
        """
        found = {}
        for project_id, last in self.last_looks.items():
            lasting = last.problem and last.silences != 1
            project = self.projects.by_id(project_id) if lasting else None
            if project is not None:
                found[project.root.path] = last.problem
        return found

    def idle_seconds(self, project_id: str) -> float:
        """Return the seconds of silence after which a session of a project is idle; 0: never."""
        own = self.settings_of(project_id).idle_minutes
        minutes = self.config.current.triggers.idle_minutes if own is None else own
        return minutes * 60

    # Triggers of files

    async def look(self) -> None:
        """Compare every active project with the last look at it."""
        now = clock.monotonic()
        active_projects = []
        for active in self._recent_projects():
            last = self._last_look(active)
            if now < last.bare_until or not self.project_states.may_write_unasked(active.project):
                continue
            if _has_changes(active.project.root.path, last, self.config.current):
                active_projects.append(active)
            await asyncio.sleep(0)  # the socket is answered between two projects
        last_looks = [self._last_look(active) for active in active_projects]
        roots = [active.project.root.path for active in active_projects]
        # One thread for all projects, and none if nothing changed: each use of a thread wakes the
        # processor many times.
        found = (
            await asyncio.to_thread(_look_at_all, roots, last_looks, self.config.current)
            if active_projects
            else []
        )
        for active, last, look in zip(active_projects, last_looks, found, strict=True):
            self._process_look(active.project, last, look)
        for given in [each for some in self._implementations.values() for each in some]:
            project = self.projects.by_id(given.project_id)
            looked = given.project_id in self.last_looks
            if project is not None and looked:
                self._epics.observe_command(project, self.last_looks[given.project_id], given)
        for project_id in set(self.last_looks) - set(self.project_states.active_projects):
            del self.last_looks[project_id]

    def _last_look(self, active: ActiveProject) -> LastLook:
        return self.last_looks.setdefault(active.project.id, LastLook())

    def _recent_projects(self) -> list[ActiveProject]:
        recent = clock.wall() - clock.DAY_SECONDS
        active_projects = [
            active
            for active in self.project_states.active_projects.values()
            if active.touched > recent
        ]
        active_projects.sort(key=lambda active: active.touched, reverse=True)
        return active_projects[:PROJECTS_MAX]

    def _process_look(self, project: Project, last: LastLook, found: ProjectLook) -> None:
        if found.settings is not None:
            last.settings = found.settings
        if found.tracks is not None:
            began = self._designing_since(project.id)
            # A track that is still being designed is not finished, even if its files are there.
            tracks = [track for track in found.tracks if track.changed_seconds < began]
            self._observe_tracks(project, tracks)
            if len(tracks) == len(found.tracks):
                last.conductor_stamp = found.conductor_stamp
            last.tracks = found.tracks
        last.beads_root = found.beads_root
        if found.issues is not None:
            last.issues = found.issues
            # With a problem, the issues come from a file that may lag behind: ask again.
            if not last.problem:
                last.beads_stamp = found.beads_stamp
        if last.tracks is not None and (found.tracks is not None or found.issues is not None):
            self._epics.observe(project, last)

    def _designing_since(self, project_id: str) -> float:
        """Return the begin of the first design of a live session; infinite if there is none."""
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
        """Fire for the tracks that are designed now and were not before."""
        ledger = self.core.ledger
        designs = [found for found in self._designs.values() if found.project_id == project.id]
        found: dict[str, str] = {}
        left: set[str] = set()
        for track in tracks:
            state = track.metadata.state if track.metadata else ""
            documents = track.metadata is not None and track.has_spec and track.has_plan
            found[track.id] = design_end.status(state, has_documents=documents)
            # A command that is over made this track: it is designed, even if its state differs.
            made = any(found.began <= track.changed_seconds <= found.ended for found in designs)
            if made and not ledger.sighting(project.id, "track", track.id).status:
                found[track.id] = design_end.DESIGNED
                left.add(track.id)

        def firing_for(name: str, _before: str, now: str, _changes: int) -> Firing | None:
            if now != design_end.DESIGNED:
                return None
            cause = design_end.cause(project.id, name)
            why = f"conductor/tracks/{name} is designed"
            return self._firing(project, DESIGN_END, cause, why, {"words": name})

        # These tracks fire even at the first look at a project, at which nothing else fires.
        sightings = {name: Sighting(status) for name, status in found.items()}
        old = {name: seen for name, seen in sightings.items() if name not in left}
        ledger.observe(project.id, "track", old, firing_for)
        ledger.observe(project.id, "track", sightings, firing_for)

    def _firing(
        self, project: Project, trigger: str, cause: str, why: str, about: dict[str, Any]
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


def _command_end(state: SessionState, number: int) -> float:
    """Return the time at which a command was done: the assistant ended, or the next one came."""
    if number < len(state.commands) - 1:
        return clock.parse(state.commands[number + 1].receipt.time)
    over = state.spoke_last and not state.waiting and not insights.questions(state)
    return clock.parse(state.last_time) + LATE_SECONDS if over else math.inf


def _project_settings(root: str) -> TrackSettings:
    try:
        return ConductorDirectory(root).settings()
    except OSError:
        return TrackSettings()


def _has_changes(root: str, last: LastLook, config: Config) -> bool:
    """Return True if there is something new to read; costs a few stats, as a rescan does."""
    try:
        conductor, beads = _stamps(root, config)
    except Exception:  # noqa: BLE001  the closer look reports the problem
        return True
    if conductor == beads == NONE:
        last.bare_until = clock.monotonic() + BARE_SECONDS
    may_ask = clock.monotonic() > last.silent_until
    return conductor != last.conductor_stamp or (may_ask and beads != last.beads_stamp)


def _stamps(root: str, config: Config) -> tuple[str, str]:
    return ConductorDirectory(root).stamp() or NONE, tracker_at(root, config).stamp() or NONE


def _look_at_all(roots: list[str], last_looks: list[LastLook], config: Config) -> list[ProjectLook]:
    return [_look_safely(root, last, config) for root, last in zip(roots, last_looks, strict=True)]


def _look_safely(root: str, last: LastLook, config: Config) -> ProjectLook:
    try:
        return _look_at_project(root, last, config)
    except Exception as problem:  # noqa: BLE001  one project must not hide the others
        last.problem = log.why(problem)
        return ProjectLook(last.conductor_stamp, last.beads_stamp, beads_root=last.beads_root)


def _look_at_project(root: str, last: LastLook, config: Config) -> ProjectLook:
    """Look at conductor/ and at Beads; each is read only if it changed since the last look."""
    conductor, tracker = ConductorDirectory(root), tracker_at(root, config)
    found = ProjectLook(*_stamps(root, config))
    found.beads_root = tracker.home() if found.beads_stamp != NONE else ""
    if found.conductor_stamp != last.conductor_stamp:
        found.tracks = conductor.tracks() if conductor.exists else []
        found.settings = conductor.settings()
    if found.beads_stamp == NONE:
        found.issues = IssueTree({}) if last.beads_stamp == "" else None
    elif found.beads_stamp != last.beads_stamp and clock.monotonic() > last.silent_until:
        _ask_tracker(tracker, last, found)
    return found


def _ask_tracker(tracker: Tracker, last: LastLook, found: ProjectLook) -> None:
    try:
        issues, last.problem = tracker.read_issues()
        found.issues = issues.without_texts()
    except TrackerError as reason:
        last.problem = str(reason)
    last.silences = last.silences + 1 if last.problem else 0
    if last.silences:
        pause = min(SILENT_SECONDS * 2 ** (last.silences - 1), SILENT_MOST_SECONDS)
        last.silent_until = clock.monotonic() + pause
