"""The state of RESUME: the request, and the facts found so far."""

from dataclasses import dataclass, field
from typing import Any

from handoff.common.errors import HandoffError
from handoffd.links.agent_mail import MailMessage
from handoffd.links.tracker import Issue
from handoffd.tracks.analysis import Drift
from handoffd.tracks.conductor_directory import StoredRecord, Track
from handoffd.tracks.masking import Patterns
from handoffd.tracks.plan import Progress
from handoffd.tracks.record import TrackRecord
from handoffd.tracks.settings import TrackSettings
from handoffd.tracks.steps import StepRun
from handoffd.tracks.work_context import TrackOverview, WorkContext


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """The target of RESUME: a path, a track, or by default the last record."""

    target: str = ""
    # For /conductor-implement: an epic-start handoff follows.
    implement: bool = False
    # A session asks: what it is shown is framed as a record of the past, and it works on the track
    # from now on. A person at a terminal moves no session.
    framed: bool = False


@dataclass(slots=True)
class ResumeState(StepRun):
    """A run of RESUME."""

    work: WorkContext = field(kw_only=True)
    request: ResumeRequest = field(kw_only=True)
    settings: TrackSettings = field(default_factory=TrackSettings)
    patterns: Patterns = ()
    records: list[StoredRecord] = field(default_factory=list)
    track_id: str = ""
    message: MailMessage | None = None
    choice: dict[str, Any] | None = None
    record: TrackRecord | None = None
    source: str = ""
    track: Track | None = None
    overview: TrackOverview = field(default_factory=lambda: TrackOverview(None, Progress()))
    epic: Issue | None = None
    ready: list[Issue] = field(default_factory=list)
    # The directory of .beads, which several work trees may share.
    beads_home: str = ""
    drift: Drift | None = None
    text: str = ""
    todos: list[str] = field(default_factory=list)

    @property
    def loaded_record(self) -> TrackRecord:
        if self.record is None:
            raise HandoffError("There is no record.")
        return self.record
