"""Handle the hooks of Claude Code, and answer with the text that is printed into a session.

Nothing depends on hooks: the events of a session are in its transcript. A hook reports them
sooner, and lets the next session know of them.
"""

import asyncio
import hashlib
import os
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from handoff.common.plain_text import PlainText
from handoffd.agents.claude_code.client_files import read_json
from handoffd.checkpoint.checkpoint_writer import CheckpointWriter
from handoffd.config import LiveConfig
from handoffd.errors import StoreError
from handoffd.hooks import brief
from handoffd.hooks.briefs import Briefs
from handoffd.projects.git_questions import GitQuestions
from handoffd.projects.lanes import ProjectView
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.project_root import reflog_stamp
from handoffd.projects.project_state import ProjectStates
from handoffd.projects.registry import Project
from handoffd.runtime import clock, log
from handoffd.session.state import Receipt, SessionState, Value
from handoffd.session.text import NOW_MAX, keep
from handoffd.store.core import CoreStore
from handoffd.store.state import StateStore
from handoffd.store.threads import Unread
from handoffd.triggers.session_liveness import SessionLiveness

# With these hooks the client reports that it asks a person for something.
ASKING = ("PermissionRequest", "Notification")
# After these sources a session's context holds nothing of earlier briefs.
CONTEXT_LOST = ("clear", "compact")
# Two hooks for one event (the plugin's, and one in the settings) come within this time.
DUPLICATE_SECONDS = 2.0
# The client's figure for the time since the last answer is not exact to the second.
PARENT_SECONDS = 10.0
# A client waits for our answer for a tenth of a second.
GIT_SECONDS = 0.04
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
    briefs: Briefs
    session_liveness: SessionLiveness
    # The last brief of each session, and its time.
    _last_brief: dict[str, tuple[str, float]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    # The plugins whose description is being read.
    _reading: set[str] = field(default_factory=set)
    # A look at the ended sessions is planned.
    _look_is_planned: bool = False

    async def answer(self, heard: HookEvent) -> HookAnswer:
        """Handle a hook, and return the answer for its session."""
        if heard.event == "SessionStart":
            self.project_states.revive(heard.session_id)
        if self.policy.refusal(heard.project.id, heard.project.root.path):
            self.briefs.drop(heard.project)
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
        self._in_background(self._store_hook(heard.event[:_NAME_MAX], plugin_root))
        if not delivered:
            self._last_brief.pop(heard.session_id, None)
            return
        try:
            if answer.keys and heard.session_id:
                self.state.tell(heard.session_id, answer.keys)
            if answer.read:
                self.core.mark_read(dict(answer.read), clock.iso())
        except StoreError as problem:  # at worst the text is printed twice
            log.get().warning("hook_not_kept", why=problem.title)

    async def _store_hook(self, event: str, plugin_root: str) -> None:
        plugin = await self._version(plugin_root) if plugin_root.startswith("/") else ""
        try:
            if event:
                self.state.hear(event, clock.wall(), plugin)
        except StoreError as problem:
            log.get().warning("hook_not_kept", why=problem.title)

    async def _version(self, plugin_root: str) -> str:
        """Return a plugin's version; read in one thread per plugin, as its disk may not answer."""
        if plugin_root in self._reading:
            return ""
        self._reading.add(plugin_root)
        try:
            path = f"{plugin_root}/.claude-plugin/plugin.json"
            version = (await asyncio.to_thread(read_json, path)).get("version")
        finally:
            self._reading.discard(plugin_root)
        return version[:_NAME_MAX] if isinstance(version, str) else ""

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
        own = heard.session_id if source == "compact" else ""
        view = self.project_states.view(project, own)
        # The session that asks is left out of the live sessions.
        view.live = [lane for lane in view.live if lane.state.session_id != heard.session_id]
        if source in ("resume", "fork") and self._is_own_state(heard, view):
            return await self._updates(heard, self.briefs.git_changes(project, view))
        answer = await self._whole_brief(project, view)
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

    async def _whole_brief(self, project: Project, view: ProjectView) -> HookAnswer:
        newest = await self.briefs.newest_handoff(project)
        text = self.briefs.compose(project, view, newest)
        calls = brief.calls_of(newest.contract) if newest else []
        threads = map(_thread_key, self.project_states.unread(project))
        shown = newest is not None and brief.shows(text, newest.contract)
        read = {newest.path: newest.stamp} if newest and shown else {}
        return HookAnswer(text, (_digest(text), *map(_digest, calls), *threads), read)

    def _is_known(self, heard: HookEvent, source: str, answer: HookAnswer) -> bool:
        """Return True if a session's context already holds the brief."""
        digest, at = self._last_brief.get(heard.session_id, ("", 0.0))
        if digest == answer.keys[0] and clock.monotonic() - at < DUPLICATE_SECONDS:
            return True
        return source not in CONTEXT_LOST and answer.keys[0] in self.state.told(heard.session_id)

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

    # A running session

    async def _updates(self, heard: HookEvent, changes: Sequence[str] = ()) -> HookAnswer:
        """Return one line about changes that are new to the session; nothing for a sub-agent."""
        if heard.is_agents or not heard.session_id:
            return HookAnswer()
        project, known = heard.project, self.state.told(heard.session_id)
        changes = [line for line in changes if _digest(line) not in known]
        calls = [line for line in await self._calls(heard) if _digest(line) not in known]
        unread = [
            thread
            for thread in self.project_states.unread(project)
            if _thread_key(thread) not in known
        ]
        if not changes and not calls and not unread:
            return HookAnswer()
        counted = [(thread.id, thread.number) for thread in unread]
        text = brief.urgent(project.root.path, counted, [*calls, *changes])
        return HookAnswer(text, (*map(_thread_key, unread), *map(_digest, [*calls, *changes])))

    async def _calls(self, heard: HookEvent) -> Sequence[str]:
        """Return the newest handoff's calls for a person, unless it is the session's own."""
        newest = await self.briefs.newest_handoff(heard.project)
        own = self.core.contract(heard.session_id)
        if newest is None or (own and own.path == newest.path):
            return []
        return brief.calls_of(newest.contract)

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
