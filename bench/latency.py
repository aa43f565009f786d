"""From an appended record to the answer that shows it, over bare watchdog."""

import contextlib
import os
import random
import select
import statistics
import subprocess
import time
from pathlib import Path

from measure import Row, Table, quantile, ratio_row, seconds
from world import PYTHON, World, append, frame

EVENT_MOST = 15.0
P99_MOST_MS = 100.0
# An append now and then, out of step with the two seconds of the checkpoint.
GAP_SECONDS = (0.02, 0.06)


class Watcher:
    """The bare observer in its process."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [PYTHON, str(Path(__file__).with_name("watcher.py")), str(directory)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        self._read(10)

    def seen(self) -> float:
        """Return when the last append was seen."""
        return float(self._read(10).split()[0])

    def drain(self) -> None:
        while self._ready(0):
            self._read(1)

    def close(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _ready(self, limit_seconds: float) -> bool:
        return bool(select.select([self._process.stdout], [], [], limit_seconds)[0])

    def _read(self, limit_seconds: float) -> bytes:
        if not self._ready(limit_seconds):
            raise RuntimeError(f"watchdog reported nothing within {limit_seconds:g} s")
        return os.read(self._process.stdout.fileno(), 1 << 16)


def measure(table: Table, runs: int) -> None:
    with World() as world:
        bare = world.base / "bare"
        bare.mkdir()
        with contextlib.closing(Watcher(bare, world.environment)) as watcher:
            ours, floor, asked = _take_turns(world, watcher, bare / "file.jsonl", runs)
    for share, most in ((0.5, EVENT_MOST), (0.95, None)):
        one, other = quantile(ours, share), quantile(floor, share)
        what = f"append -> visible over the socket: p{share * 100:g}"
        table.add(ratio_row(what, seconds(one), seconds(other), one / other, most))
    table.at_most(
        "append -> visible over the socket: p99",
        quantile(ours, 0.99) * 1e3,
        P99_MOST_MS,
        "ms",
        seconds(quantile(floor, 0.99)),
    )
    table.add(Row("one `show` on an open connection: p50", seconds(statistics.median(asked))))


def _take_turns(
    world: World, watcher: Watcher, bare: Path, runs: int
) -> tuple[list[float], list[float], list[float]]:
    project = world.project("shop", git=True)
    session = world.session(project, 200_000)
    world.start().settle()
    bare.touch()
    request = frame("show", cwd=str(project))
    gaps = random.Random(2)
    ours, floor, asked = [], [], []
    with contextlib.closing(world.connect()) as connection:
        for number in range(-3, runs):
            time.sleep(gaps.uniform(*GAP_SECONDS))
            watcher.drain()
            text = f"Step {number} of the work is done."
            floor_started = append(bare, session.script.say(text))
            floor_seen = watcher.seen()
            time.sleep(gaps.uniform(*GAP_SECONDS))
            started = session.say(text)
            seen = connection.wait_for(request, text.encode())
            if number >= 0:  # the first rounds warm up
                floor.append(floor_seen - floor_started)
                ours.append(seen - started)
                asked.append(-time.monotonic())
                connection.ask(request)
                asked[-1] += time.monotonic()
    return ours, floor, asked
