"""What a record costs in a long transcript, and how fast a first start reads."""

import contextlib
import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from measure import Row, Table, quantile, seconds
from world import PYTHON, Connection, Session, World, frame

from proc import cpu_seconds

SIZES_MB = (1, 10, 100)
FLAT_MOST = 1.5
# Long enough for each record to be handled alone.
SPACING_SECONDS = 0.02
BACKFILL_PROJECTS, BACKFILL_SESSIONS = 10, 50
_DAY = 24 * 3600.0
_BARE = """
import json, sys, time
started, busy = time.perf_counter(), time.process_time()
for path in sys.argv[1:]:
    with open(path, "rb") as stream:
        for line in stream:
            json.loads(line)
print(json.dumps([time.perf_counter() - started, time.process_time() - busy]))
"""


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


# The first start


def measure_backfill(table: Table, runs: int, size_mb: int) -> None:
    with World(in_memory=True) as world:
        paths = list(_backfill_set(world, size_mb * 1_000_000))
        size = sum(path.stat().st_size for path in paths) / 1e6
        ours, floor = [], []
        for _ in range(runs):
            ours.append(_first_read(world))
            floor.append(_bare_read(paths))
    for index, what in enumerate(("wall", "processor")):
        rates = [size / took[index] for took in ours]
        bare = [size / took[index] for took in floor]
        ratio = statistics.median(rates) / statistics.median(bare)
        table.add(Row(f"first read of {size:.0f} MB: {what}", _rate(rates), _rate(bare), ratio))


def _rate(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} MB/s (p5 {quantile(values, 0.05):.0f})"


def _backfill_set(world: World, size_bytes: int) -> Iterator[Path]:
    projects = [world.project(f"project{number}") for number in range(BACKFILL_PROJECTS)]
    for number in range(BACKFILL_SESSIONS):
        project = projects[number % BACKFILL_PROJECTS]
        size = size_bytes // BACKFILL_SESSIONS
        session = world.session(project, size, seed=number, ago_seconds=(2 + number) * _DAY)
        yield session.path


def _first_read(world: World) -> tuple[float, float]:
    """Start without a memory and read everything; returns wall and processor seconds.

    The clock runs from the moment the socket answers, which is when reading begins.
    """
    for path in (world.home / ".local/state/handoffd").glob("*.db*"):
        path.unlink()
    world.start()
    started, busy = time.perf_counter(), cpu_seconds(world.pid)
    world.settle(0.02)
    wall = time.perf_counter() - started
    busy = cpu_seconds(world.pid) - busy
    world.stop()
    return wall, busy


def _bare_read(paths: list[Path]) -> tuple[float, float]:
    done = subprocess.run(
        [PYTHON, "-I", "-S", "-c", _BARE, *map(str, paths)],
        capture_output=True, check=True, timeout=300,
    )  # fmt: skip
    wall, busy = json.loads(done.stdout)
    return wall, busy
