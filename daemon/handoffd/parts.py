"""The parts of a running daemon, as the handlers see them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from handoffd import clock, log, mounts
from handoffd.errors import StoreError
from handoffd.store import recovery
from handoffd.store.core import CoreStore

# A command that does without a daemon loads its handlers, and should not load a daemon with them.
if TYPE_CHECKING:
    from handoffd.archivist import Archivist
    from handoffd.board import Board, Card
    from handoffd.config import Config
    from handoffd.door import Door
    from handoffd.gate import Gate
    from handoffd.herald import Herald
    from handoffd.intake import Intake
    from handoffd.lookout import Lookout
    from handoffd.projects import Projects
    from handoffd.recorder import Recorder
    from handoffd.scribe import Scribe
    from handoffd.store.state import StateStore
    from handoffd.triggers.schedule import Schedule
    from handoffd.usher import Usher

# The project of a warning that only those want to see who ask about everything.
ALL_ONLY = "*"
# Who has more sessions open at a time will see why the next one is refused.
CONNECTIONS_USUAL = 64
_LEFT_ALONE = "what lies on that disk is left alone until it does"


@dataclass(frozen=True, slots=True)
class Warning_:  # noqa: N801  the builtin has the name
    """Something a user should know; `anchor` is a heading of docs/troubleshooting.md."""

    code: str
    text: str
    anchor: str
    project: str = ""


@dataclass(slots=True)
class Parts:
    config_path: str
    config: Config
    core: CoreStore
    state: StateStore
    gate: Gate
    projects: Projects
    intake: Intake
    board: Board
    scribe: Scribe
    herald: Herald
    archivist: Archivist
    usher: Usher
    recorder: Recorder
    lookout: Lookout
    schedule: Schedule
    door: Door
    log_path: str | None
    stop: asyncio.Event
    started_at: float = field(default_factory=clock.wall)
    watchers: list[Callable[[dict[str, Any]], None]] = field(default_factory=list)
    config_problem: str = ""
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
        return self.lookout.first_scan_done and not self.intake.backlog[0]

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

    def warnings(self) -> list[Warning_]:
        """Return every way in which we are less than we should be."""
        found = []
        if self.config_problem:
            found.append(Warning_("config_invalid", self.config_problem, "config-invalid"))
        if self.lookout.observer.problem:
            found.append(
                Warning_("watch_degraded", self.lookout.observer.problem, "watch-degraded")
            )
        notes = [self.core_problem] if self.core_problem else recovery.notes(self.core.path)
        found += [Warning_("core_damaged", note, "core-damaged") for note in notes[-1:]]
        if 0 < self.connections_max < CONNECTIONS_USUAL:
            text = (
                f"So few files may be open at once that {self.connections_max} clients are served "
                "at a time. Raise the limit (ulimit -n, LimitNOFILE=), then: handoff restart"
            )
            found.append(Warning_("few_descriptors", text, "few-descriptors"))
        if self.state_rebuilt:
            found.append(Warning_("state_rebuilt", self.state_rebuilt, "state-rebuilt"))
        found += self._unwritten()
        if self.intake.quarantined:
            number = self.intake.quarantined
            text = f"{number} transcript{'' if number == 1 else 's'} could not be read."
            found.append(Warning_("quarantined", text, "quarantined"))
        if self.door.problem:
            text = f"HTTP is not open: {self.door.problem}"
            found.append(Warning_("http_off", text, "http-off", ALL_ONLY))
        if problem := self.door.token_problem():
            text = f"HTTP lets nobody in: {problem}"
            found.append(Warning_("http_token", text, "http-token", ALL_ONLY))
        if self.archivist.problem:
            found.append(Warning_("contract_failed", self.archivist.problem, "contract-failed"))
        found += [
            Warning_("record_failed", f"{root}: {text}", "record-failed", root)
            for root, text in self.recorder.problems.items()
        ]
        found += self._dead_letters()
        found += [
            Warning_("workflow_invalid", text, "workflow-invalid", root)
            for root, text in self.herald.problems().items()
        ]
        found += [
            Warning_("beads_silent", f"{root}: {text}", "beads-silent", root)
            for root, text in self.herald.silences().items()
        ]
        for card in self.board.cards.values():
            found += self._project_warnings(card)
        return found

    def _dead_letters(self) -> list[Warning_]:
        dead = len(self.core.outbox.dead())
        if not dead:
            return []
        what = "1 note or mail" if dead == 1 else f"{dead} notes or mails"
        text = f"{what} could not be sent; see: handoff triggers --all"
        return [Warning_("letters_dead", text, "letters-dead")]

    def _unwritten(self) -> list[Warning_]:
        found = []
        if self.intake.problem:
            found.append(Warning_("store_failed", self.intake.problem, "store-failed"))
        if problem := log.problem():
            found.append(Warning_("log_failed", problem, "log-failed"))
        found += [
            Warning_("disk_silent", f"{point} does not answer: {_LEFT_ALONE}.", "disk-silent")
            for point in mounts.silent()
        ]
        if self.copy_problem:
            found.append(Warning_("copy_failed", self.copy_problem, "copy-failed"))
        return found

    def _project_warnings(self, card: Card) -> list[Warning_]:
        found, root = self._file_warnings(card), card.project.root.path
        if card.git_problem:
            text = f"{root}: what git knows is missing there: {card.git_problem}."
            found.append(Warning_("git_silent", text, "git-silent", root))
        return found

    def _file_warnings(self, card: Card) -> list[Warning_]:
        root = card.project.root.path
        if card.unreadable:
            text = f"{root}: handoff.yaml is left alone: {card.unreadable}."
            return [Warning_("unreadable", text, "unreadable", root)]
        if card.problem:
            return [Warning_("write_failed", f"{root}: {card.problem}", "write-failed", root)]
        if card.tracked and not self.config.checkpoint.write_tracked:
            text = f"{root}: git tracks handoff.yaml, so it is written only when you save."
            return [Warning_("tracked", text, "tracked", root)]
        return []


def _renew_copy(path: str) -> None:
    with contextlib.suppress(StoreError), contextlib.closing(CoreStore(path)) as core:
        core.renew_copy()


def _scrub(path: str) -> None:
    with contextlib.closing(CoreStore(path)) as core:
        core.scrub()
