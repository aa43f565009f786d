"""The cost of a record in a long transcript."""

import contextlib
import statistics
import time
from dataclasses import dataclass, field

from measure import Row, Table, seconds
from world import Connection, Session, World, frame

from proc import cpu_seconds

SIZES_MB = (1, 10, 100)
FLAT_MOST = 1.5
# Long enough for each record to be handled alone.
SPACING_SECONDS = 0.02


@dataclass
class Grown:
    """A daemon that has read one transcript of this size."""

    size_mb: int
    world: World
    session: Session
    connection: Connection
    request: bytes
    cpu_each: float = 0.0
    latency: list[float] = field(default_factory=list)


def measure(table: Table, runs: int, appends: int) -> None:
    with contextlib.ExitStack() as stack:
        daemons = [_grown(size, stack) for size in SIZES_MB]
        before = [cpu_seconds(item.world.pid) for item in daemons]
        for number in range(appends):
            for item in daemons:
                item.session.say(f"Step {number} of the work is done.")
                time.sleep(SPACING_SECONDS)
        time.sleep(0.5)
        for item, start in zip(daemons, before, strict=True):
            item.cpu_each = (cpu_seconds(item.world.pid) - start) / appends
        for number in range(runs):
            for item in daemons:
                text = f"Look {number} is over."
                started = item.session.say(text)
                seen = item.connection.wait_for(item.request, text.encode())
                item.latency.append(seen - started)
                time.sleep(SPACING_SECONDS)
    _report(table, daemons)


def _grown(size_mb: int, stack: contextlib.ExitStack) -> Grown:
    world = stack.enter_context(World())
    project = world.project("shop")
    (project / "pyproject.toml").touch()
    session = world.session(project, size_mb * 1_000_000)
    world.start().settle()
    connection = stack.enter_context(contextlib.closing(world.connect()))
    request = frame("show", cwd=str(project))
    session.say("The first step is done.")
    connection.wait_for(request, b"The first step is done.")
    time.sleep(2.5)  # the checkpoint is written
    return Grown(size_mb, world, session, connection, request)


def _report(table: Table, daemons: list[Grown]) -> None:
    costs = [item.cpu_each for item in daemons]
    for item in daemons:
        figure = f"{seconds(item.cpu_each)} processor, visible after "
        figure += seconds(statistics.median(item.latency))
        table.add(Row(f"one more record at {item.size_mb} MB", figure))
    flat = max(costs) / min(costs)
    table.add(
        Row(
            "one more record: dearest over cheapest",
            seconds(max(costs)),
            seconds(min(costs)),
            flat,
            f"<= {FLAT_MOST:g}x",
            flat <= FLAT_MOST,
        )
    )
