"""The first start over a large tree: ours, a bare reader and other programs, in turns."""

import os
import random
import re
import shutil
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import peers
from measure import Row, Table, spread
from peers import PeerError
from world import PYTHON, World

from proc import children, cpu_seconds

FILES_EACH = 20
READY_MOST_SECONDS = 2.0
COMPLETE_LEAST = 0.8
# To ask more often would slow down the measured program.
PAUSE_SECONDS = 0.1
RUN_MOST_SECONDS = 300.0
_LOOK_SECONDS = 0.01
_DAY = 24 * 3600.0
# Of sizes, in medians: many sessions are small, one in a hundred is a hundred times as large.
_SPREAD, _LARGEST = 2.0, 1500.0
_WRITTEN_TOKENS = re.compile(rb'"output_tokens":(\d+)')
_BARE = """
import json, os, sys
for directory, _, names in os.walk(sys.argv[1]):
    for name in names:
        with open(f"{directory}/{name}", "rb") as stream:
            for line in stream:
                json.loads(line)
"""
WHY = (
    "Why the loop is not reached, by profile: of a small file a third of the time is making "
    "sense of what was said last, and a fifth SQLite, which keeps each file's cursor and "
    "state; of a large one no part takes more than a tenth. Old transcripts are read in "
    "slices of five milliseconds, after all that is new, so nobody waits for them."
)
DIFFERENCES = (
    "All read the same files, from the page cache. The work is not the same: ccusage (native) adds "
    "up tokens, fast-resume (native) makes an index to search in, the bare loop keeps nothing; "
    "handoffd folds every record into a session's state, masks the secrets in it, writes it down, "
    "and answers its socket meanwhile. Complete is counted from the start of each process."
)


@dataclass
class Reader:
    """A program that reads the whole tree, and the costs of each of its runs."""

    name: str
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)

    def read(self) -> None:
        raise NotImplementedError

    @property
    def peak(self) -> str:
        return f"{statistics.median(self.peak_bytes) / 1e6:.0f} MB"


@dataclass
class Ours(Reader):
    """A daemon that has no memory yet, until it has read everything."""

    world: World = field(kw_only=True)
    ready: list[float] = field(default_factory=list)

    def read(self) -> None:
        shutil.rmtree(self.world.home / ".local", ignore_errors=True)
        began = time.perf_counter()
        self.world.start()
        self.ready.append(time.perf_counter() - began)
        self.world.settle(PAUSE_SECONDS)
        self.wall.append(time.perf_counter() - began)
        self.cpu.append(cpu_seconds(self.world.pid))
        self.peak_bytes.append(_peak_bytes(self.world.pid))
        self.world.stop()


@dataclass
class Other(Reader):
    """A program that reads, says something and ends."""

    words: list[str] = field(kw_only=True)
    environment: dict[str, str] = field(kw_only=True)
    says: str = ""

    def read(self) -> None:
        began, peak = time.perf_counter(), 0
        log = Path(self.environment["HOME"]) / "said"
        with log.open("wb") as said:
            process = subprocess.Popen(
                self.words, env=self.environment, cwd=self.environment["HOME"],
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            peak = max(peak, _peak_of_all(process.pid))
            if time.perf_counter() - began > RUN_MOST_SECONDS:
                process.kill()
            time.sleep(_LOOK_SECONDS)
        self.wall.append(time.perf_counter() - began)
        _, process.returncode, usage = ended
        if process.returncode or self.says not in log.read_text():
            raise RuntimeError(f"{self.name} said: {log.read_text()[-300:]}")
        self.cpu.append(usage.ru_utime + usage.ru_stime)
        self.peak_bytes.append(peak)


def measure(table: Table, runs: int, files: int, size_mb: int) -> None:
    with World() as world:
        size_bytes, tokens = _write(world, files, size_mb * 1_000_000)
        ours = Ours("handoffd", world=world)
        bare = _bare(world)
        others = _others(table, world, files, tokens)
        _take_turns([ours, bare, *others], runs)
    what = f"{size_bytes / 1e9:.2f} GB in {files:,} files"
    _report(table, what, ours, bare, others)
    table.notes += [f"{runs} runs of each.", DIFFERENCES, WHY]


def _write(world: World, files: int, size_bytes: int) -> tuple[int, int]:
    """Write sessions that are older than a day: no other file is written for them.

    Return the number of bytes, and the number of tokens that they name.
    """
    draw = random.Random(7)
    shares = [min(draw.lognormvariate(0.0, _SPREAD), _LARGEST) for _ in range(files)]
    each = size_bytes / sum(shares)
    projects = [world.project(f"project{number}") for number in range(files // FILES_EACH)]
    written = tokens = 0
    for number, share in enumerate(shares):
        ago = (2 + 180 * number / files) * _DAY
        project = projects[number % len(projects)]
        session = world.session(project, int(share * each), seed=number, ago_seconds=ago)
        content = session.path.read_bytes()
        written += len(content)
        tokens += sum(map(int, _WRITTEN_TOKENS.findall(content)))
    os.sync()  # or the disk would be at work while we measure
    return written, tokens


def _bare(world: World) -> Other:
    words = [PYTHON, "-I", "-S", "-c", _BARE, str(world.transcripts)]
    return Other("a bare json loop", words=words, environment=_home(world, "bare"))


def _others(table: Table, world: World, files: int, tokens: int) -> list[Other]:
    """Return the other programs, each with its output after it has read everything."""
    found = []
    for name, program, options, says in (
        ("ccusage", "ccusage", ["daily", "--offline"], f"{tokens:,}"),
        ("fast-resume", "fr", ["--rebuild", "--stats"], f"Indexed {files} sessions"),
    ):
        try:
            words = [str(peers.programs(name) / program), *options]
        except PeerError as problem:
            table.add(Row(f"against {name}", f"not measured: {problem}", passed=False))
        else:
            found.append(Other(name, words=words, environment=_home(world, name), says=says))
    return found


def _home(world: World, name: str) -> dict[str, str]:
    """Return the environment of a program that sees the tree in a HOME of its own."""
    home = world.base / name
    home.mkdir()
    (home / ".claude").symlink_to(world.home / ".claude")
    return world.environment | {"HOME": str(home)}


def _take_turns(readers: list[Reader], runs: int) -> None:
    """Run each once per round, each round beginning with another."""
    for number in range(runs):
        first = number % len(readers)
        for reader in readers[first:] + readers[:first]:
            reader.read()


def _peak_of_all(pid: int) -> int:
    """Return the highest peak memory of a process and its children."""
    try:
        return max(_peak_bytes(pid), *map(_peak_of_all, children(pid)), 0)
    except OSError:  # it is over
        return 0


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def _report(table: Table, what: str, ours: Ours, bare: Other, others: list[Other]) -> None:
    kept = statistics.median(ours.ready) <= READY_MOST_SECONDS
    bar = f"<= {READY_MOST_SECONDS:g} s"
    table.add(Row(f"{what}: ready", spread(ours.ready), "", None, bar, kept))
    table.faster(f"complete, against {bare.name}", ours.wall, bare.wall, COMPLETE_LEAST)
    for other in others:
        table.faster(f"complete, against {other.name}", ours.wall, other.wall)
    for other in (bare, *others):
        table.faster(f"complete: processor, against {other.name}", ours.cpu, other.cpu)
    beside = ", ".join(f"{other.name} {other.peak}" for other in (bare, *others))
    table.add(Row("complete: most memory", ours.peak, beside))
