"""The speed of understanding a transcript, its memory, and the waiting time of others meanwhile."""

import json
import subprocess
import tempfile
import time
from pathlib import Path

from measure import Row, Table, quantile, seconds
from synthetic import Script
from world import PYTHON, World, append, frame

from handoffd.agents.claude_code.records import parse_line
from handoffd.session.fold import fold
from handoffd.session.state import SessionState
from handoffd.session.storage import dump

LEAST = 0.8
GROWTH_MOST_MB = 30.0
WAIT_MOST_SECONDS = 0.05
LIMIT_SECONDS = 60.0
SAMPLE_MB, LONG_MB, BACKLOG_MB = 20, 100, 10
_FOLD = """
import resource, sys
from pathlib import Path
from handoffd.api.replay import document, replay
def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
short, long = map(Path, sys.argv[1:])
document(replay(short)[0])
before = resident_mb()
document(replay(long)[0])
# Not ru_maxrss: that begins with what the parent had when it forked.
status = Path("/proc/self/status").read_text()
print(int(status.split("VmHWM:")[1].split()[0]) / 1024 - before)
"""


def measure(table: Table, runs: int) -> None:
    lines = list(Script("/home/ann/shop", 3).turns(SAMPLE_MB * 1_000_000))
    ours, floor = [], []
    for _ in range(runs):
        floor.append(_timed(_parse, lines))
        ours.append(_timed(_fold, lines))
    rates = [[sum(map(len, lines)) / 1e6 / took for took in series] for series in (ours, floor)]
    ratio = sorted(ours[n] and floor[n] / ours[n] for n in range(runs))[runs // 2]
    shown = [f"{quantile(series, 0.5):.0f} MB/s" for series in rates]
    table.add(Row("fold", *shown, ratio, f">= {LEAST:g}x", ratio >= LEAST))
    _measure_memory(table)
    _measure_waiting(table)


def _timed(work, lines: list[bytes]) -> float:
    started = time.process_time()
    work(lines)
    return time.process_time() - started


def _parse(lines: list[bytes]) -> None:
    for line in lines:
        json.loads(line)


def _fold(lines: list[bytes]) -> None:
    state, offset = SessionState("s"), 0
    for line in lines:
        for record in parse_line(offset, line).records:
            fold(state, record, "s")
        offset += len(line)
    dump(state)


def _measure_memory(table: Table) -> None:
    """Fold a long transcript in a process of its own, after a short one has warmed it up."""
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / name for name in ("short.jsonl", "long.jsonl")]
        for path, size_mb in zip(paths, (1, LONG_MB), strict=True):
            path.write_bytes(b"".join(Script("/home/ann/shop", 4).turns(size_mb * 1_000_000)))
        done = subprocess.run(
            [PYTHON, "-P", "-c", _FOLD, *map(str, paths)], capture_output=True, check=True
        )
    grown = float(done.stdout)
    table.at_most(f"peak growth over a {LONG_MB} MB transcript", grown, GROWTH_MOST_MB, "MB")


def _measure_waiting(table: Table) -> None:
    """Append a backlog at once, and ask again and again until it is read."""
    with World(in_memory=True) as world:
        project = world.project("shop")
        session = world.session(project, 100_000)
        world.start().settle()
        connection = world.connect()
        request = frame("status")
        append(session.path, b"".join(session.script.turns(BACKLOG_MB * 1_000_000)))
        session.say("The last words of all.")
        waits, known = [], False
        until = time.monotonic() + LIMIT_SECONDS
        while not known and time.monotonic() < until:
            started = time.perf_counter()
            connection.ask(request)
            waits.append(time.perf_counter() - started)
            known = b"The last words of all." in connection.ask(frame("show", cwd=str(project)))
        connection.close()
    if not known:
        raise RuntimeError(f"the backlog was not read within {LIMIT_SECONDS:g} s")
    table.add(
        Row(
            f"status while {BACKLOG_MB} MB are read: longest wait",
            f"{seconds(max(waits))} of {len(waits)}",
            f"median {seconds(quantile(waits, 0.5))}",
            bar=f"<= {seconds(WAIT_MOST_SECONDS)}",
            passed=max(waits) <= WAIT_MOST_SECONDS,
        )
    )
