"""The state of CREATE: the request, and the facts gathered so far."""

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
from handoffd.tracks.work_context import TrackOverview, WorkContext


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """A request for a record; the ledger keeps it until it is done."""

    trigger: str = "manual"
    track: str = ""
    # The words with which the trigger fired; they may name a track.
    words: str = ""
    bead: str = ""
    phase: str = ""
    general: bool = False
    # The treatment of parallel workers: include, cancel, or ask.
    if_parallel: str = ""
    strict: bool = False
    # The requesting session works on this track from now on; a trigger moves no session.
    binds: bool = False
    # The track is about to be implemented: it is resumed before.
    implement: bool = False
    author: str = "agent"
    # The time and the file name of the record, fixed at the first attempt.
    at: str = ""
    name: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def repeated(self, track_id: str) -> str:
        """Return the command that repeats the request, now that the track is known."""
        said = {"--bead": self.bead, "--phase": self.phase}
        said |= {"--trigger": self.trigger} if self.trigger != "manual" else {}
        words = ["handoff", "create", "--track", track_id]
        words += [word for flag, value in said.items() if value for word in (flag, value)]
        return shlex.join([*words, *(["--strict"] if self.strict else [])])


def request_of(found: Mapping[str, Any]) -> CreateRequest:
    """Read a request from the ledger; skip fields of another version."""
    return CreateRequest(
        **{key: found[key] for key in found if key in CreateRequest.__dataclass_fields__}
    )


@dataclass(slots=True)
class CreateState(StepRun):
    """A run of CREATE."""

    work: WorkContext = field(kw_only=True)
    request: CreateRequest = field(kw_only=True)
    # The key of the request in the ledger; empty for a dry run.
    cause: str = ""
    track_id: str = GENERAL
    track: Track | None = None
    workers: list[ParallelWorker] = field(default_factory=list)
    # Whether the session works on this very track, as far as known.
    is_own_track: bool = True
    choice: dict[str, Any] | None = None
    cancelled: bool = False
    head: Head | None = None
    overview: TrackOverview = field(default_factory=lambda: TrackOverview(None, Progress()))
    facts: RecordFacts | None = None
    record: TrackRecord | None = None
    path: str = ""
    section: int = 0
    # The project's own patterns of secrets, and the secrets found.
    patterns: Patterns = ()
    secrets: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Return the key of this record's letters, which no other record has."""
        return f"{self.work.root}/{self.path}"

    @property
    def composed(self) -> TrackRecord:
        if self.record is None:
            raise HandoffError("There is no record yet.")
        return self.record
