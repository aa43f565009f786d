"""A record on its way back into a session: what is wanted, and what is known so far."""

from dataclasses import dataclass, field
from typing import Any

from handoff.errors import HandoffError
from handoffd.handoffs.tracks.analysis import Drift
from handoffd.handoffs.tracks.place import Kept, Track
from handoffd.handoffs.tracks.plan import Progress
from handoffd.handoffs.tracks.record import Record
from handoffd.handoffs.tracks.settings import Settings
from handoffd.links.agent_mail import Message
from handoffd.links.beads import Issue
from handoffd.workflow.masking import Patterns
from handoffd.workflow.ports import Ports, Standing
from handoffd.workflow.steps import Run


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be resumed: a path, a track, or whatever was left last."""

    target: str = ""
    # For /conductor-implement: an epic-start handoff follows.
    implement: bool = False
    # Shown to a session: framed as a record of the past.
    framed: bool = False


@dataclass(slots=True)
class Resumption(Run):
    """A record on its way back into a session."""

    ports: Ports = field(kw_only=True)
    wanted: Wanted = field(kw_only=True)
    settings: Settings = field(default_factory=Settings)
    patterns: Patterns = ()
    kept: list[Kept] = field(default_factory=list)
    track_id: str = ""
    message: Message | None = None
    choice: dict[str, Any] | None = None
    record: Record | None = None
    source: str = ""
    track: Track | None = None
    standing: Standing = field(default_factory=lambda: Standing(None, Progress()))
    epic: Issue | None = None
    ready: list[Issue] = field(default_factory=list)
    # Where .beads is, which several work trees may share.
    beads_home: str = ""
    drift: Drift | None = None
    text: str = ""
    todos: list[str] = field(default_factory=list)

    @property
    def found(self) -> Record:
        if self.record is None:
            raise HandoffError("There is no record.")
        return self.record
