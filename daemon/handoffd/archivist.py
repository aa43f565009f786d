"""Writes what each session leaves behind: its contract, at every trigger and three occasions.

The occasions are the end of a session, a compaction, and a client that died: seen by its
process, or by silence. A session's own handoff is updated, never a second one added.
"""

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from handoffd import clock, log, mounts
from handoffd.board import Board
from handoffd.handoffs import leaving, shelf
from handoffd.handoffs.account import Surroundings, account, is_worth
from handoffd.handoffs.contract import Contract, Theirs, written_path
from handoffd.handoffs.lanes import contested
from handoffd.handoffs.leaving import Leaving, Plan, Tell, Worker
from handoffd.herald import Herald
from handoffd.links import git
from handoffd.projects import Project
from handoffd.redaction.redact import known_kinds
from handoffd.session.state import SessionState
from handoffd.session.storage import load
from handoffd.sources import processes
from handoffd.sources.processes import Claim
from handoffd.store.core import Left
from handoffd.store.ledger import Firing
from handoffd.triggers import manual

LOOK_SECONDS = 5.0
CLAIMS_SECONDS = 1.0
# With a look every five seconds, a handoff is there within a minute of the last record.
QUIET_SECONDS = 50.0
RETRY_SECONDS = 60.0
SCANNED_MAX = 256
Claims = dict[str, Claim]
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


@dataclass(slots=True)
class Watched:
    """A session whose handoff may be due; times are those of the wall clock."""

    project_id: str
    heard_at: float
    first_at: float
    # When it was heard, by a clock that nobody sets.
    heard_boot: float = 0.0
    compactions: int = 0
    headless: bool = False
    # Something happened that the handoff does not say yet.
    due: bool = True
    compacted: bool = False
    # A client was seen to run it, and what it waited for then.
    claimed: bool = False
    waiting_for: str = ""
    # It was taken for ended, and found idle, since it was last heard.
    over: bool = False
    idle: bool = False
    retry_at: float = 0.0

    @property
    def silent_seconds(self) -> float:
        return clock.since_boot() - self.heard_boot


@dataclass(slots=True)
class Archivist:
    """Knows the sessions that are at work, and leaves a handoff for each."""

    board: Board
    herald: Herald
    # The Claude config directories, where clients say which sessions they run.
    config_dirs: Callable[[], list[str]]
    watched: dict[str, Watched] = field(default_factory=dict)
    writes: int = 0
    problem: str = ""
    _secrets: dict[str, list[str]] = field(default_factory=dict)
    # When it was last asked who runs what, and the answer.
    _asked: tuple[float, Claims | None] = (float("-inf"), None)
    # Held by whoever writes, or erases, handoffs.
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def base(self) -> str:
        return shelf.shelves(self.board.gate.config.contract.directory)

    def heard(self, state: SessionState, project_id: str, last_seconds: float) -> None:
        """Take note that a session went on."""
        known = self.watched.get(state.session_id)
        if known is None:
            first = clock.parse(state.first_time)
            known = Watched(
                project_id, 0.0, first, compactions=state.compactions, headless=state.headless
            )
            if clock.wall() - last_seconds < LOOK_SECONDS:
                # Its client may be gone before the next look.
                known.claimed = state.session_id in (self._claims() or ())
            self.watched[state.session_id] = known
        known.project_id = project_id
        known.heard_at = last_seconds
        spoke = clock.since_boot() - max(clock.wall() - last_seconds, 0.0)
        known.heard_boot = max(known.heard_boot, spoke)
        known.compacted = known.compacted or state.compactions > known.compactions
        known.compactions = state.compactions
        known.due, known.over, known.idle = True, False, False
        known.waiting_for = ""
        # What was on its way when the session ended is no new life.
        if last_seconds > self.board.ended.get(state.session_id, 0.0):
            self.board.revive(state.session_id)

    def forget(self, session_id: str) -> None:
        self.watched.pop(session_id, None)
        self.board.revive(session_id)
        self.board.waiting.pop(session_id, None)

    def end(self, session_id: str, project_id: str) -> None:
        """Take note that a session's client is gone."""
        self.board.end(session_id)
        self.board.touch(project_id)

    async def look(self) -> None:
        """Write what is due: the session that spoke first, first, so that the last one wins."""
        # Who runs what matters only where a session may still go on.
        open_ones = any(known.due or not known.over for known in self.watched.values())
        claims = self._claims(fresh=True) if open_ones else None
        for session_id, known in sorted(self.watched.items(), key=lambda item: item[1].heard_at):
            if clock.monotonic() >= known.retry_at:
                await self._try(session_id, known, claims)
            await asyncio.sleep(0)  # the socket is answered between two sessions

    def _claims(self, *, fresh: bool = False) -> Claims | None:
        """Return who runs what, or None where that cannot be seen; many may ask within a second."""
        asked_at, found = self._asked
        now = clock.monotonic()
        if fresh or now - asked_at > CLAIMS_SECONDS:
            # A few small files beside the transcripts: a thread would cost several wake-ups.
            places = self.config_dirs()
            found = processes.running(places) if all(map(mounts.answers, places)) else None
            self._asked = now, found
        return found

    async def _try(self, session_id: str, known: Watched, claims: Claims | None) -> None:
        """Look at a session; where its handoff cannot be written it is tried again later."""
        before = known.due, known.over, known.idle, known.compacted
        try:
            if await self._look_at(session_id, known, claims):
                self.problem = ""
        except Exception as problem:  # noqa: BLE001  one session must not stop the others
            self.problem = log.why(problem)
            log.get().warning("contract_failed", session=session_id, why=self.problem)
            known.due, known.over, known.idle, known.compacted = before
            known.retry_at = clock.monotonic() + RETRY_SECONDS

    async def _look_at(self, session_id: str, known: Watched, claims: Claims | None) -> bool:
        """Write a session's handoff if it is due; tells whether it was."""
        silent_seconds = known.silent_seconds
        claim = claims.get(session_id) if claims else None
        ended = session_id in self.board.ended
        if claim is not None and not ended:
            if known.waiting_for and not claim.waiting_for:  # a person has answered
                self.board.waiting.pop(session_id, None)
                self.board.touch(known.project_id, git_too=False)
            known.claimed, known.waiting_for = True, claim.waiting_for
        if not ended and claims is not None and self._has_ended(session_id, known, claims):
            ended = True
            if claim and claim.alive:  # it waits for another session now
                known.waiting_for = ""
            self.end(session_id, known.project_id)
        if not known.idle:
            known.idle = self._is_idle(session_id, known, claim)
        quiet = silent_seconds >= QUIET_SECONDS and not (claim and claim.alive)
        over = known.idle or ended or (quiet and known.headless)
        news = known.due and (over or quiet or known.compacted)
        wanted = news or (over and not known.over)
        if wanted:
            known.due, known.compacted, known.over = False, False, over
            async with self.busy:
                await self.leave(session_id, ended=over, waiting_for=known.waiting_for)
        if silent_seconds > clock.DAY_SECONDS:
            self.forget(session_id)
        return wanted

    def _has_ended(self, session_id: str, known: Watched, claims: Claims) -> bool:
        """Tell whether a session's client is gone, or has turned to another session.

        After `/clear` the client goes on under a new session, but claims the old one for ever.
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

    def _is_idle(self, session_id: str, known: Watched, claim: Claim | None) -> bool:
        """Tell whether a session is idle; a tool at work in a living client is activity, too."""
        if not self.herald.is_silent(known.project_id, known.silent_seconds):
            return False
        # One that waits for a person is at no work.
        busy = claim is not None and claim.alive and not claim.waiting_for
        if busy and self._is_at_work(session_id):
            return False
        self.herald.fire_idle(session_id, known.project_id, known.first_at, known.heard_at)
        return True

    def _is_at_work(self, session_id: str) -> bool:
        stored = self.board.state.session(session_id)
        return stored is not None and bool(load(stored.fold).calls)

    async def leave(self, session_id: str, *, ended: bool, waiting_for: str = "") -> Leaving | None:
        """Write a session's handoff, if it has something to say that is not there yet."""
        stored = self.board.state.session(session_id)
        if stored is None or stored.project_id is None:
            return None
        state = load(stored.fold)
        project = self.board.projects.by_id(stored.project_id)
        if project is not None:
            mounts.require(project.root.path)  # it is due until then
        if project is None or not is_worth(state) or not self._may_write(project, state):
            return None
        left = self.board.core.contract(session_id)
        if left and left.session_time == state.last_time and (left.ended or not ended):
            return None
        around = await self._surroundings(project, state)
        around = replace(around, ended=ended, waiting_for=waiting_for)
        mine = worker(state, project.root.path)
        tell = telling(state, mine, project.root.path, around)
        planned = await asyncio.to_thread(leaving.plan, self.base, mine, tell, left)
        if planned is None:
            return None
        self.board.core.set_contract(intending(project.id, state, planned, left))
        done = await asyncio.to_thread(leaving.leave, self.base, mine, planned, left)
        if done is not None:
            self._remember(left_of(project.id, state, done, ended=ended))
        elif left is not None:
            self.board.core.set_contract(left)
        return done

    def _may_write(self, project: Project, state: SessionState) -> bool:
        if self.board.gate.config.contract.write == "none":
            return False
        if self.board.gate.refusal(project.id, project.root.path):
            return False
        # A program's run tells nobody what a person is in the middle of.
        lanes = self.board.lanes(project.id)
        return not state.headless or not any(
            lane.live and not lane.state.headless for lane in lanes
        )

    def _remember(self, left: Left) -> None:
        self.writes += 1
        self.board.core.set_contract(left)
        # A new session is told of it.
        self.board.touch(left.project_id, git_too=False)

    async def close(self, project: Project, state: SessionState, given: Theirs) -> Leaving:
        """Write a worker's handoff with their own words."""
        async with self.busy:
            around = await self._surroundings(project, state)
            mine = worker(state, project.root.path)
            left = self.board.core.contract(state.session_id) if state.session_id else None
            tell = telling(state, mine, project.root.path, around)
            planned = await asyncio.to_thread(
                leaving.plan_close, self.base, mine, tell, left, given
            )
            if state.session_id:
                self.board.core.set_contract(intending(project.id, state, planned, left))
            done = await asyncio.to_thread(leaving.close, self.base, mine, planned, left)
            if state.session_id:
                self._remember(left_of(project.id, state, done, ended=False))
                at = clock.iso_milliseconds()
                self.board.core.ledger.fire(
                    Firing(
                        manual.cause(state.session_id, at),
                        manual.NAME,
                        project.id,
                        state.session_id,
                        at,
                        "handoff close",
                        outcome={"contract": done.handoff.path},
                    )
                )
        return done

    # What is known around a session

    async def told(self, project: Project, state: SessionState) -> Contract:
        """Return what a session leaves behind, as it stands now."""
        around = await self._surroundings(project, state)
        return account(state, project.root.path, around)

    async def _surroundings(self, project: Project, state: SessionState) -> Surroundings:
        root = project.root
        asked = GitFacts()
        if root.exists:
            commits = [value.text.split(" ")[0] for value in state.commits]
            asked = await asyncio.to_thread(self._ask_git, root.path, commits)
        return Surroundings(
            date=clock.day(),
            uncommitted=asked.uncommitted,
            unpushed=asked.unpushed,
            committed_secrets=asked.secrets,
            contested=contested(state, self.board.lanes(project.id)),
        )

    def _ask_git(self, root: str, commits: list[str]) -> "GitFacts":
        facts = ask_git(root)
        for commit in commits:
            facts.secrets += self._secrets_of(root, commit)
        return facts

    def _secrets_of(self, root: str, commit: str) -> list[str]:
        """Return what a commit took in; it is looked at once, but for a git that did not answer."""
        if commit not in self._secrets and _COMMIT.fullmatch(commit):
            try:
                self._secrets[commit] = committed_secrets(root, commit)
            except git.GitError:
                return []
            while len(self._secrets) > SCANNED_MAX:
                del self._secrets[next(iter(self._secrets))]
        return self._secrets.get(commit, [])


@dataclass(slots=True)
class GitFacts:
    uncommitted: list[str] = field(default_factory=list)
    unpushed: int | None = None
    secrets: list[str] = field(default_factory=list)


def ask_git(root: str) -> GitFacts:
    """Ask what is not safe yet; where git does not answer, nothing is said."""
    facts = GitFacts()
    try:
        facts.uncommitted = git.uncommitted_files(root)
        facts.unpushed = git.unpushed_commits(root)
    except git.GitError:
        pass
    return facts


def committed_secrets(root: str, commit: str) -> list[str]:
    """Return which secrets of a known form a commit took in."""
    return [
        f"{commit[:9]} adds a {kind} to {path}"
        for path, lines in git.added_lines(root, commit).items()
        for kind in known_kinds(lines)
    ]


def worker(state: SessionState, root: str) -> Worker:
    # As `pwd -P` says it.
    cwd = os.path.realpath(state.cwd or root)
    return Worker(state.session_id, cwd, state.first_time, state.last_time, state.worked_time)


def telling(state: SessionState, mine: Worker, root: str, around: Surroundings) -> Tell:
    """Return a way to say what is known of a session, under the directory it is found by."""
    cwd = written_path(mine.cwd)
    return lambda since: replace(account(state, root, replace(around, since=since)), cwd=cwd)


def left_of(project_id: str, state: SessionState, done: Leaving, *, ended: bool) -> Left:
    """Return what to remember of a handoff that was just left."""
    handoff = done.handoff
    return Left(
        state.session_id,
        project_id,
        handoff.path,
        done.written,
        done.written,
        handoff.stamp,
        state.last_time,
        done.persons_time,
        ended,
    )


def intending(project_id: str, state: SessionState, planned: Plan, left: Left | None) -> Left:
    """Return what to remember of a handoff that is about to be written."""
    if left is None or left.path != planned.path:
        left = Left(state.session_id, project_id, planned.path, "", "", "", "")
    return replace(left, intended=planned.text)
