"""Repeated work: the only importer of APScheduler.

No job store is used: our own store says which work was done. A late job is run once instead of
being dropped, since a machine may sleep.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from handoffd.runtime import clock, log

Action = Callable[[], Awaitable[None]]
# The wall clock and the monotonic clock drift apart by this much only if the wall clock was set or
# the machine slept.
JUMP_SECONDS = 5.0


class Schedule:
    """Runs actions on the event loop."""

    def __init__(self) -> None:
        self._scheduler = AsyncIOScheduler(
            timezone=UTC,
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )
        self._offset = clock.wall() - clock.monotonic()
        self._actions: dict[str, Action] = {}
        # All intervals begin at this time, so that one wake-up serves several jobs.
        self._start = datetime.fromtimestamp(clock.wall(), UTC)

    def start(self) -> None:
        self._scheduler.start()

    def stop(self) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def every(self, name: str, seconds: float, action: Action) -> None:
        """Run an action at an interval, for the first time after one interval."""
        turn = asyncio.Lock()

        async def guarded() -> None:
            async with turn:
                try:
                    await action()
                except Exception as problem:  # noqa: BLE001  the next run may succeed
                    log.failed("scheduled_failed", problem, job=name)

        first = self._start + timedelta(seconds=seconds)
        trigger = IntervalTrigger(seconds=seconds, start_date=first, timezone=UTC)
        self._scheduler.add_job(guarded, trigger, id=name, replace_existing=True)
        self._actions[name] = guarded

    async def run_all(self) -> None:
        """Run every action once, now, in the order in which they were added."""
        for action in self._actions.values():
            await action()

    def check_clock(self) -> bool:
        """Restart every interval if the clock was set or the machine slept; return True if so.

        APScheduler waits for a time of day: if the clock is set back by a day, it waits for a day.
        """
        offset = clock.wall() - clock.monotonic()
        if abs(offset - self._offset) < JUMP_SECONDS:
            return False
        self._offset = offset
        now = datetime.fromtimestamp(clock.wall(), UTC)
        for job in self._scheduler.get_jobs():
            interval: timedelta = job.trigger.interval
            job.modify(next_run_time=now + interval)
        return True
