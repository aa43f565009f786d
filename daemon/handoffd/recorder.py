"""Makes track records: when somebody asks, and for every trigger that is pending.

What fires stands in the ledger before anything is done about it, and is pending until its
record is made: after a kill it is taken up again, under the same name.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from handoff.errors import HandoffError
from handoffd import clock, log
from handoffd.archivist import Archivist
from handoffd.board import Board
from handoffd.config import Config
from handoffd.courier import deliver
from handoffd.files import BusyError
from handoffd.handoffs.account import is_worth
from handoffd.handoffs.tracks import metadata
from handoffd.handoffs.tracks.place import Conductor
from handoffd.handoffs.tracks.record import GENERAL, TRIGGERS
from handoffd.herald import Herald
from handoffd.links import desktop
from handoffd.links.agent_mail import Mail
from handoffd.links.beads import BeadsProgram
from handoffd.projects import Project
from handoffd.session.state import SessionState
from handoffd.session.storage import load
from handoffd.store.core import CoreStore
from handoffd.store.database import LOOP_BUSY_SECONDS
from handoffd.store.ledger import Firing
from handoffd.triggers import idle
from handoffd.workflow.creation import Request, request_of
from handoffd.workflow.entry import (
    ASKED,
    RECORDED,
    asked,
    implemented,
    implementing,
    is_made,
    settle,
)
from handoffd.workflow.ports import Links, Ports, Session
from handoffd.workflow.resumption import Wanted
from handoffd.workflow.steps import FAILED, Tell

LOOK_SECONDS = 10.0
RETRY_SECONDS, RETRY_MOST_SECONDS = 60.0, 3600.0
# Whoever began to make a record in another process is given so long.
TAKEN_SECONDS = 600.0
T = TypeVar("T")


@dataclass(slots=True)
class Recorder:
    """Sees to it that what fires leaves a record."""

    board: Board
    archivist: Archivist
    herald: Herald
    state_directory: str
    records: int = 0
    # What could not be made, by the root of the project.
    problems: dict[str, str] = field(default_factory=dict)
    _running: set[str] = field(default_factory=set)
    _retry_at: dict[str, float] = field(default_factory=dict)
    _tries: dict[str, int] = field(default_factory=dict)
    # Sessions that were handed off and may go on: how many requests they had then.
    _left_at: dict[str, int] = field(default_factory=dict)
    # Ended sessions whose tracks are known to be handed off.
    _handed_off: set[str] = field(default_factory=set)

    async def look(self) -> None:
        """See what fires, make the records that are due, and send what waits."""
        for part in (self.herald.look, self._make_due, self._hand_off, self._take_back, self._send):
            try:
                await part()
            except Exception as problem:  # noqa: BLE001  one part must not stop the others
                log.failed("records_failed", problem, part=part.__name__)

    # What is pending

    async def _make_due(self) -> None:
        """Make what is pending: of a project's several the most important last, as the newest."""
        if not self.herald.news:
            return
        pending = self.board.core.ledger.pending()
        self.herald.news = bool(pending)
        by_project: dict[str, list[Firing]] = {}
        for firing in pending:
            if self._is_due(firing):
                by_project.setdefault(firing.project_id, []).append(firing)
        for firings in by_project.values():
            firings.sort(key=_importance)
            kept = [firing for firing in firings if not self._is_covered(firing, firings[0])]
            for firing in reversed(kept):
                await self._make(firing)

    def _is_due(self, firing: Firing) -> bool:
        if firing.cause in self._running or _is_taken(firing) or firing.trigger not in TRIGGERS:
            return False
        return clock.monotonic() >= self._retry_at.get(firing.cause, 0.0)

    def _is_covered(self, firing: Firing, first: Firing) -> bool:
        """Tell a trigger that a more important one of the same moment makes needless."""
        # What a person asked for says more than a trigger: it has a record of its own.
        if firing is first or firing.bead or firing.receipt == ASKED or firing.request.get("name"):
            return False
        if firing.session_id not in ("", first.session_id):
            return False
        if self._track_of(firing) not in ("", self._track_of(first)):
            return False
        self.board.core.ledger.settle(firing.cause, {"covered_by": first.trigger})
        return True

    def _track_of(self, firing: Firing) -> str:
        named: str = firing.request.get("track", "") or firing.request.get("words", "")
        return named or self.board.core.ledger.track_of(firing.session_id)

    async def _make(self, firing: Firing) -> None:
        """Make the record of a trigger; where that fails it is tried again later."""
        project = self.board.projects.by_id(firing.project_id)
        if project is None or not self.herald.is_ours(project):
            self.board.core.ledger.settle(firing.cause, {"skipped": "the project is left alone"})
            return
        if reason := self._is_needless(firing):
            left = await self._leave(self._stored(firing.session_id), firing)
            self.board.core.ledger.settle(firing.cause, {"skipped": reason, "contract": left})
            return
        request = replace(request_of(firing.request), trigger=firing.trigger)
        # What a person chose about parallel workers, or has yet to choose, is theirs.
        if firing.receipt != ASKED or request.name:
            request = replace(request, if_parallel="include")
        try:
            found = await self._run(project, firing, request, lambda _step: None)
        except Exception as problem:  # noqa: BLE001  one project must not stop the others
            self._failed(firing, log.why(problem))
            return
        failed = [step["text"] for step in found["steps"] if step["outcome"] == FAILED]
        if failed and any(firing.cause == kept.cause for kept in self.board.core.ledger.pending()):
            self._failed(firing, failed[0])
            return
        self.problems.pop(project.root.path, None)
        self._retry_at.pop(firing.cause, None)
        self._tries.pop(firing.cause, None)
        await self._notify(project, found)

    def _is_needless(self, firing: Firing) -> str:
        """Return why a trigger leaves no record, only the contract."""
        if self.board.gate.config.tracks.write == "none" and firing.receipt != ASKED:
            return "records are switched off ([tracks] write)"
        state = self._stored(firing.session_id)
        if firing.trigger == idle.NAME and state and firing.receipt != ASKED:
            if state.headless:
                return "a program's run leaves no record when it is over"
            if not is_worth(state):
                return "the session did nothing that is to be handed off"
        return ""

    def _failed(self, firing: Firing, why: str) -> None:
        root = self.board.core.project_root(firing.project_id) or ""
        self.problems[root] = f"{firing.trigger}: {why}"
        log.get().warning("record_failed", cause=firing.cause, why=why)
        tries = self._tries[firing.cause] = self._tries.get(firing.cause, 0) + 1
        pause = min(RETRY_SECONDS * 2 ** (tries - 1), RETRY_MOST_SECONDS)
        self._retry_at[firing.cause] = clock.monotonic() + pause

    async def _notify(self, project: Project, found: dict[str, Any]) -> None:
        if self.board.gate.config.triggers.notify and found["file"]:
            name = os.path.basename(project.root.path)
            text = f"{name}: {found['track']}, {found['progress']['percent']}%"
            await asyncio.to_thread(desktop.notify, f"Handoff ({found['trigger']})", text)

    # What somebody asks for

    async def create(
        self, project: Project, state: SessionState | None, request: Request, tell: Tell
    ) -> dict[str, Any]:
        """Make a record because somebody asks for it."""
        firing = asked(project.id, state, request)
        self.board.core.ledger.fire(firing)
        return await self._run(project, firing, request, tell, state)

    async def preview(
        self, project: Project, state: SessionState | None, request: Request
    ) -> dict[str, Any]:
        from handoffd.workflow.create import preview  # noqa: PLC0415  needed by few

        return await self.ask(
            project, state, lambda ports: preview(ports, request, lambda _step: None)
        )

    async def resume(
        self, project: Project, state: SessionState | None, wanted: Wanted, tell: Tell
    ) -> dict[str, Any]:
        """Take up a track; to implement it, the start of its epic is recorded as well."""
        from handoffd.workflow.resume import resume  # noqa: PLC0415  needed by few

        found = await self.ask(project, state, lambda ports: resume(ports, wanted, tell))
        if wanted.implement and found["track"] and not found["choice"]:
            firing, request = implementing(self.board.core, project.id, state, found)
            if self.board.core.ledger.fire(firing):
                found["handoff"] = await self._run(project, firing, request, tell, state)
            else:
                found["handoff_skipped"] = RECORDED
        return implemented(found)

    # How it is done

    async def _run(
        self,
        project: Project,
        firing: Firing,
        request: Request,
        tell: Tell,
        state: SessionState | None = None,
    ) -> dict[str, Any]:
        """Make a record in a thread, leave the contract, and enter what came of it."""
        from handoffd.workflow.create import create  # noqa: PLC0415  needed by few

        self._running.add(firing.cause)
        try:
            state = state or self._stored(firing.session_id)
            found = await self.ask(
                project, state, lambda ports: create(ports, request, tell, firing.cause)
            )
            found["contract"] = await self._leave(state, firing) if is_made(found) else ""
            settle(self.board.core, firing, found)
            self.records += bool(found["file"])
            if state and found["status"] == "handed_off":
                self._left_at[state.session_id] = state.prompts
        finally:
            self._running.discard(firing.cause)
            self.herald.news = True
        return found

    def _stored(self, session_id: str) -> SessionState | None:
        stored = self.board.state.session(session_id) if session_id else None
        return load(stored.fold) if stored else None

    async def _leave(self, state: SessionState | None, firing: Firing) -> str:
        """Leave the session's contract, too; returns its path, or nothing."""
        if state is None or not state.session_id:
            return ""
        async with self.archivist.busy:
            done = await self.archivist.leave(state.session_id, ended=firing.trigger == idle.NAME)
        left = self.board.core.contract(state.session_id)
        return done.handoff.path if done else left.path if left else ""

    async def ask(
        self, project: Project, state: SessionState | None, act: Callable[[Ports], T]
    ) -> T:
        """Ask or do something about a project's records, in a thread with a store of its own."""
        told = await self.archivist.told(project, state) if state and state.records else None
        lanes = [lane.state.session_id for lane in self.board.lanes(project.id) if lane.live]
        live = state.session_id in lanes if state else bool(lanes)
        session = Session(state, live, told)
        return await asyncio.to_thread(
            self._with_store,
            lambda core, links: act(Ports(project.root.path, project.id, core, links, session)),
        )

    def _with_store(self, act: Callable[[CoreStore, Links], T]) -> T:
        # The daemon waits for its threads when it stops.
        core = CoreStore(f"{self.state_directory}/core.db", LOOP_BUSY_SECONDS)
        try:
            return act(core, links_of(self.board.gate.config, self.state_directory))
        finally:
            core.close()

    async def _hand_off(self) -> None:
        """Say of the tracks of ended sessions that they were handed off."""
        ended = set(self.board.ended)
        self._handed_off &= ended
        for session_id in ended - self._handed_off:
            stored = self.board.state.session(session_id)
            project = self.board.projects.by_id(stored.project_id or "") if stored else None
            ledger = self.board.core.ledger
            tracks = {ledger.track_of(session_id), *ledger.tracks_told(session_id)} - {"", GENERAL}
            done = True
            for track_id in tracks if project and self.herald.is_ours(project) else ():
                if project and not self._is_shared(session_id, project, track_id):
                    done &= await asyncio.to_thread(
                        set_status, project.root.path, track_id, "handed_off"
                    )
            if done:
                self._handed_off.add(session_id)

    def _is_shared(self, session_id: str, project: Project, track_id: str) -> bool:
        """Tell whether another session goes on with a track."""
        others = (lane.state.session_id for lane in self.board.lanes(project.id) if lane.live)
        return any(other != session_id and self._track_told(other) == track_id for other in others)

    def _track_told(self, session_id: str) -> str:
        """Return the track that a session works on: as it said, or as its last record does."""
        ledger = self.board.core.ledger
        return ledger.track_of(session_id) or next(iter(ledger.tracks_told(session_id)), "")

    async def _take_back(self) -> None:
        """Say of the tracks of sessions that went on after all that they are active."""
        for session_id, prompts in list(self._left_at.items()):
            known = self.archivist.watched.get(session_id)
            if known is None:  # silent for a day
                del self._left_at[session_id]
            if known is None or known.over:  # it has said nothing since
                continue
            stored = self.board.state.session(session_id)
            project = self.board.projects.by_id(stored.project_id or "") if stored else None
            if stored is None or project is None:
                del self._left_at[session_id]
            elif session_id not in self.board.ended and load(stored.fold).prompts > prompts:
                track_id = self._track_told(session_id)
                if track_id not in ("", GENERAL) and self.herald.is_ours(project):
                    await asyncio.to_thread(set_status, project.root.path, track_id, "active")
                del self._left_at[session_id]

    async def _send(self) -> None:
        if not self.board.core.outbox.due(clock.wall(), 1):
            return
        await asyncio.to_thread(
            self._with_store,
            lambda core, links: deliver(core.outbox, links.deliverers(), clock.wall()),
        )


def _importance(firing: Firing) -> int:
    return TRIGGERS.index(firing.trigger)


def _is_taken(firing: Firing) -> bool:
    """Tell what another living process is making right now."""
    pid = firing.request.get("pid")
    recent = clock.wall() - clock.parse(firing.fired_at) < TAKEN_SECONDS
    if not isinstance(pid, int) or pid == os.getpid() or not recent:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def links_of(config: Config, state_directory: str) -> Links:
    mail = Mail(config.mail.url, config.mail.token_file, f"{state_directory}/mail")
    program = BeadsProgram(config.beads.command, config.beads.confine)
    return Links(mail, program, config.tracks.general)


def set_status(root: str, track_id: str, status: str) -> bool:
    """Set a track's status for a session that ended, or goes on; False: try again.

    What is wrong with the file itself is told when a record is made.
    """
    conductor = Conductor(root)
    try:
        with conductor.locked(track_id):
            conductor.change_metadata(track_id, lambda text: metadata.with_status(text, status))
    except (OSError, BusyError):
        return False
    except HandoffError as problem:
        log.get().warning("status_failed", track=track_id, why=problem.title)
    return True
