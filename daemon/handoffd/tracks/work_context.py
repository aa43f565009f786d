"""The context of a workflow: the project, the session, the stores and the links."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from handoff.common.errors import ChoiceNeededError, HandoffError
from handoffd.contract.contract_format import Contract
from handoffd.links.agent_mail import AgentMail
from handoffd.links.tracker import Issue, Tracker, TrackerError
from handoffd.runtime import clock
from handoffd.session.state import SessionState
from handoffd.session.text import keep
from handoffd.store.core import CoreStore
from handoffd.store.outbox import Letter
from handoffd.tracks.conductor_directory import ConductorDirectory, Track
from handoffd.tracks.outbox_sender import Deliver, deliver, deliver_mail, deliver_note
from handoffd.tracks.plan import PlannedWork, Progress, TrackPlan, progress

# Of a track with more epics only the first ones are read.
EPICS_MAX = 8
TITLE_MAX = 200
NO_WORK = PlannedWork()
_DATED = re.compile(r"_\d{8}\Z")


@dataclass(frozen=True, slots=True)
class Links:
    """The other programs, and their configuration."""

    mail: AgentMail
    # The issue tracker of the project at a root.
    tracker: Callable[[str], Tracker]
    # Whether conductor/handoffs/general may be made if there is no conductor/.
    general: bool = False

    def deliverers(self) -> Mapping[str, Deliver]:
        def send_note(letter: Letter) -> None:
            deliver_note(letter, self.tracker(letter.root))

        def send_mail(letter: Letter) -> None:
            deliver_mail(self.mail, letter)

        return {"beads": send_note, "mail": send_mail}


@dataclass(frozen=True, slots=True)
class HandedOffSession:
    """The session that is handed off: its state, whether it is live, and its contract."""

    state: SessionState | None = None
    live: bool = False
    contract: Contract | None = None


@dataclass(frozen=True, slots=True)
class WorkContext:
    """A project with its stores and links. Used by one thread, with a store of its own."""

    root: str
    project_id: str
    core: CoreStore
    links: Links
    session: HandedOffSession

    @property
    def state(self) -> SessionState | None:
        return self.session.state

    @property
    def session_id(self) -> str:
        return self.state.session_id if self.state else ""

    @property
    def conductor(self) -> ConductorDirectory:
        return ConductorDirectory(self.root)

    @property
    def tracker(self) -> Tracker:
        return self.links.tracker(self.root)

    def deliver(self, key: str) -> Mapping[str, Letter]:
        """Try to send the letters of a record now. Return the unsent ones by their kind."""
        deliver(self.core.outbox, self.links.deliverers(), clock.wall(), only_key=key)
        waiting = [letter for letter in self.core.outbox.unsent() if letter.key == key]
        return {letter.kind: letter for letter in waiting}


@dataclass(frozen=True, slots=True)
class TrackOverview:
    """A track's plan, progress, tasks and epics."""

    plan: TrackPlan | None
    progress: Progress
    work: PlannedWork = NO_WORK
    epics: Sequence[str] = ()
    # Why Beads did not answer, if it was asked.
    problem: str = ""


def track_overview(work: WorkContext, track: Track | None) -> TrackOverview:
    """Return the overview of a track, with the one progress that is shown everywhere."""
    if track is None:
        return TrackOverview(None, Progress())
    plan = work.conductor.plan(track.id)
    named = track.metadata.tasks if track.metadata else []
    tasks: list[Issue] = []
    problem = ""
    try:
        if track.epics or named:
            tasks = work.tracker.issues().tasks(track.epics, named)
    except TrackerError as reason:
        problem = str(reason)
    done = progress(plan, [task.status for task in tasks])
    planned = _planned_work(tasks) if done.source == "beads" else PlannedWork.of_plan(plan)
    return TrackOverview(plan, done, planned, track.epics, problem)


def _planned_work(tasks: Sequence[Issue]) -> PlannedWork:
    """Return the issues in progress, open and blocked: the same source as the progress."""

    def titles(status: str) -> tuple[str, ...]:
        return tuple(keep(task.title, TITLE_MAX) for task in tasks if task.status == status)

    return PlannedWork(titles("in_progress"), titles("open"), titles("blocked"))


def known_track(work: WorkContext, name: str) -> Track:
    """Return the track with this name: its id, or its id without the date."""
    tracks = work.conductor.tracks()
    ids = [track.id for track in tracks]
    archived = work.conductor.archived_ids()
    # A track in the archive counts if no other one has the name.
    for found in (
        *([each for each in some if each == name] for some in (ids, archived)),
        *([each for each in some if undated(each) == name] for some in (ids, archived)),
    ):
        if len(found) > 1:
            raise ChoiceNeededError(
                f"{len(found)} tracks are called {name}.", f"Name one: {', '.join(found[:8])}"
            )
        if found and (track := work.conductor.track(found[0])):
            return track
    names = ", ".join(ids[:8])
    hint = f"There are: {names}" if names else "This project has no tracks in conductor/tracks."
    raise HandoffError(f"There is no track {name}.", hint)


def undated(track_id: str) -> str:
    """Return a track's id without its date."""
    return _DATED.sub("", track_id)


def named_track(words: str, ids: Collection[str]) -> str:
    """Return the track that a word names: its id, or else its id without the date."""
    said = words.split()
    exact = [word for word in said if word in ids]
    short = [each for each in ids if undated(each) in said]
    return exact[0] if exact else short[0] if len(short) == 1 else ""


def track_of_session(work: WorkContext, ids: Collection[str]) -> str:
    """Return the track a session works on: as bound, by its commands, or by its edited files."""
    bound = work.core.ledger.track_of(work.session_id) if work.session_id else ""
    if bound in ids or work.state is None:
        return bound
    state = work.state
    before = f"{work.root}/conductor/tracks/"
    for command in reversed(state.commands):
        # Any word may be a track's id; only a command of conductor may leave its date out.
        if "conductor" in command.name and (named := named_track(command.arguments, ids)):
            return named
        for word in command.arguments.split():
            if word in ids:
                return word
    for file in sorted(state.files, key=lambda file: -file.edited_at):
        track_id = file.path.removeprefix(before).partition("/")[0]
        if file.edits and file.path.startswith(before) and track_id in ids:
            return track_id
    return ""
