"""The parts of a process as handlers see them: of the daemon, or of a client without one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from handoffd.errors import StoreError
from handoffd.runtime import clock
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
    from handoffd.projects.project_state import ProjectStates
    from handoffd.projects.registry import ProjectRegistry
    from handoffd.runtime.schedule import Schedule
    from handoffd.store.state import SessionStore, StateStore
    from handoffd.threads.http_listener import HttpListener
    from handoffd.tracks.record_maker import RecordMaker
    from handoffd.triggers.record_requests import RecordRequests
    from handoffd.triggers.session_liveness import SessionLiveness
    from handoffd.triggers.trigger_detector import TriggerDetector


@dataclass(slots=True)
class RunningDaemon:
    """The parts that only a running daemon has, and what it knows of its own health."""

    config_path: str
    log_path: str | None
    state: StateStore
    transcript_reader: TranscriptReader
    transcript_watcher: TranscriptWatcher
    git_questions: GitQuestions
    briefs: Briefs
    checkpoint_writer: CheckpointWriter
    trigger_detector: TriggerDetector
    session_liveness: SessionLiveness
    session_hooks: SessionHooks
    schedule: Schedule
    http_listener: HttpListener
    stop: asyncio.Event
    started_at: float = field(default_factory=clock.wall)
    socket_path: str = ""
    refused_peers: int = 0
    # Fewer than there could be, where few descriptors are allowed; 0 until somebody listens.
    connections_max: int = 0
    config_problem: str = ""
    state_rebuilt: str = ""
    copy_problem: str = ""
    # Why a damaged core.db could not be replaced.
    core_problem: str = ""
    failed: bool = False
    # Waits until state.db is as it was.
    rebuild: asyncio.Task[None] | None = None
    # Replaces a core.db that turned out to be damaged.
    recovery: asyncio.Task[None] | None = None

    @property
    def settled(self) -> bool:
        """Return True if every transcript is read to its end."""
        return self.transcript_watcher.first_scan_done and not self.transcript_reader.backlog[0]

    async def recovered(self) -> None:
        """Wait until a damaged core.db is replaced."""
        if self.recovery is not None:
            await asyncio.wait([self.recovery])


@dataclass(slots=True)
class Context:
    """The stores and services that handlers use.

    A client without a daemon builds the same ones, and has no `daemon` (offline/runner.py).
    """

    config: LiveConfig
    core: CoreStore
    sessions: SessionStore
    policy: LearningPolicy
    projects: ProjectRegistry
    project_states: ProjectStates
    contract_writer: ContractWriter
    record_maker: RecordMaker
    record_requests: RecordRequests
    daemon: RunningDaemon
    # Called with the id of a project in which Code has more, or less, to read than before.
    unread_changed: Callable[[str], None]
    # Why the user's configuration is unknown, which the daemon would not start with: nothing is
    # done then that the user may not want.
    config_unknown: str = ""
    watchers: list[Callable[[dict[str, Any]], None]] = field(default_factory=list)
    # Held by whoever writes core.db, or its copy, anew.
    wiping: asyncio.Lock = field(default_factory=asyncio.Lock)

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


def _renew_copy(path: str) -> None:
    with contextlib.suppress(StoreError), contextlib.closing(CoreStore(path)) as core:
        core.renew_copy()


def _scrub(path: str) -> None:
    with contextlib.closing(CoreStore(path)) as core:
        core.scrub()
