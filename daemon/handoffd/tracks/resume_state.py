"""A record on its way back into a session: what is wanted, and what is known so far."""

from dataclasses import dataclass, field
from typing import Any

from handoff.common.errors import HandoffError
from handoffd.links.agent_mail import MailMessage
from handoffd.links.beads import Issue
from handoffd.tracks.analysis import Drift
from handoffd.tracks.conductor_directory import StoredRecord, Track
from handoffd.tracks.masking import Patterns
from handoffd.tracks.plan import Progress
from handoffd.tracks.record import TrackRecord
from handoffd.tracks.settings import TrackSettings
from handoffd.tracks.steps import StepRun
from handoffd.tracks.work_context import TrackStanding, WorkContext


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """What is to be resumed: a path, a track, or whatever was left last."""

    target: str = ""
    # For /conductor-implement: an epic-start handoff follows.
    implement: bool = False
    # Shown to a session: framed as a record of the past.
    framed: bool = False


@dataclass(slots=True)
class ResumeState(StepRun):
    """A record on its way back into a session."""

    ports: WorkContext = field(kw_only=True)
    wanted: ResumeRequest = field(kw_only=True)
    settings: TrackSettings = field(default_factory=TrackSettings)
    patterns: Patterns = ()
    kept: list[StoredRecord] = field(default_factory=list)
    track_id: str = ""
    message: MailMessage | None = None
    choice: dict[str, Any] | None = None
    record: TrackRecord | None = None
    source: str = ""
    track: Track | None = None
    standing: TrackStanding = field(default_factory=lambda: TrackStanding(None, Progress()))
    epic: Issue | None = None
    ready: list[Issue] = field(default_factory=list)
    # Where .beads is, which several work trees may share.
    beads_home: str = ""
    drift: Drift | None = None
    text: str = ""
    todos: list[str] = field(default_factory=list)

    @property
    def found(self) -> TrackRecord:
        if self.record is None:
            raise HandoffError("There is no record.")
        return self.record
