"""Track which sessions are active, idle or over, and write a session's handoff on a change.

A session is over when its hook reports the end, when its client's process is gone, or when the
client has changed to another session; it is idle after a silence. Each session has one handoff,
which is updated; a second one is never written.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from handoffd.agents.agent import RunningClient
from handoffd.agents.registry import running_clients
from handoffd.contract.contract_writer import ContractWriter
from handoffd.fs import mounts
from handoffd.projects.project_state import ProjectStates
from handoffd.projects.stored_sessions import state_of
from handoffd.runtime import clock, log
from handoffd.session.state import SessionState
from handoffd.store.state import StateStore
from handoffd.triggers.trigger_detector import TriggerDetector

LOOK_SECONDS = 5.0
CLAIMS_SECONDS = 1.0
# With a look every five seconds, a handoff is written within a minute of the last record.
QUIET_SECONDS = 50.0
RETRY_SECONDS = 60.0
Claims = dict[str, RunningClient]


@dataclass(slots=True)
class WatchedSession:
    """A session whose handoff may be due; `heard_at` and `first_at` are wall clock times."""

    project_id: str
    heard_at: float
    first_at: float
    # The time of its last record by the clock since boot, which cannot be set.
    heard_since_boot: float = 0.0
    compactions: int = 0
    headless: bool = False
    # There are records that the handoff does not cover yet.
    due: bool = True
    compacted: bool = False
    # A client was seen to run it, and the answer that this client waited for.
    claimed: bool = False
    waiting_for: str = ""
    # Since its last record it was treated as over, and was found idle.
    over: bool = False
    idle: bool = False
    retry_at: float = 0.0

    @property
    def silent_seconds(self) -> float:
        return clock.since_boot() - self.heard_since_boot


@dataclass(slots=True)
class SessionLiveness:
    """Tracks the active sessions, and lets the ContractWriter write a handoff for each."""

    state: StateStore
    project_states: ProjectStates
    contract_writer: ContractWriter
    trigger_detector: TriggerDetector
    # The roots of the transcripts, beside which clients claim the sessions that they run.
    roots: Callable[[], list[str]]
    watched: dict[str, WatchedSession] = field(default_factory=dict)
    problem: str = ""
    # The clients' claims, and the time at which they were read.
    _read_claims: tuple[float, Claims | None] = (float("-inf"), None)

    def session_changed(self, state: SessionState, project_id: str, last_seconds: float) -> None:
        """Note that a session has new records."""
        known = self.watched.get(state.session_id)
        if known is None:
            first = clock.parse(state.first_time)
            known = WatchedSession(
                project_id, 0.0, first, compactions=state.compactions, headless=state.headless
            )
            if clock.wall() - last_seconds < LOOK_SECONDS:
                # Its client may be gone before the next look.
                known.claimed = state.session_id in (self._claims() or ())
            self.watched[state.session_id] = known
        known.project_id = project_id
        known.heard_at = last_seconds
        last_record = clock.since_boot() - max(clock.wall() - last_seconds, 0.0)
        known.heard_since_boot = max(known.heard_since_boot, last_record)
        known.compacted = known.compacted or state.compactions > known.compactions
        known.compactions = state.compactions
        known.due, known.over, known.idle = True, False, False
        known.waiting_for = ""
        # A record from before the session's end that arrives late does not revive the session.
        end = self.project_states.ended.get(state.session_id)
        if end is None or last_seconds > end.at:
            self.project_states.revive(state.session_id)

    def forget(self, session_id: str) -> None:
        self.watched.pop(session_id, None)
        self.project_states.revive(session_id)
        self.project_states.waiting.pop(session_id, None)

    def end(self, session_id: str, project_id: str, how: str = "") -> None:
        """Note that a session's client is gone, and how, if that was seen."""
        self.project_states.end(session_id, how)
        self.project_states.touch(project_id)

    async def look(self) -> None:
        """Write the handoffs that are due, the oldest session first, so that the newest wins."""
        # The clients' claims matter only if a session may still continue.
        open_ones = any(known.due or not known.over for known in self.watched.values())
        claims = self._claims(fresh=True) if open_ones else None
        for session_id, known in sorted(self.watched.items(), key=lambda item: item[1].heard_at):
            if clock.monotonic() >= known.retry_at:
                await self._look_safely(session_id, known, claims)
            await asyncio.sleep(0)  # the socket is answered between two sessions

    def _claims(self, *, fresh: bool = False) -> Claims | None:
        """Return the clients' claims to sessions, or None if they cannot be read.

        They are cached, because many callers may ask within a second.
        """
        read_at, found = self._read_claims
        now = clock.monotonic()
        if fresh or now - read_at > CLAIMS_SECONDS:
            # A few small files beside the transcripts: a thread would cost several wake-ups.
            roots = self.roots()
            found = running_clients(roots) if all(map(mounts.answers, roots)) else None
            self._read_claims = now, found
        return found

    async def _look_safely(
        self, session_id: str, known: WatchedSession, claims: Claims | None
    ) -> None:
        """Look at a session; if its handoff cannot be written, try again later."""
        before = known.due, known.over, known.idle, known.compacted
        try:
            if await self._write_if_due(session_id, known, claims):
                self.problem = ""
        except Exception as problem:  # noqa: BLE001  one session must not stop the others
            self.problem = log.why(problem)
            log.get().warning("contract_failed", session=session_id, why=self.problem)
            known.due, known.over, known.idle, known.compacted = before
            known.retry_at = clock.monotonic() + RETRY_SECONDS

    async def _write_if_due(
        self, session_id: str, known: WatchedSession, claims: Claims | None
    ) -> bool:
        """Write a session's handoff if it is due, and return True if it was."""
        silent_seconds = known.silent_seconds
        claim = claims.get(session_id) if claims else None
        ended = session_id in self.project_states.ended
        if claim is not None and not ended:
            if known.waiting_for and not claim.waiting_for:  # a person has answered
                self.project_states.waiting.pop(session_id, None)
                self.project_states.touch(known.project_id, git_too=False)
            known.claimed, known.waiting_for = True, claim.waiting_for
        if not ended and claims is not None and self._has_ended(session_id, known, claims):
            ended = True
            if claim and claim.alive:  # the client waits for an answer in another session now
                known.waiting_for = ""
            # A client that ends by itself deletes its claim; a killed one leaves it behind.
            killed = claim is not None and not claim.alive
            self.end(session_id, known.project_id, "killed" if killed else "")
        if not known.idle:
            known.idle = self._is_idle(session_id, known, claim)
        quiet = silent_seconds >= QUIET_SECONDS and not (claim and claim.alive)
        over = known.idle or ended or (quiet and known.headless)
        has_changed = known.due and (over or quiet or known.compacted)
        wanted = has_changed or (over and not known.over)
        if wanted:
            known.due, known.compacted, known.over = False, False, over
            async with self.contract_writer.busy:
                await self.contract_writer.write(
                    session_id, ended=over, waiting_for=known.waiting_for
                )
        if silent_seconds > clock.DAY_SECONDS:
            self.forget(session_id)
        return wanted

    def _has_ended(self, session_id: str, known: WatchedSession, claims: Claims) -> bool:
        """Return True if a session's client is gone, or has changed to another session.

        After `/clear` the client continues with a new session, but claims the old one forever.
        """
        claim = claims.get(session_id)
        if claim is None or not claim.alive:
            return known.claimed
        return any(
            other.project_id == known.project_id
            and name not in claims
            and not other.headless
            and other.first_at > known.heard_at
            for name, other in self.watched.items()
        )

    def _is_idle(self, session_id: str, known: WatchedSession, claim: RunningClient | None) -> bool:
        """Return True if a session is idle; a tool call in a living client counts as activity."""
        if not self.trigger_detector.is_silent(known.project_id, known.silent_seconds):
            return False
        # A client that waits for a person does no work.
        busy = claim is not None and claim.alive and not claim.waiting_for
        if busy and self._has_open_calls(session_id):
            return False
        self.trigger_detector.fire_idle(
            session_id, known.project_id, known.first_at, known.heard_at
        )
        return True

    def _has_open_calls(self, session_id: str) -> bool:
        stored = self.state.session(session_id)
        return stored is not None and bool(state_of(stored).calls)
