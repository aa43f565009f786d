"""The schedule: real intervals, a failing action, and a changed clock."""

import asyncio

from handoffd.runtime import clock
from handoffd.runtime.schedule import Schedule


async def wait_until(condition, seconds=60.0):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  it is a list that grows
            await asyncio.sleep(0.01)


def test_runs_again_and_again():
    """An action runs at its interval, and again after it failed."""
    ran = []

    async def fail():
        ran.append(1)
        raise OSError("no")

    async def main():
        schedule = Schedule()
        schedule.every("it", 0.05, fail)
        schedule.start()
        await wait_until(lambda: len(ran) >= 3)
        schedule.stop()

    asyncio.run(main())


def test_a_slow_action_does_not_pile_up():
    """An action that takes longer than its interval does not run twice at once."""
    running, most = 0, 0

    async def slow():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.2)
        running -= 1

    async def main():
        schedule = Schedule()
        schedule.every("it", 0.02, slow)
        schedule.start()
        await asyncio.sleep(0.5)
        schedule.stop()

    asyncio.run(main())
    assert 1 == most


def test_clock_set_back(monkeypatch):
    """After the clock is set back a day, an action still runs within its interval."""
    ran = []

    async def act():
        ran.append(clock.wall())

    async def main():
        schedule = Schedule()
        schedule.every("it", 0.2, act)
        schedule.start()
        real = clock.wall
        monkeypatch.setattr(clock, "wall", lambda: real() - 86_400)
        from apscheduler.schedulers import base

        class Back(base.datetime):
            @classmethod
            def now(cls, tz=None):
                return cls.fromtimestamp(clock.wall(), tz)

        monkeypatch.setattr(base, "datetime", Back)
        assert schedule.check_clock()
        assert not schedule.check_clock()
        await wait_until(lambda: ran)
        schedule.stop()

    asyncio.run(main())
