"""Writes the contract of each session: at every trigger and on three more occasions.

The occasions are the end of a session, a compaction, and the death of a client, which shows in
its process or in its silence. A session's own handoff is updated; a second one is never added.
"""

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from handoffd.config import LiveConfig
from handoffd.contract import handoff_directory, session_file
from handoffd.contract.composition import HASH_MIN, Surroundings, account, is_worth
from handoffd.contract.contract_format import Contract, ForeignLines, written_path
from handoffd.contract.session_file import ComposeSince, HandoffAuthor, HandoffPlan, WrittenHandoff
from handoffd.fs import mounts
from handoffd.links import git, repository
from handoffd.links.repository import Commit
from handoffd.projects.lanes import LIVE_SECONDS, contested
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.project_state import ProjectStates
from handoffd.projects.registry import Project, ProjectRegistry
from handoffd.projects.stored_sessions import state_of
from handoffd.redaction.redact import known_kinds
from handoffd.runtime import clock
from handoffd.session.state import SessionState
from handoffd.store.core import CoreStore, StoredContract
from handoffd.store.state import SessionStore

SCANNED_MAX = 256
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_HASHED = re.compile(r"[0-9a-f]{7,40}(?: |$)")


@dataclass(slots=True)
class ContractWriter:
    """Writes the handoff of each session that did some work."""

    core: CoreStore
    sessions: SessionStore
    config: LiveConfig
    policy: LearningPolicy
    projects: ProjectRegistry
    project_states: ProjectStates
    writes: int = 0
    _secrets: dict[str, list[str]] = field(default_factory=dict)
    _renewals: set[asyncio.Task[None]] = field(default_factory=set)
    # Held while handoffs are written or erased.
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def base(self) -> str:
        return handoff_directory.handoffs_base(self.config.current.contract.directory)

    async def write(
        self, session_id: str, *, ended: bool, waiting_for: str = "", anew: bool = False
    ) -> WrittenHandoff | None:
        """Write a session's handoff, if it has something to say that is not in the file yet.

        With `anew`, write it even if the session did nothing since.
        """
        stored = self.sessions.session(session_id)
        if stored is None or stored.project_id is None:
            return None
        state = state_of(stored)
        project = self.projects.by_id(stored.project_id)
        if project is not None:
            # While the disk does not answer this raises, so that the handoff stays due.
            mounts.require(project.root.path)
        if project is None or not is_worth(state) or not self._may_write(project, state):
            return None
        previous = self.core.contract(session_id)
        told = previous and previous.session_time == state.last_time
        if previous and told and (previous.ended or not ended) and not anew:
            return None
        around = await self._surroundings(project, state)
        around = replace(around, ended=ended, waiting_for=waiting_for)
        author = worker(state, project.root.path)
        compose = composer(state, author, project.root.path, around)
        planned = await asyncio.to_thread(session_file.plan, self.base, author, compose, previous)
        if planned is None:
            return None
        self.core.set_contract(intended_row(project.id, state, planned, previous))
        done = await asyncio.to_thread(session_file.write, self.base, author, planned, previous)
        if done is not None:
            await self._link(project, done)
            self._store(stored_row(project.id, state, done, ended=ended))
        elif previous is not None:
            self.core.set_contract(previous)
        return done

    def renew_soon(self, session_id: str) -> None:
        task = asyncio.ensure_future(self.renew(session_id))
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)

    async def renew(self, session_id: str) -> None:
        """Write the handoff that a session left anew: a person closed an item of it."""
        async with self.busy:
            left = self.core.contract(session_id)
            if left is not None and left.stamp:
                await self.write(session_id, ended=left.ended, anew=True)

    def _may_write(self, project: Project, state: SessionState) -> bool:
        if self.config.current.contract.write == "none":
            return False
        if self.policy.refusal(project.id, project.root.path):
            return False
        # A program's run does not describe the work that a person is in the middle of.
        lanes = self.project_states.lanes(project.id)
        return not state.headless or not any(
            lane.live and not lane.state.headless for lane in lanes
        )

    async def _link(self, project: Project, done: WrittenHandoff) -> None:
        """Link a handoff from the places in its project that the user named."""
        for place in self.config.current.contract.also:
            root = project.root.path
            await asyncio.to_thread(handoff_directory.link_from, root, place, done.handoff)

    def _store(self, stored: StoredContract) -> None:
        self.writes += 1
        self.core.set_contract(stored)
        # The brief for a new session mentions it.
        self.project_states.touch(stored.project_id, git_too=False)

    async def close(
        self, project: Project, state: SessionState, given: ForeignLines
    ) -> WrittenHandoff:
        """Write a session's handoff with the words that its author gives."""
        async with self.busy:
            around = await self._surroundings(project, state)
            author = worker(state, project.root.path)
            previous = self.core.contract(state.session_id) if state.session_id else None
            compose = composer(state, author, project.root.path, around)
            planned = await asyncio.to_thread(
                session_file.plan_close, self.base, author, compose, previous, given
            )
            if state.session_id:
                self.core.set_contract(intended_row(project.id, state, planned, previous))
            done = await asyncio.to_thread(session_file.close, self.base, author, planned, previous)
            await self._link(project, done)
            if state.session_id:
                self._store(stored_row(project.id, state, done, ended=False))
        return done

    # The facts around a session

    async def compose(self, project: Project, state: SessionState) -> Contract:
        """Return the contract of a session, as it would be written now."""
        around = await self._surroundings(project, state)
        return account(state, project.root.path, around)

    async def _surroundings(self, project: Project, state: SessionState) -> Surroundings:
        root = project.root
        asked = GitFacts()
        if root.exists:
            asked = await asyncio.to_thread(self._ask_git, root.path, state)
        return Surroundings(
            date=clock.day(),
            uncommitted=asked.uncommitted,
            unpushed=asked.unpushed,
            commits=self._commits(project, state, asked.commits),
            committed_secrets=asked.secrets,
            contested=contested(state, self.project_states.lanes(project.id)),
            closed=self.project_states.closed(project.id),
        )

    def _commits(
        self, project: Project, state: SessionState, known: Sequence[Commit]
    ) -> list[tuple[str, str]]:
        """Return the commits made during a session or soon after it, and by no other session."""
        first, last = int(clock.parse(state.first_time)), clock.parse(state.last_time)
        others = tuple(
            value.text[:HASH_MIN]
            for lane in self.project_states.lanes(project.id)
            for value in lane.state.commits
            if lane.state.session_id != state.session_id and _HASHED.match(value.text)
        )
        return [
            (clock.iso_milliseconds(commit.seconds), commit.text)
            for commit in known
            if first <= commit.seconds <= last + LIVE_SECONDS and not commit.text.startswith(others)
        ]

    def _ask_git(self, root: str, state: SessionState) -> "GitFacts":
        facts = ask_git(root, state.first_time)
        own = [value.text for value in state.commits]
        # A commit that was made quietly is known by its subject.
        own += [found.text for found in facts.commits if found.text.partition(" ")[2] in own]
        for text in own:
            facts.secrets += self._secrets_of(root, text.split(" ")[0])
        return facts

    def _secrets_of(self, root: str, commit: str) -> list[str]:
        """Return the secrets that a commit added. Scan it once, or again if git did not answer."""
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
    commits: Sequence[Commit] = ()
    secrets: list[str] = field(default_factory=list)


def ask_git(root: str, since: str = "") -> GitFacts:
    """Return the uncommitted files, the unpushed commits, and the commits since a time.

    If git does not answer, there are no facts.
    """
    facts = GitFacts()
    try:
        facts.uncommitted = git.uncommitted_files(root)
        facts.unpushed = git.unpushed_commits(root)
        if since:
            # git counts the seconds of a commit, and knows no parts of them.
            began = clock.iso(clock.parse(since) - 1)
            facts.commits = repository.commits_after(root, began, git.TIMEOUT_SECONDS)
    except git.GitError:
        pass
    return facts


def committed_secrets(root: str, commit: str) -> list[str]:
    """Return the secrets of a known form that a commit added."""
    return [
        f"{commit[:9]} adds a {kind} to {path}"
        for path, lines in git.added_lines(root, commit).items()
        for kind in known_kinds(lines)
    ]


def worker(state: SessionState, root: str) -> HandoffAuthor:
    # The physical path, as `pwd -P` prints it.
    cwd = os.path.realpath(state.cwd or root)
    return HandoffAuthor(
        state.session_id, cwd, state.first_time, state.last_time, state.worked_time
    )


def composer(
    state: SessionState, author: HandoffAuthor, root: str, around: Surroundings
) -> ComposeSince:
    """Return a function that composes the contract, with the directory that it is found by."""
    cwd = written_path(author.cwd)
    return lambda since: replace(account(state, root, replace(around, since=since)), cwd=cwd)


def stored_row(
    project_id: str, state: SessionState, done: WrittenHandoff, *, ended: bool
) -> StoredContract:
    """Return the row to store for a handoff that was just written."""
    handoff = done.handoff
    return StoredContract(
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


def intended_row(
    project_id: str, state: SessionState, planned: HandoffPlan, previous: StoredContract | None
) -> StoredContract:
    """Return the row to store for a handoff that is about to be written."""
    if previous is None or previous.path != planned.path:
        previous = StoredContract(state.session_id, project_id, planned.path, "", "", "", "")
    return replace(previous, intended=planned.text)
