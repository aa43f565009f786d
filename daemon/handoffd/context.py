"""The parts of a process as handlers see them: of the daemon, or of a client without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from handoffd.runtime import clock

# A command that does without a daemon loads its handlers, and should not load a daemon with them.
if TYPE_CHECKING:
    from handoffd.checkpoint.checkpoint_writer import CheckpointWriter
    from handoffd.config import LiveConfig
    from handoffd.contract.contract_writer import ContractWriter
    from handoffd.hooks.brief_writer import BriefWriter
    from handoffd.hooks.session_hooks import SessionHooks
    from handoffd.ingest.state_rebuild import StateRebuild
    from handoffd.ingest.transcript_reader import TranscriptReader
    from handoffd.ingest.transcript_watcher import TranscriptWatcher
    from handoffd.projects.git_questions import GitQuestions
    from handoffd.projects.learning_policy import LearningPolicy
    from handoffd.projects.project_state import ProjectStates
    from handoffd.projects.registry import ProjectRegistry
    from handoffd.runtime.schedule import Schedule
    from handoffd.store.core import CoreStore
    from handoffd.store.core_keeper import CoreKeeper
    from handoffd.store.state import SessionStore, StateStore
    from handoffd.threads.http_listener import HttpListener
    from handoffd.tracks.record_maker import RecordMaker
    from handoffd.triggers.record_requests import RecordRequests
    from handoffd.triggers.session_liveness import SessionLiveness
    from handoffd.triggers.trigger_detector import TriggerDetector


@dataclass(slots=True)
class RunningDaemon:
    """The parts that only a running daemon has, and its knowledge of its own health."""

    config_path: str
    log_path: str | None
    state: StateStore
    state_rebuild: StateRebuild
    core_keeper: CoreKeeper
    transcript_reader: TranscriptReader
    transcript_watcher: TranscriptWatcher
    git_questions: GitQuestions
    brief_writer: BriefWriter
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
    # Lower than usual if few descriptors are allowed; 0 until the socket is open.
    connections_max: int = 0
    config_problem: str = ""
    failed: bool = False


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
    # The reason why the user's configuration is unknown; then nothing is done that the user may
    # not want. A daemon would not start with it.
    config_unknown: str = ""
    watchers: list[Callable[[dict[str, Any]], None]] = field(default_factory=list)
    # Held by each task that writes core.db, or its copy, anew.
    wiping: asyncio.Lock = field(default_factory=asyncio.Lock)

    def tell_watchers(self, change: dict[str, Any]) -> None:
        """Pass a change on to every client that watches."""
        for watcher in list(self.watchers):
            watcher(change)
