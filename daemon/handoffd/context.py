"""The parts of a running daemon, as the handlers see them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from handoffd.errors import StoreError
from handoffd.fs import mounts
from handoffd.runtime import clock, log
from handoffd.store import recovery
from handoffd.store.core import CoreStore

# A command that does without a daemon loads its handlers, and should not load a daemon with them.
if TYPE_CHECKING:
    from handoffd.checkpoint.checkpoint_writer import CheckpointWriter
    from handoffd.config import LiveConfig
    from handoffd.contract.contract_writer import ContractWriter
    from handoffd.hooks.briefs import Briefs
    from handoffd.hooks.session_hooks import SessionHooks
    from handoffd.ingest.transcript_reader import TranscriptReader
    from handoffd.ingest.transcript_watcher import TranscriptWatcher
    from handoffd.projects.git_questions import GitQuestions
    from handoffd.projects.learning_policy import LearningPolicy
    from handoffd.projects.project_state import ActiveProject, ProjectStates
    from handoffd.projects.registry import ProjectRegistry
    from handoffd.runtime.schedule import Schedule
    from handoffd.store.state import SessionStore, StateStore
    from handoffd.threads.http_listener import HttpListener
    from handoffd.tracks.record_maker import RecordMaker
    from handoffd.triggers.record_requests import RecordRequests
    from handoffd.triggers.session_liveness import SessionLiveness
    from handoffd.triggers.trigger_detector import TriggerDetector

# The project of a warning that only those want to see who ask about everything.
ALL_ONLY = "*"
# Who has more sessions open at a time will see why the next one is refused.
CONNECTIONS_USUAL = 64
_LEFT_ALONE = "what lies on that disk is left alone until it does"


@dataclass(frozen=True, slots=True)
class HealthWarning:
    """Something a user should know; `anchor` is a heading of docs/troubleshooting.md."""

    code: str
    text: str
    anchor: str
    project: str = ""


@dataclass(slots=True)
class Context:
    config_path: str
    config: LiveConfig
    core: CoreStore
    state: StateStore
    sessions: SessionStore
    policy: LearningPolicy
    projects: ProjectRegistry
    transcript_reader: TranscriptReader
    project_states: ProjectStates
    git_questions: GitQuestions
    briefs: Briefs
    checkpoint_writer: CheckpointWriter
    trigger_detector: TriggerDetector
    contract_writer: ContractWriter
    session_liveness: SessionLiveness
    session_hooks: SessionHooks
    record_maker: RecordMaker
    record_requests: RecordRequests
    transcript_watcher: TranscriptWatcher
    schedule: Schedule
    http_listener: HttpListener
    log_path: str | None
    stop: asyncio.Event
    # Called with the id of a project in which Code has more, or less, to read than before.
    unread_changed: Callable[[str], None]
    started_at: float = field(default_factory=clock.wall)
    watchers: list[Callable[[dict[str, Any]], None]] = field(default_factory=list)
    config_problem: str = ""
    # Why the user's configuration is unknown, which the daemon would not start with: nothing is
    # done then that the user may not want.
    config_unknown: str = ""
    state_rebuilt: str = ""
    copy_problem: str = ""
    # Why a damaged core.db could not be replaced.
    core_problem: str = ""
    socket_path: str = ""
    refused_peers: int = 0
    # Fewer than there could be, where few descriptors are allowed; 0 until somebody listens.
    connections_max: int = 0
    failed: bool = False
    # Waits until state.db is as it was.
    rebuild: asyncio.Task[None] | None = None
    # Replaces a core.db that turned out to be damaged.
    recovery: asyncio.Task[None] | None = None
    # Held by whoever writes core.db, or its copy, anew.
    wiping: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def settled(self) -> bool:
        """Tell whether every transcript is read, as far as it goes."""
        return self.transcript_watcher.first_scan_done and not self.transcript_reader.backlog[0]

    def tell_watchers(self, change: dict[str, Any]) -> None:
        """Pass a change on to every client that watches."""
        for watcher in list(self.watchers):
            watcher(change)

    async def wipe_core(self) -> None:
        """Leave no erased byte in core.db; in a thread, for it is written anew as a whole."""
        async with self.wiping:
            await asyncio.to_thread(_scrub, self.core.path)

    async def renew_copy(self) -> None:
        """Let the copy of core.db know of a pause at once, should core.db be damaged later."""
        async with self.wiping:
            await asyncio.to_thread(_renew_copy, self.core.path)

    async def recovered(self) -> None:
        """Wait until a damaged core.db is replaced."""
        if self.recovery is not None:
            await asyncio.wait([self.recovery])

    def warnings(self) -> list[HealthWarning]:
        """Return every way in which we are less than we should be."""
        found = []
        if self.config_problem:
            found.append(HealthWarning("config_invalid", self.config_problem, "config-invalid"))
        if self.transcript_watcher.observer.problem:
            found.append(
                HealthWarning(
                    "watch_degraded", self.transcript_watcher.observer.problem, "watch-degraded"
                )
            )
        notes = [self.core_problem] if self.core_problem else recovery.notes(self.core.path)
        found += [HealthWarning("core_damaged", note, "core-damaged") for note in notes[-1:]]
        if 0 < self.connections_max < CONNECTIONS_USUAL:
            text = (
                f"So few files may be open at once that {self.connections_max} clients are served "
                "at a time. Raise the limit (ulimit -n, LimitNOFILE=), then: handoff restart"
            )
            found.append(HealthWarning("few_descriptors", text, "few-descriptors"))
        if self.state_rebuilt:
            found.append(HealthWarning("state_rebuilt", self.state_rebuilt, "state-rebuilt"))
        found += self._unwritten()
        if self.transcript_reader.quarantined:
            number = self.transcript_reader.quarantined
            text = f"{number} transcript{'' if number == 1 else 's'} could not be read."
            found.append(HealthWarning("quarantined", text, "quarantined"))
        if self.http_listener.problem:
            text = f"HTTP is not open: {self.http_listener.problem}"
            found.append(HealthWarning("http_off", text, "http-off", ALL_ONLY))
        if problem := self.http_listener.token_problem():
            text = f"HTTP lets nobody in: {problem}"
            found.append(HealthWarning("http_token", text, "http-token", ALL_ONLY))
        if self.session_liveness.problem:
            found.append(
                HealthWarning("contract_failed", self.session_liveness.problem, "contract-failed")
            )
        found += [
            HealthWarning("record_failed", f"{root}: {text}", "record-failed", root)
            for root, text in self.record_maker.problems.items()
        ]
        found += self._dead_letters()
        found += [
            HealthWarning("workflow_invalid", text, "workflow-invalid", root)
            for root, text in self.trigger_detector.problems().items()
        ]
        found += [
            HealthWarning("beads_silent", f"{root}: {text}", "beads-silent", root)
            for root, text in self.trigger_detector.silences().items()
        ]
        for active in self.project_states.active_projects.values():
            found += self._project_warnings(active)
        return found

    def _dead_letters(self) -> list[HealthWarning]:
        dead = len(self.core.outbox.dead())
        if not dead:
            return []
        what = "1 note or mail" if dead == 1 else f"{dead} notes or mails"
        text = f"{what} could not be sent; see: handoff triggers --all"
        return [HealthWarning("letters_dead", text, "letters-dead")]

    def _unwritten(self) -> list[HealthWarning]:
        found = []
        if self.transcript_reader.problem:
            found.append(
                HealthWarning("store_failed", self.transcript_reader.problem, "store-failed")
            )
        if problem := log.problem():
            found.append(HealthWarning("log_failed", problem, "log-failed"))
        found += [
            HealthWarning("disk_silent", f"{point} does not answer: {_LEFT_ALONE}.", "disk-silent")
            for point in mounts.silent()
        ]
        if self.copy_problem:
            found.append(HealthWarning("copy_failed", self.copy_problem, "copy-failed"))
        return found

    def _project_warnings(self, active: ActiveProject) -> list[HealthWarning]:
        found, root = self._file_warnings(active), active.project.root.path
        if active.git.problem:
            text = f"{root}: what git knows is missing there: {active.git.problem}."
            found.append(HealthWarning("git_silent", text, "git-silent", root))
        return found

    def _file_warnings(self, active: ActiveProject) -> list[HealthWarning]:
        root = active.project.root.path
        if active.file.unreadable:
            text = f"{root}: handoff.yaml is left alone: {active.file.unreadable}."
            return [HealthWarning("unreadable", text, "unreadable", root)]
        if active.problem:
            return [
                HealthWarning("write_failed", f"{root}: {active.problem}", "write-failed", root)
            ]
        if active.git.tracked and not self.config.current.checkpoint.write_tracked:
            text = f"{root}: git tracks handoff.yaml, so it is written only when you save."
            return [HealthWarning("tracked", text, "tracked", root)]
        return []


def _renew_copy(path: str) -> None:
    with contextlib.suppress(StoreError), contextlib.closing(CoreStore(path)) as core:
        core.renew_copy()


def _scrub(path: str) -> None:
    with contextlib.closing(CoreStore(path)) as core:
        core.scrub()
