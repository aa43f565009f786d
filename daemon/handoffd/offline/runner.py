"""Run a handler in the client's own process: the daemon's code, without the daemon.

The context has no watchers, and nothing runs in the background. Each part is built, and its code
loaded, at its first use, so that a command pays only for the parts that it needs.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from typing import Any, TypeVar

from pydantic import ValidationError

from handoff.common.errors import EXIT_USAGE, HandoffError
from handoff.common.paths import config_file
from handoffd import config
from handoffd.api import registry
from handoffd.api.method import Method, MethodReply, explain, render_reply
from handoffd.api.terminal_text import Style
from handoffd.config import Config, LiveConfig
from handoffd.context import Context
from handoffd.errors import DamagedError
from handoffd.redaction.redact import use_patterns
from handoffd.runtime import log
from handoffd.runtime.directories import make_state_dir
from handoffd.store.core import CoreStore
from handoffd.store.database import IN_MEMORY

# Handoffs are files: with a damaged core.db they can still be read, and can call for a person.
FROM_FILES = ("open", "list", "review", "escalate")

Data = dict[str, Any]
T = TypeVar("T")


def run(
    command: str, params: Data, style: Data, tell: Callable[[Data], None] | None = None
) -> tuple[Data, str]:
    """Run a command as the daemon does; return its data and the rendered text."""
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
    return data, render_reply(method, data, Style.model_validate(style))


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
    """Run one coroutine to its end, with core.db open until then."""
    settings, unknown = _configuration(needed=needs_config)
    use_patterns(settings.redact.patterns)
    log.keep_silent()
    core_path = core_path or f"{make_state_dir()}/core.db"
    with contextlib.closing(CoreStore(core_path)) as core:
        return _finish(act(OfflineContext(core, settings, unknown)))


def _configuration(*, needed: bool) -> tuple[Config, str]:
    """Return the configuration, and the reason why it is unknown if it is not needed."""
    try:
        return config.load(config_file()), ""
    except HandoffError as problem:
        if needed:
            raise
        return Config(), str(problem)


def _finish(work: Awaitable[T]) -> T:
    # asyncio.run would keep the first Ctrl-C from the running code.
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_SameThread())
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


class _SameThread(ThreadPoolExecutor):
    """Runs at once the work that the daemon runs in threads: no other caller waits here.

    So no thread is started, each step is reported when it is taken, and Ctrl-C ends the work.
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
        """Build a part at its first use."""
        if name not in _PARTS:
            raise AttributeError(f"Without a daemon there is no {name}.")
        module, made, given = _PARTS[name]
        make = getattr(import_module(f"handoffd.{module}"), made)
        part = make(*(getattr(self, needed) for needed in given.split()))
        setattr(self, name, part)
        return part

    def _renew_brief(self, project_id: str) -> None:
        from handoffd.offline import brief

        # The next daemon writes it anyway; the command itself is done.
        with contextlib.suppress(HandoffError, OSError):
            brief.keep(self.core, self.policy, project_id)


# The class of each part, and the parts that its constructor gets.
_PARTS = {
    "policy": ("projects.learning_policy", "LearningPolicy", "core config"),
    "projects": ("projects.registry", "ProjectRegistry", "core"),
    "sessions": ("offline.transcript_sessions", "TranscriptSessions", "config projects"),
    "project_states": (
        "projects.project_state",
        "ProjectStates",
        "core sessions config policy projects",
    ),
    "contract_writer": (
        "contract.contract_writer",
        "ContractWriter",
        "core sessions config policy projects project_states",
    ),
    "record_maker": (
        "tracks.record_maker",
        "RecordMaker",
        "core sessions config projects project_states contract_writer",
    ),
    "record_requests": ("triggers.record_requests", "RecordRequests", "core record_maker"),
}
