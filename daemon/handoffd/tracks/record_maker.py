"""Makes track records: on request, and for every pending trigger.

A trigger is in the ledger before any work for it begins, and is pending until its record is made:
after a kill the work is taken up again, under the same file name.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from handoff.common.errors import HandoffError
from handoff.common.triggers import IDLE, TRIGGERS
from handoffd.config import Config, LiveConfig
from handoffd.contract.composition import is_worth
from handoffd.contract.contract_writer import ContractWriter
from handoffd.fs.files import BusyError
from handoffd.links import desktop
from handoffd.links.agent_mail import AgentMail
from handoffd.links.trackers import tracker_at
from handoffd.projects.project_state import ProjectStates
from handoffd.projects.registry import Project, ProjectRegistry
from handoffd.projects.stored_sessions import state_of
from handoffd.runtime import clock, log
from handoffd.session.state import SessionState
from handoffd.store.core import CoreStore
from handoffd.store.ledger import Firing
from handoffd.store.state import SessionStore
from handoffd.tracks import metadata
from handoffd.tracks.conductor_directory import ConductorDirectory
from handoffd.tracks.create import create, preview
from handoffd.tracks.create_state import CreateRequest, request_of
from handoffd.tracks.outbox_sender import deliver
from handoffd.tracks.outcome import ASKED, is_made, store_outcome
from handoffd.tracks.record import GENERAL
from handoffd.tracks.resume_state import ResumeRequest
from handoffd.tracks.steps import FAILED, Tell
from handoffd.tracks.work_context import HandedOffSession, Links, WorkContext

LOOK_SECONDS = 10.0
RETRY_SECONDS, RETRY_MOST_SECONDS = 60.0, 3600.0
# Another process that began to make a record has this long to finish it.
TAKEN_SECONDS = 600.0
HANDED_OFF_MAX = 1000
T = TypeVar("T")


@dataclass(slots=True)
class RecordMaker:
    """Makes a record for every trigger, and keeps the status of tracks current."""

    core: CoreStore
    sessions: SessionStore
    config: LiveConfig
    projects: ProjectRegistry
    project_states: ProjectStates
    contract_writer: ContractWriter
    records: int = 0
    # Why a record could not be made, by the root of the project.
    problems: dict[str, str] = field(default_factory=dict)
    _running: set[str] = field(default_factory=set)
    _retry_at: dict[str, float] = field(default_factory=dict)
    _tries: dict[str, int] = field(default_factory=dict)
    # Sessions that were handed off and may go on: the number of their prompts at that time.
    _handed_off_at: dict[str, int] = field(default_factory=dict)
    # Those of them that went on, whose tracks are not set to active yet.
    _went_on: set[str] = field(default_factory=set)
    # Ended sessions whose tracks are already marked as handed off.
    _handed_off: set[str] = field(default_factory=set)

    async def look(self) -> None:
        """Make the records that are due, update the status of tracks, and send waiting letters."""
        for part in (
            self._make_due,
            self._mark_handed_off,
            self._reactivate,
            self._send,
        ):
            try:
                await part()
            except Exception as problem:  # noqa: BLE001  one part must not stop the others
                log.failed("records_failed", problem, part=part.__name__)

    # Pending triggers

    async def _make_due(self) -> None:
        """Make the pending records; per project the most important one last, as the newest."""
        if not self.core.ledger.has_news:
            return
        pending = self.core.ledger.pending()
        self.core.ledger.has_news = bool(pending)
        by_project: dict[str, list[Firing]] = {}
        for firing in pending:
            if self._is_due(firing):
                by_project.setdefault(firing.project_id, []).append(firing)
        for firings in by_project.values():
            firings.sort(key=_priority)
            kept = [firing for firing in firings if not self._is_covered(firing, firings[0])]
            for firing in reversed(kept):
                await self._make(firing)

    def _is_due(self, firing: Firing) -> bool:
        if (
            firing.cause in self._running
            or _is_made_elsewhere(firing)
            or firing.trigger not in TRIGGERS
        ):
            return False
        return clock.monotonic() >= self._retry_at.get(firing.cause, 0.0)

    def _is_covered(self, firing: Firing, first: Firing) -> bool:
        """Return True if a more important trigger of the same moment makes this one needless."""
        # A person's request says more than a trigger: it gets a record of its own.
        if firing is first or firing.bead or firing.receipt == ASKED or firing.request.get("name"):
            return False
        if firing.session_id not in ("", first.session_id):
            return False
        if self._track_of(firing) not in ("", self._track_of(first)):
            return False
        self.core.ledger.set_outcome(firing.cause, {"covered_by": first.trigger})
        return True

    def _track_of(self, firing: Firing) -> str:
        named: str = firing.request.get("track", "") or firing.request.get("words", "")
        return named or self.core.ledger.track_of(firing.session_id)

    async def _make(self, firing: Firing) -> None:
        """Make the record of a trigger; a failure is retried later."""
        project = self.projects.by_id(firing.project_id)
        if project is None or not self.project_states.may_write_unasked(project):
            self.core.ledger.set_outcome(firing.cause, {"skipped": "the project is left alone"})
            return
        if reason := self._skip_reason(firing):
            path = await self._write_contract(self._stored_session(firing.session_id), firing)
            self.core.ledger.set_outcome(firing.cause, {"skipped": reason, "contract": path})
            return
        request = replace(request_of(firing.request), trigger=firing.trigger)
        # A person's choice about parallel workers, made or still open, is respected.
        if firing.receipt != ASKED or request.name:
            request = replace(request, if_parallel="include")
        try:
            if request.implement and not request.name:
                wanted = ResumeRequest(request.track, framed=True)
                session = self._stored_session(firing.session_id)
                await self.resume(project, session, wanted, lambda _step: None)
            found = await self.make(project, firing, request, lambda _step: None)
        except Exception as problem:  # noqa: BLE001  one project must not stop the others
            self._note_failure(firing, log.why(problem))
            return
        failed = [step["text"] for step in found["steps"] if step["outcome"] == FAILED]
        if failed and any(firing.cause == kept.cause for kept in self.core.ledger.pending()):
            self._note_failure(firing, failed[0])
            return
        self.problems.pop(project.root.path, None)
        self._retry_at.pop(firing.cause, None)
        self._tries.pop(firing.cause, None)
        await self._notify(project, found)

    def _skip_reason(self, firing: Firing) -> str:
        """Return why a trigger makes no record, only a contract; empty if it makes one."""
        if self.config.current.tracks.write == "none" and firing.receipt != ASKED:
            return "records are switched off ([tracks] write)"
        state = self._stored_session(firing.session_id)
        if firing.trigger == IDLE and state and firing.receipt != ASKED:
            if state.headless:
                return "a program's run leaves no record when it is over"
            if not is_worth(state):
                return "the session did nothing that is to be handed off"
        return ""

    def _note_failure(self, firing: Firing, why: str) -> None:
        root = self.core.project_root(firing.project_id) or ""
        self.problems[root] = f"{firing.trigger}: {why}"
        log.get().warning("record_failed", cause=firing.cause, why=why)
        tries = self._tries[firing.cause] = self._tries.get(firing.cause, 0) + 1
        pause = min(RETRY_SECONDS * 2 ** (tries - 1), RETRY_MOST_SECONDS)
        self._retry_at[firing.cause] = clock.monotonic() + pause

    async def _notify(self, project: Project, found: dict[str, Any]) -> None:
        if self.config.current.triggers.notify and found["file"]:
            name = os.path.basename(project.root.path)
            text = f"{name}: {found['track']}, {found['progress']['percent']}%"
            await asyncio.to_thread(desktop.notify, f"Handoff ({found['trigger']})", text)

    # On request

    async def preview(
        self, project: Project, state: SessionState | None, request: CreateRequest
    ) -> dict[str, Any]:
        return await self.ask(
            project, state, lambda work: preview(work, request, lambda _step: None)
        )

    async def resume(
        self, project: Project, state: SessionState | None, wanted: ResumeRequest, tell: Tell
    ) -> dict[str, Any]:
        """Resume a track where it was left."""
        from handoffd.tracks.resume import resume  # noqa: PLC0415  needed by few

        return await self.ask(project, state, lambda work: resume(work, wanted, tell))

    # The work itself

    async def make(
        self,
        project: Project,
        firing: Firing,
        request: CreateRequest,
        tell: Tell,
        state: SessionState | None = None,
    ) -> dict[str, Any]:
        """Make a record in a thread, write the contract, and store the outcome in the ledger."""
        self._running.add(firing.cause)
        try:
            state = state or self._stored_session(firing.session_id)
            found = await self.ask(
                project, state, lambda work: create(work, request, tell, firing.cause)
            )
            found["contract"] = await self._write_contract(state, firing) if is_made(found) else ""
            store_outcome(self.core, firing, found)
            self.records += bool(found["file"])
            if state and found["status"] == "handed_off":
                self._note_handed_off(state)
        finally:
            self._running.discard(firing.cause)
            self.core.ledger.has_news = True
        return found

    def _note_handed_off(self, state: SessionState) -> None:
        self._handed_off_at[state.session_id] = state.prompts
        # Prompts that came while the record was made were announced before this.
        now = self._stored_session(state.session_id)
        if now is not None and now.prompts > state.prompts:
            self._went_on.add(state.session_id)
        while len(self._handed_off_at) > HANDED_OFF_MAX:
            del self._handed_off_at[next(iter(self._handed_off_at))]

    def _stored_session(self, session_id: str) -> SessionState | None:
        stored = self.sessions.session(session_id) if session_id else None
        return state_of(stored) if stored else None

    async def _write_contract(self, state: SessionState | None, firing: Firing) -> str:
        """Write the session's contract. Return its path, or an empty text if there is none."""
        if state is None or not state.session_id:
            return ""
        async with self.contract_writer.busy:
            done = await self.contract_writer.write(state.session_id, ended=firing.trigger == IDLE)
        stored = self.core.contract(state.session_id)
        return done.handoff.path if done else stored.path if stored else ""

    async def ask(
        self, project: Project, state: SessionState | None, act: Callable[[WorkContext], T]
    ) -> T:
        """Run a function on a project's records, in a thread with a store of its own."""
        contract = None
        if state and state.records:
            contract = await self.contract_writer.compose(project, state)
        lanes = [
            lane.state.session_id for lane in self.project_states.lanes(project.id) if lane.live
        ]
        live = state.session_id in lanes if state else bool(lanes)
        session = HandedOffSession(state, live, contract)
        return await asyncio.to_thread(
            self._with_store,
            lambda core, links: act(
                WorkContext(project.root.path, project.id, core, links, session)
            ),
        )

    def _with_store(self, act: Callable[[CoreStore, Links], T]) -> T:
        # The daemon waits for its threads when it stops, so they wait no longer than it does.
        core = CoreStore(self.core.path, self.core.busy_seconds)
        try:
            return act(core, _links(self.config.current, os.path.dirname(core.path)))
        finally:
            core.close()

    async def _mark_handed_off(self) -> None:
        """Set the status of the tracks of ended sessions to handed_off."""
        ended = set(self.project_states.ended)
        self._handed_off &= ended
        for session_id in ended - self._handed_off:
            stored = self.sessions.session(session_id)
            project = self.projects.by_id(stored.project_id or "") if stored else None
            ledger = self.core.ledger
            tracks = {ledger.track_of(session_id), *ledger.recorded_tracks(session_id)} - {
                "",
                GENERAL,
            }
            done = True
            for track_id in (
                tracks if project and self.project_states.may_write_unasked(project) else ()
            ):
                if project and not self._is_shared(session_id, project, track_id):
                    done &= await asyncio.to_thread(
                        set_status, project.root.path, track_id, "handed_off"
                    )
            if done:
                self._handed_off.add(session_id)

    def _is_shared(self, session_id: str, project: Project, track_id: str) -> bool:
        """Return True if another live session works on a track."""
        others = (
            lane.state.session_id for lane in self.project_states.lanes(project.id) if lane.live
        )
        return any(
            other != session_id and self._track_of_session(other) == track_id for other in others
        )

    def _track_of_session(self, session_id: str) -> str:
        """Return the track that a session works on: as bound, or else by its last record."""
        ledger = self.core.ledger
        return ledger.track_of(session_id) or next(iter(ledger.recorded_tracks(session_id)), "")

    def session_changed(self, state: SessionState, _project_id: str, _last_seconds: float) -> None:
        """Note a session that was handed off and goes on after all."""
        handed_off_at = self._handed_off_at.get(state.session_id)
        if handed_off_at is not None and state.prompts > handed_off_at:
            self._went_on.add(state.session_id)

    async def _reactivate(self) -> None:
        """Set the tracks of sessions that went on after all to active."""
        for session_id in list(self._went_on):
            if session_id in self.project_states.ended:
                self._went_on.discard(session_id)  # it may go on once more
                continue
            stored = self.sessions.session(session_id)
            project = self.projects.by_id(stored.project_id or "") if stored else None
            track_id = self._track_of_session(session_id) if project else ""
            is_track = track_id not in ("", GENERAL)
            if project and is_track and self.project_states.may_write_unasked(project):
                await asyncio.to_thread(set_status, project.root.path, track_id, "active")
            self.forget(session_id)

    def forget(self, session_id: str) -> None:
        """Drop all that is kept of a session in memory."""
        self._went_on.discard(session_id)
        self._handed_off_at.pop(session_id, None)

    async def _send(self) -> None:
        if not self.core.outbox.due(clock.wall(), 1):
            return
        await asyncio.to_thread(
            self._with_store,
            lambda core, links: deliver(core.outbox, links.deliverers(), clock.wall()),
        )


def _priority(firing: Firing) -> int:
    return TRIGGERS.index(firing.trigger)


def _is_made_elsewhere(firing: Firing) -> bool:
    """Return True if another living process is making this record right now."""
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


def _links(config: Config, state_directory: str) -> Links:
    mail = AgentMail(config.mail.url, config.mail.token_file, f"{state_directory}/mail")
    return Links(mail, partial(tracker_at, config=config), config.tracks.general)


def set_status(root: str, track_id: str, status: str) -> bool:
    """Set a track's status for a session that ended or goes on. Return False to try again.

    An invalid file is only logged here; the next record of the track reports it.
    """
    conductor = ConductorDirectory(root)
    try:
        with conductor.locked(track_id):
            conductor.change_metadata(track_id, lambda text: metadata.with_status(text, status))
    except (OSError, BusyError):
        return False
    except HandoffError as problem:
        log.get().warning("status_failed", track=track_id, why=problem.title)
    return True
