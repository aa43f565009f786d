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
from handoff.common.errors import HandoffError
from handoff.common.plain_text import plain
from handoffd import config
from handoffd.agents import registry
from handoffd.agents.agent import BackgroundJob
from handoffd.api.server import SocketServer
from handoffd.checkpoint.checkpoint_reader import CheckpointReader
from handoffd.checkpoint.checkpoint_writer import CheckpointWriter
from handoffd.config import LiveConfig
from handoffd.context import Context, RunningDaemon
from handoffd.contract.contract_writer import ContractWriter
from handoffd.errors import StoreError
from handoffd.fs import files, mounts, start_failures
from handoffd.hooks.brief_writer import BriefWriter
from handoffd.hooks.session_hooks import SessionHooks
from handoffd.ingest.state_rebuild import StateRebuild
from handoffd.ingest.transcript_reader import TranscriptReader
from handoffd.ingest.transcript_watcher import TICK_SECONDS, TranscriptWatcher
from handoffd.links import beads_program, git_process, program
from handoffd.projects.git_questions import GitQuestions
from handoffd.projects.history import ProjectHistory
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.project_state import ProjectStates
from handoffd.projects.registry import ProjectRegistry
from handoffd.projects.stored_sessions import state_of
from handoffd.redaction.redact import use_patterns
from handoffd.runtime import clock, lock, log, memory, service_manager
from handoffd.runtime.announcement import Announcement
from handoffd.runtime.schedule import Schedule
from handoffd.session.state import SessionState
from handoffd.store import damage
from handoffd.store.core import CoreStore
from handoffd.store.core_keeper import CoreKeeper, recover_before_opening
from handoffd.store.database import LOOP_BUSY_SECONDS
from handoffd.store.state import open_state
from handoffd.threads.http_listener import HttpListener
from handoffd.tracks.record_maker import LOOK_SECONDS as RECORD_SECONDS
from handoffd.tracks.record_maker import RecordMaker
from handoffd.triggers.record_requests import RecordRequests
from handoffd.triggers.session_liveness import LOOK_SECONDS, SessionLiveness
from handoffd.triggers.trigger_detector import TriggerDetector

HOUSEKEEPING_SECONDS = 30.0
RETENTION_SECONDS = clock.DAY_SECONDS / 4
# How often the log of core.db is brought into it, and a copy made if one is due.
CORE_LOOK_SECONDS = 60.0
RECENT_SESSIONS = 128
STOP_SECONDS = 1.5
STORE_RETRY_SECONDS = 1.0
JOBS_SECONDS = 2.0
# Threads stay once they were needed; the default is four more than processors.
THREADS_MAX = 6
SessionChanged = Announcement[[SessionState, str, float]]


def run(directory: str, config_path: str, log_file: str | None) -> None:
    """Run until told to stop; the lock on the directory is ours."""
    if os.environ.get("HANDOFFD_LIMIT_STARTS") and (why := start_failures.loop(directory)):
        text = plain(f"handoffd failed again and again, and stays down: {why}")
        print(text, file=sys.stderr)  # noqa: T201
        return
    with start_failures.noted(directory):
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
    recover_before_opening(f"{directory}/core.db")
    had_core = os.path.exists(f"{directory}/core.db")  # noqa: ASYNC240  nobody waits yet
    context = build(directory, config_path, settings, log_file)
    daemon, server = context.daemon, SocketServer(context)
    tasks: list[asyncio.Task[None]] = []
    try:
        await server.start(service_manager.activated_socket())
        daemon.transcript_watcher.start()
        _handle_signals(context)
        daemon.schedule.every("contracts", LOOK_SECONDS, daemon.session_liveness.look)
        daemon.schedule.every("rescan", TICK_SECONDS, daemon.transcript_watcher.tick)
        daemon.schedule.every("records", RECORD_SECONDS, partial(_look_for_triggers, context))
        daemon.schedule.every("retention", RETENTION_SECONDS, partial(forget_old, context))
        daemon.schedule.every("core", CORE_LOOK_SECONDS, daemon.core_keeper.look)
        daemon.schedule.start()
        loops = (
            daemon.transcript_reader.run,
            daemon.transcript_watcher.run,
            daemon.checkpoint_writer.run,
            daemon.http_listener.run,
            partial(_keep_house, directory, server, daemon.schedule),
        )
        tasks = [_guarded(_go_on(loop), context) for loop in loops]
        if had_core:  # the last run may have had no time to wipe deleted rows
            tasks.append(_guarded(daemon.core_keeper.look(), context))
        log.get().info("started", version=__version__, socket=daemon.socket_path)
        service_manager.notify("READY=1")
        await daemon.stop.wait()
    finally:
        service_manager.notify("STOPPING=1")
        await _shut(context, server, tasks)
        log.get().info("stopped")
    if daemon.failed:
        raise HandoffError("A part of handoffd failed.", "See: handoff logs")


def build(
    directory: str, config_path: str, settings: config.Config, log_file: str | None
) -> Context:
    """Make every part and tie them together."""
    with files.directory(directory, "briefs", create=True) as handle:
        files.sweep(handle)
    core = CoreStore(f"{directory}/core.db", LOOP_BUSY_SECONDS)
    aside = damage.name_aside(f"{directory}/state.db")
    state, rebuilt = open_state(f"{directory}/state.db", aside)
    config = LiveConfig(settings)
    policy = LearningPolicy(core, config)
    projects = ProjectRegistry(core)
    states = ProjectStates(core, state, config, policy, projects)
    session_changed: SessionChanged = Announcement()
    project_changed: Announcement[[dict[str, Any]]] = Announcement()

    reader = TranscriptReader(state, policy, projects, only_recent(session_changed))
    watcher = TranscriptWatcher(transcript_roots(settings, core), reader, states)
    checkpoint_reader = CheckpointReader(core, states)
    git_questions = GitQuestions(policy, states)
    brief_writer = BriefWriter(config, policy, states)
    checkpoints = CheckpointWriter(
        core,
        policy,
        projects,
        states,
        checkpoint_reader,
        git_questions,
        brief_writer,
        project_changed,
    )
    contracts = ContractWriter(core, state, config, policy, projects, states)
    records = RecordMaker(core, state, config, projects, states, contracts)
    detector = TriggerDetector(core, config, projects, states)
    liveness = SessionLiveness(state, states, contracts, detector, lambda: watcher.roots)
    states.background_jobs = _jobs_lately(watcher)
    hooks = SessionHooks(
        core,
        state,
        config,
        policy,
        states,
        git_questions,
        checkpoints,
        brief_writer,
        liveness,
        lambda: watcher.first_scan_done and not reader.backlog[0],
    )
    http = HttpListener(settings.http, directory, lambda: partial(_load_http().opened, context))
    wiping = asyncio.Lock()

    def run_guarded(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return _guarded(work, context)

    keeper = CoreKeeper(core, wiping, run_guarded, policy.reload)
    rebuild = StateRebuild(state, reader, run_guarded, lambda: watcher.settled)
    daemon = RunningDaemon(
        config_path=config_path,
        log_path=log_file,
        state=state,
        state_rebuild=rebuild,
        core_keeper=keeper,
        transcript_reader=reader,
        transcript_watcher=watcher,
        git_questions=git_questions,
        brief_writer=brief_writer,
        checkpoint_writer=checkpoints,
        trigger_detector=detector,
        session_liveness=liveness,
        session_hooks=hooks,
        schedule=Schedule(),
        http_listener=http,
        stop=asyncio.Event(),
    )
    context = Context(
        config=config,
        core=core,
        sessions=state,
        policy=policy,
        projects=projects,
        project_states=states,
        contract_writer=contracts,
        record_maker=records,
        record_requests=RecordRequests(core, records),
        daemon=daemon,
        unread_changed=partial(states.touch, git_too=False),
        wiping=wiping,
    )

    states.items_closed.subscribe(contracts.renew_soon)
    states.refreshed.subscribe(checkpoint_reader.look)
    states.published.subscribe(ProjectHistory(state).note)
    session_changed.subscribe(lambda _session, project_id, _at: states.touch(project_id))
    for part in (liveness, hooks, detector, records):
        session_changed.subscribe(part.session_changed)
    project_changed.subscribe(lambda _change: watcher.want_watches())
    project_changed.subscribe(context.tell_watchers)
    if rebuilt:
        rebuild.note_damage(aside)
    state.on_damage = rebuild.begin_soon
    try:
        _take_up(context)
    except StoreError:
        if not state.given_up:
            raise
        rebuild.begin()
    core.on_damage = keeper.recover_soon
    return context


def _jobs_lately(watcher: TranscriptWatcher) -> Callable[[], list[BackgroundJob]]:
    """Return a function that reads the background agents of the last day, for a few seconds."""
    read_at, found = float("-inf"), list[BackgroundJob]()

    def read() -> list[BackgroundJob]:
        nonlocal read_at, found
        if clock.monotonic() - read_at > JOBS_SECONDS:
            since = clock.wall() - clock.DAY_SECONDS
            found = registry.background_jobs(filter(mounts.answers, watcher.roots), since)
            read_at = clock.monotonic()
        return found

    return read


def only_recent(session_changed: SessionChanged) -> Callable[[SessionState, str, float], None]:
    """Announce only sessions of the last day: older ones are read, but nothing is written."""

    def announce(session: SessionState, project_id: str, last_seconds: float) -> None:
        if clock.wall() - last_seconds < clock.DAY_SECONDS:
            session_changed.announce(session, project_id, last_seconds)

    return announce


def _load_http() -> ModuleType:
    """Import the SDK of MCP and uvicorn only when HTTP is wanted: they take 30 MB."""
    return import_module("handoffd.api.http_server")


def _take_up(context: Context) -> None:
    """Continue with the stored state of the last run."""
    daemon = context.daemon
    daemon.state.sweep()
    context.project_states.ended = daemon.state.ended(clock.wall() - clock.DAY_SECONDS)
    daemon.transcript_reader.open()
    for stored in reversed(daemon.state.sessions(None, RECENT_SESSIONS)):
        if stored.project_id is None:
            continue
        try:
            session = state_of(stored)
        except ValueError:
            daemon.transcript_reader.start_anew({stored.session_id})
        else:
            heard = clock.parse(session.heard_time)
            daemon.transcript_reader.changed(session, stored.project_id, heard)


def transcript_roots(settings: config.Config, core: CoreStore) -> list[str]:
    """Return the roots of all transcripts to listen to, by their real paths."""
    places = registry.roots(settings)
    found = [os.path.realpath(place) if mounts.answers(place) else place for place in places]
    found += core.transcript_roots()
    return list(dict.fromkeys(found))


async def _go_on(loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a loop again after a store failed under it: locked, full or damaged."""
    while True:
        try:
            await loop()
        except StoreError as problem:
            log.get().warning("store_failed", why=problem.title)
            await asyncio.sleep(STORE_RETRY_SECONDS)


def _guarded(loop: Coroutine[Any, Any, None], context: Context) -> asyncio.Task[None]:
    """Run a loop that must not fail; else the daemon ends and the service manager restarts it."""

    def ended(task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            log.failed("loop_failed", problem)
            context.daemon.failed = True
            context.daemon.stop.set()

    task = asyncio.ensure_future(loop)
    task.add_done_callback(ended)
    return task


def _handle_signals(context: Context) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: log.asyncio_failed(context))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, context.daemon.stop.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: reload(context))


async def _look_for_triggers(context: Context) -> None:
    """Detect triggers, then make the records that are due; a failure of one stops no other."""
    try:
        await context.daemon.trigger_detector.look()
    except Exception as problem:  # noqa: BLE001  the records that are due are made all the same
        log.failed("records_failed", problem, part="detect")
    await context.record_maker.look()


def reload(context: Context) -> None:
    """Read the configuration again; a broken one changes nothing and is reported."""
    daemon = context.daemon
    try:
        settings = config.load(daemon.config_path)
    except HandoffError as problem:
        daemon.config_problem = f"{problem.title} The old configuration stays."
        log.get().warning("config_invalid", why=problem.title)
        return
    daemon.config_problem = ""
    use_patterns(settings.redact.patterns)
    context.config.current = settings
    log.configure(settings.log.level, daemon.log_path)
    daemon.transcript_watcher.set_roots(transcript_roots(settings, context.core))
    daemon.transcript_reader.requeue("paused", "excluded", "disabled")
    daemon.http_listener.want(settings.http)
    log.get().info("config_reloaded")


async def forget_old(context: Context) -> None:
    """Forget data older than the retention time, if the user set one; else load nothing."""
    if context.config.current.privacy.retention_days:
        from handoffd.privacy import erasure  # noqa: PLC0415

        await erasure.forget_old(context)


async def _keep_house(directory: str, server: SocketServer, schedule: Schedule) -> None:
    """Ping the service manager; check that lock and socket are still ours, and the clock."""
    ping = service_manager.watchdog_seconds()
    interval = min(ping or HOUSEKEEPING_SECONDS, HOUSEKEEPING_SECONDS)
    while True:
        if ping:
            service_manager.notify("WATCHDOG=1")
        try:
            lock.hold(f"{directory}/handoffd.lock")
        except OSError as problem:  # a full disk, or one that is away: the next look may find it
            log.get().warning("lock_failed", why=log.why(problem))
        await server.keep_bound()
        schedule.check_clock()
        memory.give_back()
        await asyncio.sleep(interval)


async def _shut(context: Context, server: SocketServer, tasks: list[asyncio.Task[None]]) -> None:
    """Stop in reverse order; write pending changes. All records that were read are committed."""
    daemon = context.daemon
    await server.stop()
    daemon.schedule.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            await daemon.checkpoint_writer.finish()
    daemon.git_questions.close()
    daemon.transcript_watcher.stop()
    daemon.state.close()
    context.core.close()
    # The loop drops its handlers when it closes: a second signal would end us with another code.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
