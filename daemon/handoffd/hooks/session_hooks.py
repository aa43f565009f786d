"""Handle the hooks of Claude Code, and answer with the text that is printed into a session.

Nothing depends on hooks: the events of a session are in its transcript. A hook reports them
sooner, and lets the next session know of them.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from handoff.common.plain_text import PlainText
from handoffd.agents.agent import Agent
from handoffd.checkpoint.checkpoint_writer import CheckpointWriter
from handoffd.config import LiveConfig
from handoffd.errors import StoreError
from handoffd.hooks import brief
from handoffd.hooks.brief_writer import Audience, BriefWriter
from handoffd.projects.git_questions import GitQuestions
from handoffd.projects.lanes import ProjectView, contested
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.project_root import reflog_stamp
from handoffd.projects.project_state import ProjectStates
from handoffd.projects.registry import Project
from handoffd.projects.stored_sessions import state_of
from handoffd.runtime import clock, log
from handoffd.session import dropped
from handoffd.session.state import Dropped, Receipt, SessionState, Value
from handoffd.session.text import NOW_MAX, keep
from handoffd.store.core import CoreStore
from handoffd.store.state import StateStore
from handoffd.store.thread_store import Unread
from handoffd.triggers.session_liveness import SessionLiveness

# With these hooks the client reports that it asks a person for something.
ASKING = ("PermissionRequest", "Notification")
# After these sources a session's context holds nothing of earlier briefs.
CONTEXT_LOST = ("clear", "compact")
# Two hooks for one event (the plugin's, and one in the settings) come within this time.
DUPLICATE_SECONDS = 2.0
# The sessions whose brief after a compaction is remembered.
COMPACTED_MAX = 16
# The client's figure for the time since the last answer is not exact to the second.
PARENT_SECONDS = 10.0
# A client waits for our answer for a tenth of a second.
GIT_SECONDS = 0.04
# A daemon that has just started reads for so long before a session is told what may be old.
SETTLE_SECONDS = 0.06
# The last records that a client writes at its end are there by then.
END_SECONDS = 0.3
_NAME_MAX = 64
_ASKED_ABOUT = ("command", "file_path", "url", "notebook_path", "description", "query")


class HookEvent(NamedTuple):
    """One call of a hook: its event, its session and project, and its other fields."""

    event: str
    session_id: str
    project: Project
    fields: dict[str, Any]
    agent: Agent
    headless: bool = False

    def text(self, name: str) -> str:
        found = self.fields.get(name)
        return found if isinstance(found, str) else ""

    @property
    def is_agents(self) -> bool:
        """True if the event happened inside a sub-agent, not in the session itself."""
        return bool(self.text("agent_id"))


class HookAnswer(NamedTuple):
    """The text for a session, the keys by which we remember it, and the handoff that it shows."""

    text: str = ""
    keys: tuple[str, ...] = ()
    read: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True)
class SessionHooks:
    """Answers the hooks of sessions, and notes their starts, questions and ends."""

    core: CoreStore
    state: StateStore
    config: LiveConfig
    policy: LearningPolicy
    project_states: ProjectStates
    git_questions: GitQuestions
    checkpoint_writer: CheckpointWriter
    brief_writer: BriefWriter
    session_liveness: SessionLiveness
    # Returns True if every transcript is read to its end.
    is_settled: Callable[[], bool]
    # The last brief of each session, and its time.
    _last_brief: dict[str, tuple[str, float]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    # The plugins whose description is being read.
    _reading: set[str] = field(default_factory=set)
    # The brief of each session after its last compaction.
    _compacted: dict[str, str] = field(default_factory=dict)
    # A look at the ended sessions is planned.
    _look_is_planned: bool = False

    async def answer(self, heard: HookEvent) -> HookAnswer:
        """Handle a hook, and return the answer for its session."""
        if heard.event == "SessionStart":
            self.project_states.revive(heard.session_id)
        if self.policy.refusal(heard.project.id, heard.project.root.path):
            self.brief_writer.drop(heard.project)
            return HookAnswer()
        if heard.event not in ASKING and heard.session_id in self.project_states.waiting:
            del self.project_states.waiting[heard.session_id]
            self.project_states.touch(heard.project.id, git_too=False)
        match heard.event:
            case "SessionStart":
                return await self._brief(heard) if self._may_print(heard) else HookAnswer()
            case "UserPromptSubmit":
                return await self._updates(heard) if self._may_print(heard) else HookAnswer()
            case "PreCompact" if not heard.is_agents:
                self.checkpoint_writer.write_now(heard.project)
                return HookAnswer(PlainText(self.config.current.hooks.compact_instructions))
            case "PostCompact" if not heard.is_agents and self._may_print(heard):
                return self._not_in_summary(heard)
            case _ if heard.event in ASKING:
                self._note_waiting(heard)
            case "SessionEnd":
                self._note_end(heard)
        return HookAnswer()

    def _may_print(self, heard: HookEvent) -> bool:
        return not heard.headless or self.config.current.hooks.headless

    def remember(
        self, heard: HookEvent, answer: HookAnswer, plugin_root: str, *, delivered: bool
    ) -> None:
        """Store the hook and, if the client received it, the answer; no client waits for this."""
        self._in_background(self._store_hook(heard, plugin_root))
        if not delivered:
            self._last_brief.pop(heard.session_id, None)
            self._compacted.pop(heard.session_id, None)
            return
        try:
            if answer.keys and heard.session_id:
                self.state.add_given_texts(heard.session_id, answer.keys)
            if answer.read:
                self.core.mark_read(dict(answer.read), clock.iso())
        except StoreError as problem:  # at worst the text is printed twice
            log.get().warning("hook_not_kept", why=problem.title)

    async def _store_hook(self, heard: HookEvent, plugin_root: str) -> None:
        event, plugin = heard.event[:_NAME_MAX], ""
        if plugin_root.startswith("/"):
            plugin = await self._version(heard.agent, plugin_root)
        try:
            if event:
                self.state.note_hook(event, clock.wall(), plugin)
        except StoreError as problem:
            log.get().warning("hook_not_kept", why=problem.title)

    async def _version(self, agent: Agent, plugin_root: str) -> str:
        """Return a plugin's version; read in one thread per plugin, as its disk may not answer."""
        if plugin_root in self._reading:
            return ""
        self._reading.add(plugin_root)
        try:
            return await asyncio.to_thread(agent.plugin_version, plugin_root)
        finally:
            self._reading.discard(plugin_root)

    def session_changed(self, state: SessionState, _project_id: str, _last_seconds: float) -> None:
        """Note that a session has new records: it no longer waits for a person."""
        waiting = self.project_states.waiting.get(state.session_id)
        # The record of a call may be written only after the permission for it was asked.
        if waiting and state.heard_time > waiting.receipt.time:
            del self.project_states.waiting[state.session_id]

    # The start of a session

    async def _brief(self, heard: HookEvent) -> HookAnswer:
        source, project = heard.text("source"), heard.project
        self.project_states.refresh(project)
        await self._ask_git(project)
        note = await self._settle()
        own = heard.session_id if source == "compact" else ""
        view = self.project_states.view(project, own)
        # The session that asks is left out of the live sessions.
        view.live = [lane for lane in view.live if lane.state.session_id != heard.session_id]
        if source in ("resume", "fork") and self._is_own_state(heard, view):
            return await self._updates(heard, self.brief_writer.git_changes(project, view))
        lost = self._dropped(heard) if source == "compact" else []
        audience = Audience(heard.session_id, self._contested(heard), note, lost)
        answer = await self._whole_brief(project, view, audience)
        if source == "compact":
            self._note_compacted(heard.session_id, answer.text)
        if not answer.text or self._is_known(heard, source, answer):
            return await self._updates(heard)
        now = clock.monotonic()
        recent = {
            name: last
            for name, last in self._last_brief.items()
            if now - last[1] < DUPLICATE_SECONDS
        }
        self._last_brief = {**recent, heard.session_id: (answer.keys[0], now)}
        return answer

    async def _settle(self) -> str:
        """Wait a moment for a daemon that has just started; return the note if it still reads.

        Otherwise the session whose start brought the daemon up would be told an old state as new.
        """
        until = clock.monotonic() + SETTLE_SECONDS
        while not self.is_settled():
            if clock.monotonic() > until:
                return "handoffd has just started, and still reads transcripts"
            await asyncio.sleep(SETTLE_SECONDS / 10)
        return ""

    def _contested(self, heard: HookEvent) -> list[str]:
        """Return the files that the session and another live one have changed."""
        stored = self.state.session(heard.session_id)
        if stored is None:
            return []
        lanes = self.project_states.lanes(heard.project.id)
        return contested(state_of(stored), lanes, silent_too=True)

    async def _whole_brief(
        self, project: Project, view: ProjectView, audience: Audience
    ) -> HookAnswer:
        handoffs = await self.brief_writer.recent_handoffs(project)
        newest = handoffs[0] if handoffs else None
        text = self.brief_writer.compose(project, view, handoffs, audience=audience)
        calls = brief.calls_of(*(handoff.contract for handoff in handoffs))
        threads = map(_thread_key, self.project_states.unread(project))
        shown = newest is not None and brief.shows(text, newest.contract)
        read = {newest.path: newest.stamp} if newest and shown else {}
        # An age changes from minute to minute, the mark for it does not.
        told = (*calls, *map(_same_file, audience.contested))
        keys = (_digest(text), *map(_digest, told), *threads)
        return HookAnswer(brief.aged(text, clock.wall()), keys, read)

    def _is_known(self, heard: HookEvent, source: str, answer: HookAnswer) -> bool:
        """Return True if a session's context already holds the brief."""
        digest, at = self._last_brief.get(heard.session_id, ("", 0.0))
        if digest == answer.keys[0] and clock.monotonic() - at < DUPLICATE_SECONDS:
            return True
        return source not in CONTEXT_LOST and answer.keys[0] in self.state.given_texts(
            heard.session_id
        )

    def _is_own_state(self, heard: HookEvent, view: ProjectView) -> bool:
        """Return True if the state shown is that of the session itself, or of its fork's parent."""
        if view.main is None:
            return False
        if view.main.state.session_id == heard.session_id:
            return True
        since = heard.fields.get("seconds_since_last_response")
        if heard.text("source") != "fork" or not isinstance(since, int | float):
            return False
        return abs(view.main.idle_seconds - since) < PARENT_SECONDS

    async def _ask_git(self, project: Project) -> None:
        """Ask git for changes if HEAD has moved, and wait no longer than a hook may."""
        active = self.project_states.active(project)
        known = active.git.tracked is not None and active.git.reflog == reflog_stamp(
            project.root.path
        )
        if project.id and not known and not active.git.asking:
            active.git.asking = True
            asking = self._in_background(self.git_questions.ask(active))
            await asyncio.wait({asking}, timeout=GIT_SECONDS)

    # What a compaction dropped

    def _dropped(self, heard: HookEvent) -> list[Dropped]:
        stored = self.state.session(heard.session_id)
        return dropped.unsettled(state_of(stored)) if stored else []

    def _not_in_summary(self, heard: HookEvent) -> HookAnswer:
        """Return the items that the summary of a compaction does not mention.

        The transcript does not have the summary yet. After `/compact` the text is part of the
        command's output, which the session has; otherwise only the person sees it, so that the
        next prompt tells it.
        """
        summary = heard.text("compact_summary").rpartition("<summary>")[2]
        stored = self.state.session(heard.session_id) if summary else None
        if stored is None:
            return HookAnswer()
        state = state_of(stored)
        shown = self._compacted.get(heard.session_id, "")
        found = brief.untold(dropped.compare(state, summary), shown)
        if not found:
            return HookAnswer()
        text = brief.urgent(heard.project.root.path, (), [brief.not_in_summary(found)])
        manual = heard.text("trigger") == "manual"
        return HookAnswer(text, tuple(_dropped_keys(found, state.compactions + 1)) * manual)

    def _note_compacted(self, session_id: str, text: str) -> None:
        self._compacted.pop(session_id, None)
        self._compacted[session_id] = text
        if len(self._compacted) > COMPACTED_MAX:
            del self._compacted[next(iter(self._compacted))]

    def _news_of_summary(self, heard: HookEvent, known: set[str]) -> dict[str, Dropped]:
        """Return the items that the summary lacks and the session was not told, by their keys."""
        stored = self.state.session(heard.session_id)
        state = state_of(stored) if stored else None
        if state is None or not state.dropped:
            return {}
        items = brief.untold(dropped.unsettled(state), self._compacted.get(heard.session_id, ""))
        keyed = _dropped_keys(items, state.compactions)
        return {key: item for key, item in keyed.items() if key not in known}

    # A running session

    async def _updates(self, heard: HookEvent, changes: Sequence[str] = ()) -> HookAnswer:
        """Return one line about changes that are new to the session; nothing for a sub-agent."""
        if heard.is_agents or not heard.session_id:
            return HookAnswer()
        project, known = heard.project, self.state.given_texts(heard.session_id)
        same = map(_same_file, self._contested(heard))
        changes = [line for line in (*same, *changes) if _digest(line) not in known]
        calls = [line for line in await self._calls(heard) if _digest(line) not in known]
        unread = [
            thread
            for thread in self.project_states.unread(project)
            if _thread_key(thread) not in known
        ]
        lost = self._news_of_summary(heard, known)
        if not changes and not calls and not unread and not lost:
            return HookAnswer()
        counted = [(thread.id, thread.number) for thread in unread]
        keys = (*map(_thread_key, unread), *map(_digest, [*calls, *changes]), *lost)
        changes += [brief.not_in_summary(list(lost.values()))] if lost else []
        return HookAnswer(brief.urgent(project.root.path, counted, [*calls, *changes]), keys)

    async def _calls(self, heard: HookEvent) -> Sequence[str]:
        """Return the calls for a person in recent handoffs, except in the session's own."""
        own = self.core.contract(heard.session_id)
        handoffs = await self.brief_writer.recent_handoffs(heard.project)
        others = [found.contract for found in handoffs if own is None or own.path != found.path]
        return brief.calls_of(*others)

    def _note_waiting(self, heard: HookEvent) -> None:
        """Note that the client asks a person for something.

        A permission request names the tool; a notification comes some seconds later and does not.
        """
        known = heard.session_id in self.project_states.waiting and not heard.text("tool_name")
        if known or not self.state.session(heard.session_id):
            return
        receipt = Receipt(heard.session_id, "", 0, clock.iso_milliseconds(), "observed")
        text = keep(_question(heard), NOW_MAX)
        self.project_states.waiting[heard.session_id] = Value(text, receipt)
        self.project_states.touch(heard.project.id, git_too=False)

    def _note_end(self, heard: HookEvent) -> None:
        """Note that a session is over; a session without a transcript never began.

        The very first session of a project may end before its directory was noticed, so the
        transcript is looked for on disk.
        """
        known = self.state.session(heard.session_id)
        if known or os.path.isfile(heard.text("transcript_path")):
            self.session_liveness.end(heard.session_id, heard.project.id)
            if not self._look_is_planned:
                self._look_is_planned = True
                self._in_background(self._look_soon())

    async def _look_soon(self) -> None:
        """Look once at all sessions that have ended by then; every look sees all sessions."""
        await asyncio.sleep(END_SECONDS)
        self._look_is_planned = False
        await self.session_liveness.look()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _thread_key(thread: Unread) -> str:
    """Return a key with the latest entry: a later entry is new, however much was read."""
    return f"thread {thread.id} {thread.latest}"


def _dropped_keys(items: Sequence[Dropped], compaction: int) -> dict[str, Dropped]:
    """Return items by keys of their compaction: the next one may drop the same items again."""
    return {f"dropped {compaction} {_digest(item.value.text)}": item for item in items}


def _same_file(found: str) -> str:
    return f"**Another live session changes the same file:** {found}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _question(heard: HookEvent) -> str:
    """Return the text of a client's question to a person."""
    tool = heard.text("tool_name")
    if not tool:
        return f"Waiting: {heard.text('message') or 'an answer is needed'}"
    found = heard.fields.get("tool_input")
    given: dict[str, Any] = found if isinstance(found, dict) else {}
    about = [str(given[name]) for name in _ASKED_ABOUT if given.get(name)]
    return " ".join(["Waiting for permission:", tool, *about[:1]])
