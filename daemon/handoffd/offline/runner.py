"""Runs a handler in the client's own process: the daemon's code, without the daemon.

The context has no watchers and nothing that runs in the background. Of its parts each is built,
and its code is loaded, at the first use: a command pays for no more than it needs.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from pydantic import ValidationError

from handoff.common.errors import EXIT_USAGE, HandoffError
from handoff.common.paths import config_file
from handoffd import config
from handoffd.api import registry
from handoffd.api.method import Method, MethodReply, explain, shown
from handoffd.api.terminal_text import Style
from handoffd.config import Config, LiveConfig
from handoffd.context import Context
from handoffd.errors import DamagedError
from handoffd.runtime import log
from handoffd.runtime.directories import make_state_dir
from handoffd.store.core import CoreStore
from handoffd.store.database import IN_MEMORY

# Handoffs are files: a damaged core.db keeps nobody from reading them, or calling for a person.
FROM_FILES = ("open", "list", "review", "escalate")

Data = dict[str, Any]
T = TypeVar("T")


def run(
    command: str, params: Data, style: Data, tell: Callable[[Data], None] | None = None
) -> tuple[Data, str]:
    """Do what the daemon would; return the data, and the text as the daemon would show it."""
    method = registry.method(command)
    given = _read_params(method, params)

    def handle(context: Context) -> Awaitable[MethodReply]:
        return method.handle(context, given, lambda frame: tell and tell(frame["params"]))

    needs_config = command != "thread"
    try:
        data = run_in_process(handle, needs_config=needs_config).data
    except DamagedError:
        if command not in FROM_FILES:
            raise
        data = run_in_process(handle, needs_config=needs_config, core_path=IN_MEMORY).data
    return data, shown(method, data, Style.model_validate(style))


def _read_params(method: Method, params: Data) -> Any:
    try:
        return method.params.model_validate(params)
    except ValidationError as problem:
        refused = HandoffError(explain(method.name, problem))
        refused.exit_code = EXIT_USAGE
        raise refused from None


def run_in_process(
    act: Callable[[Context], Awaitable[T]], *, needs_config: bool, core_path: str = ""
) -> T:
    """Run one coroutine to its end, with core.db open for as long as it takes."""
    settings, unknown = _configuration(needed=needs_config)
    log.keep_silent()
    core_path = core_path or f"{make_state_dir()}/core.db"
    with contextlib.closing(CoreStore(core_path)) as core:
        return _finish(act(OfflineContext(core, settings, unknown)))


def _configuration(*, needed: bool) -> tuple[Config, str]:
    """Return the configuration, and why it is unknown where that stops no command."""
    try:
        return config.load(config_file()), ""
    except HandoffError as problem:
        if needed:
            raise
        return Config(), str(problem)


def _finish(work: Awaitable[T]) -> T:
    # asyncio.run would keep the first Ctrl-C from the code at work.
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_SameThread())
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


class _SameThread(ThreadPoolExecutor):
    """Does at once what the daemon does beside its loop: nobody else waits here.

    So no thread is started, steps are told as they are taken, and Ctrl-C ends them.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as problem:  # noqa: BLE001  it is raised where the result is awaited
            done.set_exception(problem)
        return done


class OfflineContext(Context):
    """The parts that handlers need besides a running daemon; each is built at its first use."""

    def __init__(self, core: CoreStore, settings: Config, config_unknown: str) -> None:
        self.core, self.config = core, LiveConfig(settings)
        self.config_unknown = config_unknown
        self.watchers = []
        self.wiping = asyncio.Lock()
        self.unread_changed = self._renew_brief

    def __getattr__(self, name: str) -> Any:
        """Build a part that was not asked for before."""
        if name not in _PARTS:
            raise AttributeError(f"Without a daemon there is no {name}.")
        part = _PARTS[name](self)
        setattr(self, name, part)
        return part

    def _renew_brief(self, project_id: str) -> None:
        from handoffd.offline import brief

        # The next daemon writes it anyway; the command itself is done.
        with contextlib.suppress(HandoffError, OSError):
            brief.keep(self.core, self.policy, project_id)


def _policy(context: Context) -> Any:
    from handoffd.projects.learning_policy import LearningPolicy

    return LearningPolicy(context.core, context.config)


def _projects(context: Context) -> Any:
    from handoffd.projects.registry import ProjectRegistry

    return ProjectRegistry(context.core)


def _sessions(context: Context) -> Any:
    from handoffd.offline.transcript_sessions import TranscriptSessions

    return TranscriptSessions(context.config.current, context.projects)


def _project_states(context: Context) -> Any:
    from handoffd.projects.project_state import ProjectStates

    return ProjectStates(
        context.core, context.sessions, context.config, context.policy, context.projects
    )


def _contract_writer(context: Context) -> Any:
    from handoffd.contract.contract_writer import ContractWriter

    return ContractWriter(
        context.core,
        context.sessions,
        context.config,
        context.policy,
        context.projects,
        context.project_states,
    )


def _record_maker(context: Context) -> Any:
    from handoffd.tracks.record_maker import RecordMaker

    return RecordMaker(
        context.core,
        context.sessions,
        context.config,
        context.projects,
        context.project_states,
        context.contract_writer,
    )


def _record_requests(context: Context) -> Any:
    from handoffd.triggers.record_requests import RecordRequests

    return RecordRequests(context.core, context.record_maker)


_PARTS: dict[str, Callable[[Context], Any]] = {
    "policy": _policy,
    "projects": _projects,
    "sessions": _sessions,
    "project_states": _project_states,
    "contract_writer": _contract_writer,
    "record_maker": _record_maker,
    "record_requests": _record_requests,
}
