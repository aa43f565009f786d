"""Hears the hooks of Claude Code, and says what a session is told.

Nothing depends on it: what happens in a session is in its transcript. A hook tells it sooner,
and lets the next session know.
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

# They say that the client asks a person for something.
ASKING = ("PermissionRequest", "Notification")
# After these a session knows nothing of what it was told before.
FORGETFUL = ("clear", "compact")
# Two hooks for one event: the plugin's, and one in the settings.
TWICE_SECONDS = 2.0
# What the client says of the time since the last answer is not to the second.
PARENT_SECONDS = 10.0
# A client waits for us a tenth of a second.
GIT_SECONDS = 0.04
# What a client writes when it ends is there by then.
END_SECONDS = 0.3
_NAME_MAX = 64
_ASKED_ABOUT = ("command", "file_path", "url", "notebook_path", "description", "query")


class HookEvent(NamedTuple):
    """One hook: its event, whose it is, and what else it says."""

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
        """Tell what happens inside a sub-agent from what happens in the session itself."""
        return bool(self.text("agent_id"))


class HookAnswer(NamedTuple):
    """What a session is told, and by what it is remembered; `read` is the handoff it tells of."""

    text: str = ""
    what: tuple[str, ...] = ()
    read: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True)
class SessionHooks:
    """Shows sessions in and out."""

    core: CoreStore
    state: StateStore
    config: LiveConfig
    policy: LearningPolicy
    project_states: ProjectStates
    git_questions: GitQuestions
    checkpoint_writer: CheckpointWriter
    briefs: Briefs
    session_liveness: SessionLiveness
    _last: dict[str, tuple[str, float]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    # The plugins whose description is being read.
    _reading: set[str] = field(default_factory=set)
    # A look at the sessions that have ended is to come.
    _leaving: bool = False

    async def answer(self, heard: HookEvent) -> HookAnswer:
        """Do what a hook is for; return what its session is told."""
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
                return await self._begin(heard) if self._may_tell(heard) else HookAnswer()
            case "UserPromptSubmit":
                return await self._news(heard) if self._may_tell(heard) else HookAnswer()
            case "PreCompact" if not heard.is_agents:
                self.checkpoint_writer.write_now(heard.project)
                return HookAnswer(PlainText(self.config.current.hooks.compact_instructions))
            case _ if heard.event in ASKING:
                self._wait(heard)
            case "SessionEnd":
                self._end(heard)
        return HookAnswer()

    def _may_tell(self, heard: HookEvent) -> bool:
        return not heard.headless or self.config.current.hooks.headless

    def remember(
        self, heard: HookEvent, told: HookAnswer, plugin_root: str, *, delivered: bool
    ) -> None:
        """Keep that it was heard and, if anybody got it, what was told; nobody waits for this."""
        self._beside(self._hear(heard.event[:_NAME_MAX], plugin_root))
        if not delivered:
            self._last.pop(heard.session_id, None)
            return
        try:
            if told.what and heard.session_id:
                self.state.tell(heard.session_id, told.what)
            if told.read:
                self.core.mark_read(dict(told.read), clock.iso())
        except StoreError as problem:  # at worst it is told twice
            log.get().warning("hook_not_kept", why=problem.title)

    async def _hear(self, event: str, plugin_root: str) -> None:
        plugin = await self._version(plugin_root) if plugin_root.startswith("/") else ""
        try:
            if event:
                self.state.hear(event, clock.wall(), plugin)
        except StoreError as problem:
            log.get().warning("hook_not_kept", why=problem.title)

    async def _version(self, plugin_root: str) -> str:
        """Return a plugin's version; in a thread, one at a time, for its disk may not answer."""
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
        """Take note that a session has new records: it waits for nobody any more."""
        waiting = self.project_states.waiting.get(state.session_id)
        # The call that needs a permission may be written down only after it was asked for.
        if waiting and state.heard_time > waiting.receipt.time:
            del self.project_states.waiting[state.session_id]

    # The start of a session

    async def _begin(self, heard: HookEvent) -> HookAnswer:
        source, project = heard.text("source"), heard.project
        self.project_states.refresh(project)
        await self._ask_git(project)
        own = heard.session_id if source == "compact" else ""
        view = self.project_states.view(project, own)
        # Whoever asks need not be told that it is live.
        view.live = [lane for lane in view.live if lane.state.session_id != heard.session_id]
        if source in ("resume", "fork") and self._is_its_own(heard, view):
            return await self._news(heard, self.briefs.moved(project, view))
        told = await self._whole(project, view)
        if not told.text or self._has_it(heard, source, told):
            return await self._news(heard)
        now = clock.monotonic()
        recent = {name: last for name, last in self._last.items() if now - last[1] < TWICE_SECONDS}
        self._last = {**recent, heard.session_id: (told.what[0], now)}
        return told

    async def _whole(self, project: Project, view: ProjectView) -> HookAnswer:
        newest = await self.briefs.newest_handoff(project)
        text = self.briefs.compose(project, view, newest)
        calls = brief.calls_of(newest.contract) if newest else []
        threads = map(_entry, self.project_states.unread(project))
        shown = newest is not None and brief.shows(text, newest.contract)
        read = {newest.path: newest.stamp} if newest and shown else {}
        return HookAnswer(text, (_digest(text), *map(_digest, calls), *threads), read)

    def _has_it(self, heard: HookEvent, source: str, told: HookAnswer) -> bool:
        """Tell whether a session has in its context already what it would be told."""
        digest, at = self._last.get(heard.session_id, ("", 0.0))
        if digest == told.what[0] and clock.monotonic() - at < TWICE_SECONDS:
            return True
        return source not in FORGETFUL and told.what[0] in self.state.told(heard.session_id)

    def _is_its_own(self, heard: HookEvent, view: ProjectView) -> bool:
        """Tell whether what is known is what the session itself, or that it forks from, did."""
        if view.main is None:
            return False
        if view.main.state.session_id == heard.session_id:
            return True
        since = heard.fields.get("seconds_since_last_response")
        if heard.text("source") != "fork" or not isinstance(since, int | float):
            return False
        return abs(view.main.idle_seconds - since) < PARENT_SECONDS

    async def _ask_git(self, project: Project) -> None:
        """Ask git what moved, if HEAD did, no longer than a hook may wait."""
        active = self.project_states.active(project)
        known = active.git.tracked is not None and active.git.reflog == reflog_stamp(
            project.root.path
        )
        if project.id and not known and not active.git.asking:
            active.git.asking = True
            asking = self._beside(self.git_questions.ask(active))
            await asyncio.wait({asking}, timeout=GIT_SECONDS)

    # While it goes on

    async def _news(self, heard: HookEvent, moved: Sequence[str] = ()) -> HookAnswer:
        """Tell in one line what arrived since, if anything did; a sub-agent is told nothing."""
        if heard.is_agents or not heard.session_id:
            return HookAnswer()
        project, told = heard.project, self.state.told(heard.session_id)
        moved = [line for line in moved if _digest(line) not in told]
        calls = [line for line in await self._calls(heard) if _digest(line) not in told]
        unread = [
            thread for thread in self.project_states.unread(project) if _entry(thread) not in told
        ]
        if not moved and not calls and not unread:
            return HookAnswer()
        counted = [(thread.id, thread.number) for thread in unread]
        text = brief.urgent(project.root.path, counted, [*calls, *moved])
        return HookAnswer(text, (*map(_entry, unread), *map(_digest, [*calls, *moved])))

    async def _calls(self, heard: HookEvent) -> Sequence[str]:
        """Return by what the newest handoff calls for a person, unless it is the session's own."""
        newest = await self.briefs.newest_handoff(heard.project)
        own = self.core.contract(heard.session_id)
        if newest is None or (own and own.path == newest.path):
            return []
        return brief.calls_of(newest.contract)

    def _wait(self, heard: HookEvent) -> None:
        """Take note that the client asks a person for something.

        The request names it, a notification comes some seconds later and does not.
        """
        known = heard.session_id in self.project_states.waiting and not heard.text("tool_name")
        if known or not self.state.session(heard.session_id):
            return
        receipt = Receipt(heard.session_id, "", 0, clock.iso_milliseconds(), "observed")
        self.project_states.waiting[heard.session_id] = Value(keep(_asked(heard), NOW_MAX), receipt)
        self.project_states.touch(heard.project.id, git_too=False)

    def _end(self, heard: HookEvent) -> None:
        """Take note that a session is over; one without a transcript never was one.

        The very first one of a project may end before its directory was noticed.
        """
        known = self.state.session(heard.session_id)
        if known or os.path.isfile(heard.text("transcript_path")):
            self.session_liveness.end(heard.session_id, heard.project.id)
            if not self._leaving:
                self._leaving = True
                self._beside(self._leave())

    async def _leave(self) -> None:
        """Look at all that have ended by then: one look for each would see all of them, too."""
        await asyncio.sleep(END_SECONDS)
        self._leaving = False
        await self.session_liveness.look()

    def _beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _entry(thread: Unread) -> str:
    """Name the latest entry: what comes after it is news again, however much was read."""
    return f"thread {thread.id} {thread.latest}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _asked(heard: HookEvent) -> str:
    """Say what a client asks a person for."""
    tool = heard.text("tool_name")
    if not tool:
        return f"Waiting: {heard.text('message') or 'an answer is needed'}"
    found = heard.fields.get("tool_input")
    given: dict[str, Any] = found if isinstance(found, dict) else {}
    about = [str(given[name]) for name in _ASKED_ABOUT if given.get(name)]
    return " ".join(["Waiting for permission:", tool, *about[:1]])
