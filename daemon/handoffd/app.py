"""The composition root: builds the parts, runs them, stops them in reverse. Nothing else wires."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from handoff import __version__
from handoff.errors import HandoffError
from handoff.plain_text import plain
from handoffd import clock, config, failures, files, lock, log, memory, mounts, service
from handoffd.api.server import Server
from handoffd.archivist import LOOK_SECONDS, Archivist
from handoffd.board import Board
from handoffd.door import Door
from handoffd.errors import DamagedError, StoreError
from handoffd.gate import Gate
from handoffd.herald import Herald
from handoffd.intake import Intake
from handoffd.links import beads_program, git_process, program
from handoffd.lookout import TICK_SECONDS, Lookout
from handoffd.parts import Parts
from handoffd.paths import claude_dirs
from handoffd.projects import Projects
from handoffd.recorder import LOOK_SECONDS as RECORD_SECONDS
from handoffd.recorder import Recorder
from handoffd.redaction.redact import use_patterns
from handoffd.scribe import Scribe
from handoffd.session.state import SessionState
from handoffd.session.storage import load
from handoffd.store import damage, recovery
from handoffd.store.core import CoreStore
from handoffd.store.database import LOOP_BUSY_SECONDS
from handoffd.store.state import open_state
from handoffd.triggers.schedule import Schedule
from handoffd.usher import Usher

HOUSEKEEPING_SECONDS = 30.0
RETENTION_SECONDS = clock.DAY_SECONDS / 4
# How often the log of core.db is brought into it, and a copy made if one is due.
CORE_LOOK_SECONDS = 60.0
RECENT_SESSIONS = 128
STOP_SECONDS = 1.5
STORE_RETRY_SECONDS = 1.0
REBUILD_RETRY_SECONDS = 10.0
SETTLE_SECONDS = 2.0
# They stay once they were needed; by default there would be four more than processors.
THREADS_MAX = 6
_REBUILT = "state.db was damaged; it is at {} and is being rebuilt."


def run(directory: str, config_path: str, log_file: str | None) -> None:
    """Run until told to stop; the lock on the directory is ours."""
    if os.environ.get("HANDOFFD_LIMIT_STARTS") and (why := failures.loop(directory)):
        text = plain(f"handoffd failed again and again, and stays down: {why}")
        print(text, file=sys.stderr)  # noqa: T201
        return
    with failures.noted(directory):
        settings = config.load(config_path)
        log.configure(settings.log.level, log_file)
        beads_program.remove_leftovers()
        if left := program.keep_record(f"{directory}/programs"):
            log.get().warning("orphans_ended", programs=left)
        git_process.remove_leftovers()
        asyncio.run(_main(directory, config_path, settings, log_file))


async def _main(
    directory: str, config_path: str, settings: config.Config, log_file: str | None
) -> None:
    use_patterns(settings.redact.patterns)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS_MAX))
    _recover_before(f"{directory}/core.db")
    had_core = os.path.exists(f"{directory}/core.db")  # noqa: ASYNC240  nobody waits yet
    parts = build(directory, config_path, settings, log_file)
    server = Server(parts)
    tasks: list[asyncio.Task[None]] = []
    try:
        await server.start(service.activated_socket())
        parts.lookout.start()
        _handle_signals(parts)
        parts.schedule.every("contracts", LOOK_SECONDS, parts.archivist.look)
        parts.schedule.every("rescan", TICK_SECONDS, parts.lookout.tick)
        parts.schedule.every("records", RECORD_SECONDS, parts.recorder.look)
        parts.schedule.every("retention", RETENTION_SECONDS, partial(forget_old, parts))
        parts.schedule.every("core", CORE_LOOK_SECONDS, partial(keep_core, parts))
        parts.schedule.start()
        loops = (
            parts.intake.run,
            parts.lookout.run,
            parts.scribe.run,
            parts.door.run,
            partial(_keep_house, directory, server, parts.schedule),
        )
        tasks = [_guarded(_go_on(loop), parts) for loop in loops]
        if had_core:  # and perhaps no time left to wipe what was deleted
            tasks.append(_guarded(keep_core(parts), parts))
        log.get().info("started", version=__version__, socket=parts.socket_path)
        service.notify("READY=1")
        await parts.stop.wait()
    finally:
        service.notify("STOPPING=1")
        await _shut(parts, server, tasks)
        log.get().info("stopped")
    if parts.failed:
        raise HandoffError("A part of handoffd failed.", "See: handoff logs")


def build(directory: str, config_path: str, settings: config.Config, log_file: str | None) -> Parts:
    """Make every part and tie them together."""
    with files.directory(directory, "briefs", create=True) as briefs:
        files.sweep(briefs)
    core = CoreStore(f"{directory}/core.db", LOOP_BUSY_SECONDS)
    aside = damage.name_aside(f"{directory}/state.db")
    state, rebuilt = open_state(f"{directory}/state.db", aside)
    gate = Gate(core, settings)
    projects = Projects(core)
    parts: Parts

    def changed(session: SessionState, project_id: str, last_seconds: float) -> None:
        # Old sessions are read, and answered about, but nothing is written for them.
        if clock.wall() - last_seconds < clock.DAY_SECONDS:
            parts.board.touch(project_id)
            parts.archivist.heard(session, project_id, last_seconds)
            parts.usher.went_on(session)
            parts.herald.heard(session, project_id)

    def published(change: dict[str, Any]) -> None:
        parts.lookout.want_watches()
        for watcher in list(parts.watchers):
            watcher(change)

    intake = Intake(state, gate, projects, changed)
    board = Board(core, state, gate, projects)
    lookout = Lookout(transcript_roots(settings, core), intake, board)
    herald = Herald(board)
    archivist = Archivist(board, herald, lambda: [os.path.dirname(root) for root in lookout.roots])
    recorder = Recorder(board, archivist, herald, directory)
    door = Door(settings.http, directory, lambda: partial(_load_http().opened, parts))
    scribe = Scribe(board, published)
    parts = Parts(
        config_path, settings, core, state, gate, projects, intake, board, scribe, herald,
        archivist, Usher(board, scribe, archivist), recorder, lookout, Schedule(), door,
        log_file, asyncio.Event(),
    )  # fmt: skip
    if rebuilt:
        _begin_anew(parts, aside)
    state.on_damage = partial(_rebuild_soon, parts)
    try:
        _take_up(parts)
    except StoreError:
        if not state.given_up:
            raise
        _rebuild_state(parts)
    core.on_damage = partial(_recover_soon, parts)
    return parts


def _load_http() -> ModuleType:
    """Import the SDK of MCP and uvicorn only when HTTP is wanted: they take 30 MB."""
    return import_module("handoffd.api.http")


def _take_up(parts: Parts) -> None:
    """Go on with what the last run kept."""
    parts.state.sweep()
    parts.board.ended = parts.state.ended(clock.wall() - clock.DAY_SECONDS)
    parts.intake.open()
    for stored in reversed(parts.state.sessions(None, RECENT_SESSIONS)):
        if stored.project_id is None:
            continue
        try:
            session = load(stored.fold)
        except ValueError:
            parts.intake.start_anew({stored.session_id})
        else:
            heard = clock.parse(session.heard_time)
            parts.intake.changed(session, stored.project_id, heard)


def _rebuild_soon(parts: Parts) -> None:
    asyncio.get_running_loop().call_soon(_rebuild_state, parts)


def _rebuild_state(parts: Parts, aside: str = "") -> None:
    """Begin anew with a state.db that was damaged while we used it; nobody is in it now."""
    if not parts.state.given_up:
        return
    aside = aside or damage.name_aside(parts.state.path)
    try:
        parts.state.renew(aside)
    except StoreError as problem:
        parts.intake.problem = problem.title
        later = asyncio.get_running_loop().call_later
        later(REBUILD_RETRY_SECONDS, _rebuild_state, parts, aside)
        return
    parts.intake.problem = ""
    parts.intake.start_anew({entry.cursor.session_id for entry in parts.intake.entries.values()})
    _begin_anew(parts, aside)


def _begin_anew(parts: Parts, aside: str) -> None:
    """Say that state.db is being rebuilt, until everything is read again."""
    log.get().error("state_damaged", moved_to=aside)
    parts.state_rebuilt = _REBUILT.format(aside)
    parts.rebuild = _guarded(_read_anew(parts), parts)


async def _read_anew(parts: Parts) -> None:
    while True:
        await asyncio.sleep(SETTLE_SECONDS)
        if parts.settled:
            break
    parts.state_rebuilt = ""
    log.get().info("state_rebuilt")


def transcript_roots(settings: config.Config, core: CoreStore) -> list[str]:
    """Return every `projects` directory to listen to, by its real path."""
    places = [f"{d}/projects" for d in claude_dirs(settings.claude.config_dirs)]
    found = [os.path.realpath(place) if mounts.answers(place) else place for place in places]
    found += core.transcript_roots()
    return list(dict.fromkeys(found))


async def _go_on(loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a loop that a store may fail under: locked, full or damaged, it is no end of all."""
    while True:
        try:
            await loop()
        except StoreError as problem:
            log.get().warning("store_failed", why=problem.title)
            await asyncio.sleep(STORE_RETRY_SECONDS)


def _guarded(loop: Coroutine[Any, Any, None], parts: Parts) -> asyncio.Task[None]:
    """Run a loop that must not end; if it does, so do we, and the service manager starts anew."""

    def ended(task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            log.failed("loop_failed", problem)
            parts.failed = True
            parts.stop.set()

    task = asyncio.ensure_future(loop)
    task.add_done_callback(ended)
    return task


def _handle_signals(parts: Parts) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: log.asyncio_failed(context))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, parts.stop.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: reload(parts))


def reload(parts: Parts) -> None:
    """Read the configuration again; a broken one changes nothing and is said."""
    try:
        settings = config.load(parts.config_path)
    except HandoffError as problem:
        parts.config_problem = f"{problem.title} The old configuration stays."
        log.get().warning("config_invalid", why=problem.title)
        return
    parts.config_problem = ""
    use_patterns(settings.redact.patterns)
    parts.config = parts.gate.config = settings
    log.configure(settings.log.level, parts.log_path)
    parts.lookout.set_roots(transcript_roots(settings, parts.core))
    parts.intake.requeue("paused", "excluded", "disabled")
    parts.door.want(settings.http)
    log.get().info("config_reloaded")


async def forget_old(parts: Parts) -> None:
    """Forget what is older than is to be kept; by default nothing is, and nothing is loaded."""
    if parts.config.privacy.retention_days:
        from handoffd import oblivion  # noqa: PLC0415

        await oblivion.forget_old(parts)


def _recover_before(path: str) -> None:
    """Recover core.db before it is opened, if it is damaged."""
    recovery.finish(path)
    if problem := recovery.find_problem(path):
        log.get().error("core_damaged", why=problem)
        log.get().warning("core_mended", note=recovery.recover(path, problem).describe())


def _recover_soon(parts: Parts, why: str, *, retry: bool = False) -> None:
    """Recover core.db as soon as the statement that met the damage has given up.

    While that fails, as on a full disk, only the look of each minute tries again.
    """
    idle = parts.recovery is None or parts.recovery.done()
    if idle and (retry or not parts.core_problem):
        log.get().error("core_damaged", why=why)
        parts.recovery = _guarded(_recover(parts, why), parts)


async def _recover(parts: Parts, why: str) -> None:
    """Recover core.db in a thread; if that fails, the next look tries again."""
    async with parts.wiping:
        parts.core.suspend()
        try:
            found = await asyncio.to_thread(recovery.recover, parts.core.path, why)
        except StoreError as problem:
            parts.core_problem = problem.title
            log.get().error("core_not_mended", why=problem.title)
        else:
            parts.core_problem = ""
            log.get().warning("core_mended", note=found.describe())
        parts.core.resume()
    parts.gate.reload()


async def keep_core(parts: Parts) -> None:
    """Bring the log of core.db into it, and copy it when due; in a thread: it may be large."""
    try:
        if parts.core.restore_deleted():
            log.get().warning("core_restored", why="it was deleted")
        if parts.core_problem or recovery.is_lost(parts.core.path):
            if problem := recovery.find_problem(parts.core.path):
                _recover_soon(parts, problem, retry=True)
                return
            parts.core_problem = ""
        due = parts.core.needs_copy()
        if not due and not damage.size(parts.core.path + damage.LOG):
            return
        async with parts.wiping:
            await asyncio.to_thread(_keep, parts.core.path, due=due)
    except DamagedError as damaged:
        _recover_soon(parts, damaged.title)
    except (OSError, HandoffError) as failed:
        parts.copy_problem = str(failed).splitlines()[0]
        log.get().warning("copy_failed", why=parts.copy_problem)
    else:
        parts.copy_problem = ""


def _keep(path: str, *, due: bool) -> None:
    with contextlib.closing(CoreStore(path, LOOP_BUSY_SECONDS)) as core:
        core.shorten_log()
        if due:
            core.back_up()


async def _keep_house(directory: str, server: Server, schedule: Schedule) -> None:
    """Say that we live; see that lock and socket are still ours, and that the clock was not set."""
    ping = service.watchdog_seconds()
    interval = min(ping or HOUSEKEEPING_SECONDS, HOUSEKEEPING_SECONDS)
    while True:
        if ping:
            service.notify("WATCHDOG=1")
        try:
            lock.hold(f"{directory}/handoffd.lock")
        except OSError as problem:  # a full disk, or one that is away: the next look may find it
            log.get().warning("lock_failed", why=log.why(problem))
        await server.keep_bound()
        schedule.check_clock()
        memory.give_back()
        await asyncio.sleep(interval)


async def _shut(parts: Parts, server: Server, tasks: list[asyncio.Task[None]]) -> None:
    """Stop in reverse order; what is unwritten is written, what is read is committed already."""
    await server.stop()
    parts.schedule.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            await parts.scribe.finish()
    parts.scribe.close()
    parts.lookout.stop()
    parts.state.close()
    parts.core.close()
    # The loop drops its handlers when it closes: a second signal would end us with another code.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
