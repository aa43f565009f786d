"""A track record in the making: what was asked for, and what is known so far."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from handoff.common.errors import HandoffError
from handoffd.links.repository import Head
from handoffd.tracks.conductor_directory import Track
from handoffd.tracks.masking import Patterns
from handoffd.tracks.parallel_workers import ParallelWorker
from handoffd.tracks.plan import Progress
from handoffd.tracks.record import GENERAL, TrackRecord
from handoffd.tracks.record_sections import RecordFacts
from handoffd.tracks.steps import StepRun
from handoffd.tracks.work_context import TrackStanding, WorkContext

# Kind and form of a secret.


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """What is asked for; kept in the ledger until it is done."""

    trigger: str = "manual"
    track: str = ""
    # What was said when it fired, in which a track may be named.
    words: str = ""
    bead: str = ""
    phase: str = ""
    general: bool = False
    # What to do about parallel workers: include, cancel, or ask.
    if_parallel: str = ""
    strict: bool = False
    # The session that asks works on this track from now on; a trigger moves nobody.
    binds: bool = False
    author: str = "agent"
    # When the record is made, and its file; fixed at the first attempt.
    at: str = ""
    name: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def repeated(self, track_id: str) -> str:
        """Return the command that asks for the same once more, now that the track is known."""
        said = {"--bead": self.bead, "--phase": self.phase}
        said |= {"--trigger": self.trigger} if self.trigger != "manual" else {}
        words = ["handoff", "create", "--track", track_id]
        words += [word for flag, value in said.items() if value for word in (flag, value)]
        return shlex.join([*words, *(["--strict"] if self.strict else [])])


def request_of(found: Mapping[str, Any]) -> CreateRequest:
    """Read a request from the ledger; what another version wrote there is left out."""
    return CreateRequest(
        **{key: found[key] for key in found if key in CreateRequest.__dataclass_fields__}
    )


@dataclass(slots=True)
class CreateState(StepRun):
    """A record in the making."""

    ports: WorkContext = field(kw_only=True)
    request: CreateRequest = field(kw_only=True)
    # Under which the ledger knows it; empty for a dry run.
    cause: str = ""
    track_id: str = GENERAL
    track: Track | None = None
    workers: list[ParallelWorker] = field(default_factory=list)
    # Whether the session works on this very track, as far as is known.
    own: bool = True
    choice: dict[str, Any] | None = None
    cancelled: bool = False
    head: Head | None = None
    standing: TrackStanding = field(default_factory=lambda: TrackStanding(None, Progress()))
    facts: RecordFacts | None = None
    record: TrackRecord | None = None
    path: str = ""
    section: int = 0
    # The project's own, and what was found by them.
    patterns: Patterns = ()
    secrets: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Return what no other record's letters have."""
        return f"{self.ports.root}/{self.path}"

    @property
    def made(self) -> TrackRecord:
        if self.record is None:
            raise HandoffError("There is no record yet.")
        return self.record
