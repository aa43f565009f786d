"""run_due: run all scheduled work now; only with HANDOFFD_TEST=1, for tests.

A test that proves that nothing happens calls it instead of sleeping, and a test of scheduled work
need not wait for the schedule.
"""

import asyncio
from collections.abc import Callable

from handoffd.api.method import Method, MethodReply, Params, Send
from handoffd.context import Context
from handoffd.runtime import clock

POLL_SECONDS = 0.005
WAIT_SECONDS = 60.0


async def handle(context: Context, _params: Params, _send: Send) -> MethodReply:
    await _scan(context)
    await _scan(context)  # the first one may have begun before the request came
    await _until(lambda: context.daemon.transcript_watcher.settled)
    await _write_files(context)
    await context.daemon.schedule.run_all()
    await _write_files(context)
    return MethodReply({})


async def _scan(context: Context) -> None:
    scans = context.daemon.transcript_watcher.rescans
    context.daemon.transcript_watcher.want_rescan()
    await _until(lambda: context.daemon.transcript_watcher.rescans > scans)


async def _write_files(context: Context) -> None:
    """Write the files of every project; a write that fails is tried once."""
    for active in context.project_states.active_projects.values():
        active.write_not_before = active.git.not_before = 0.0
    context.project_states.changed.set()
    await _until(lambda: not _writes(context))


def _writes(context: Context) -> bool:
    """Return True while a project's files are being written, or will be after the usual pause."""
    now, busy = clock.monotonic(), False
    for active in context.project_states.active_projects.values():
        if active.dirty and not active.problem and active.write_not_before > now:
            active.write_not_before = 0.0
            context.project_states.changed.set()
        due = active.dirty and active.write_not_before <= now
        asks = active.git.wanted and active.git.not_before <= now
        busy = busy or due or asks or active.git.asking or active.turn.locked()
    return busy


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110  several parts, none of which knows of it
            await asyncio.sleep(POLL_SECONDS)


METHOD = Method("run_due", Params, handle, lambda _data, _style: "")
