"""From a line that is appended to a transcript to the artifact that says so, at each size."""

import contextlib
import json
import os
import random
import statistics
import subprocess
import time
from pathlib import Path

import peers
import plot
from measure import Row, Table, quantile, seconds, spread
from peers import PeerError
from world import World, append, end_group, frame

from proc import children, cpu_seconds

FLAT_MOST = 1.5
P95_MOST_MS = 100.0
HOOK_LEAST, HOOK_LEAST_AT = 1.0, {100: 8.0}
LOG_LEAST_AT = {10: 50.0}
# Sizes that claude-code-log converts in each round, and only once because of the time it takes.
LOG_MOST_MB, LOG_ONCE_MB = 10, 100
# The daemon writes at once after quiet, and then at most every two seconds.
QUIET_SECONDS = (2.3, 2.6)
POLL_SECONDS = 0.0005
_WORKLOADS = """\
The artifacts differ: handoff.yaml and claude-handoff's digest are summaries, claude-code-log \
renders the whole transcript. handoffd and claude-code-log notice the line by themselves; \
claude-handoff's hook is started with the line here, while Claude Code runs it when a session \
ends or is compacted. Each line of handoffd's comes after two seconds of quiet: while lines keep \
coming, handoff.yaml is written every two seconds, and the socket knows each of them at once."""
_ONCE = f"""\
Of claude-code-log one update was measured at {LOG_ONCE_MB} MB, and none beyond, for the time that \
it takes."""


class Follower:
    """A program that follows one session, in a HOME of its own, and the time of each append."""

    name = ""
    peer = ""
    limit_seconds = 60.0

    def __init__(self, world: World, size_mb: int) -> None:
        self.world, self.size_mb = world, size_mb
        self.project = world.project(f"shop{size_mb}", git=True)
        self.session = world.session(self.project, size_mb * 1_000_000, seed=size_mb)
        self.program = str(peers.programs(self.peer) / self.peer) if self.peer else ""
        self.times: list[float] = []

    @property
    def artifact(self) -> Path:
        raise NotImplementedError

    def take(self, number: int) -> None:
        """Append a line, and wait until the artifact says it."""
        self.rest()
        text = f"{type(self).__name__}, step {number} of the work is done."
        appended = self.append(text)
        self.times.append(self.seen(text.encode()) - appended)
        self.end()

    def rest(self) -> None:
        """Wait until all earlier work is done."""

    def append(self, text: str) -> float:
        return self.session.say(text)

    def seen(self, wanted: bytes) -> float:
        return wait_for(self.artifact, wanted, self.limit_seconds)

    def end(self) -> None:
        """Wait for running work."""

    def ready(self) -> None:
        """Wait until the first line may be appended."""

    def close(self) -> None:
        """End the started processes."""


class Ours(Follower):
    """handoff.yaml, in the project."""

    name = "handoffd, file"

    def __init__(self, world: World, size_mb: int) -> None:
        super().__init__(world, size_mb)
        self.due = 0.0
        self.gaps = random.Random(size_mb)

    @property
    def artifact(self) -> Path:
        return self.project / ".flow-guardian/handoff.yaml"

    def rest(self) -> None:
        time.sleep(max(self.due - time.monotonic(), 0.0))

    def append(self, text: str) -> float:
        appended = super().append(text)
        self.due = appended + self.gaps.uniform(*QUIET_SECONDS)
        return appended


class Asked(Follower):
    """The same session, as `show` tells it over the socket."""

    name = "handoffd, socket"

    def __init__(self, written: Ours) -> None:
        self.written, self.size_mb = written, written.size_mb
        self.times = []
        self._request = frame("show", cwd=str(written.project))

    def rest(self) -> None:
        self.written.rest()

    def append(self, text: str) -> float:
        return self.written.append(text)

    def seen(self, wanted: bytes) -> float:
        with contextlib.closing(self.written.world.connect()) as connection:
            return connection.wait_for(self._request, wanted)


class Hook(Follower):
    """claude-handoff, as Claude Code would run the hook that it installs, right after the line."""

    name = peer = "claude-handoff"

    def __init__(self, world: World, size_mb: int) -> None:
        super().__init__(world, size_mb)
        given = {
            "session_id": self.session.script.id,
            "transcript_path": str(self.session.path),
            "cwd": str(self.project),
            "hook_event_name": "SessionEnd",
            "reason": "other",
        }
        self._given = json.dumps(given).encode() + b"\n"
        self._process: subprocess.Popen | None = None

    @property
    def artifact(self) -> Path:
        return self.world.home / f".claude/handoffs/{self.session.path.stem}.md"

    def rest(self) -> None:
        # Its digest cuts an answer short, and the line would be the end of one.
        append(self.session.path, self.session.script.prompt("Go on."))

    def append(self, text: str) -> float:
        appended = super().append(text)
        self._process = subprocess.Popen(
            [self.program, "--hook-stdin"], env=self.world.environment, cwd=self.project,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._process.stdin.write(self._given)
        self._process.stdin.close()
        return appended

    def end(self) -> None:
        if self._process.wait(60):
            raise RuntimeError(f"{self.name} ended with {self._process.returncode}")

    def close(self) -> None:
        if self._process:
            end_group(self._process)


class Log(Follower):
    """claude-code-log, which watches the transcripts of the project."""

    name = peer = "claude-code-log"
    limit_seconds = 600.0

    def __init__(self, world: World, size_mb: int) -> None:
        super().__init__(world, size_mb)
        with (world.base / f"watch{size_mb}.log").open("wb") as log:
            self._process = subprocess.Popen(
                # Named, since it would not find the directory of a path with an underscore.
                [self.program, "watch", "-f", "md", str(self.session.path.parent)],
                env=world.environment, cwd=self.project,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    @property
    def artifact(self) -> Path:
        return self.session.path.with_name(f"session-{self.session.path.stem}.md")

    def ready(self) -> None:
        """Wait until it has converted the existing transcript."""
        deadline = time.monotonic() + self.limit_seconds
        while not self.artifact.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} converted nothing")
            time.sleep(0.05)
        self.end()

    def end(self) -> None:
        """Wait until it rests: its work after the artifact must not slow the next one."""
        deadline, before = time.monotonic() + self.limit_seconds, -1.0
        while (busy := self._busy_seconds()) - before > 0.02:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not rest")
            before = busy
            time.sleep(0.7)

    def _busy_seconds(self) -> float:
        pids = [self._process.pid, *children(self._process.pid)]
        return sum(cpu_seconds(pid) for pid in pids)

    def close(self) -> None:
        end_group(self._process)


def wait_for(path: Path, wanted: bytes, limit_seconds: float) -> float:
    """Look again and again until a file holds the bytes; returns when it did."""
    deadline, known = time.monotonic() + limit_seconds, None
    while time.monotonic() < deadline:
        stamp = _stamp(path)
        if stamp not in (None, known):
            known = stamp
            if wanted in path.read_bytes():
                return time.monotonic()
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"{path.name} did not say {wanted!r} within {limit_seconds:g} s")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _ours(stack: contextlib.ExitStack, sizes_mb: tuple[int, ...]) -> tuple[list[Ours], list[Asked]]:
    """Let one daemon read sessions of all sizes, each in a project of its own."""
    world = stack.enter_context(World())
    written = [Ours(world, size) for size in sizes_mb]
    world.start().settle()
    for each in written:
        wait_for(each.artifact, b"", each.limit_seconds)
    time.sleep(QUIET_SECONDS[1])
    return written, [Asked(each) for each in written]


def _others(
    table: Table, stack: contextlib.ExitStack, kind: type[Follower], sizes_mb: list[int]
) -> list[Follower]:
    """Start a peer for each size; one that cannot be had is a bar missed."""
    world, found = stack.enter_context(World()), []
    try:
        for size in sizes_mb:
            found.append(kind(world, size))
            stack.callback(found[-1].close)
            found[-1].ready()
    except PeerError as problem:
        row = f"append -> artifact, against {kind.name}"
        table.add(Row(row, f"not measured: {problem}", passed=False))
    return found


def _watched_once(size_mb: int) -> Log:
    """Measure one update of a size that takes too long for ten."""
    with World() as world, contextlib.closing(Log(world, size_mb)) as log:
        log.ready()
        log.take(0)
    return log


def measure(table: Table, sizes_mb: tuple[int, ...], rounds: int, peer_rounds: int) -> None:
    """Measure ours in each round, and the others in some of them, all in turns."""
    with contextlib.ExitStack() as stack:
        written, asked = _ours(stack, sizes_mb)
        hooks = _others(table, stack, Hook, list(sizes_mb))
        logs = _others(table, stack, Log, [size for size in sizes_mb if size <= LOG_MOST_MB])
        # Only ours waits for the disk, and would wait for the transcripts that were just written.
        os.sync()
        every = max(rounds // peer_rounds, 1)
        for number in range(rounds):
            due = [*written, *asked] if number % every else [*written, *hooks, *logs, *asked]
            first = number % len(due)
            for follower in due[first:] + due[:first]:
                follower.take(number)
    table.notes.append(_WORKLOADS)
    if LOG_ONCE_MB in sizes_mb and logs:
        logs.append(_watched_once(LOG_ONCE_MB))
        table.notes.append(_ONCE)
    _report_ours(table, written, asked)
    _report_hooks(table, written, hooks)
    _report_logs(table, written, logs)
    table.drawings["freshness"] = _drawing([written, asked, hooks, logs])


def _report_ours(table: Table, written: list[Ours], asked: list[Asked]) -> None:
    for each, told in zip(written, asked, strict=True):
        late_ms = quantile(each.times, 0.95) * 1e3
        what, bar = f"{each.size_mb} MB: handoff.yaml", f"p95 <= {P95_MOST_MS:g} ms"
        table.add(Row(what, spread(each.times), bar=bar, passed=late_ms <= P95_MOST_MS))
        table.add(Row(f"{each.size_mb} MB: `show` over the socket", spread(told.times)))
    first, last = written[0], written[-1]
    what = f"handoff.yaml: {last.size_mb} MB beside {first.size_mb} MB"
    table.times(what, last.times, first.times, FLAT_MOST)


def _report_hooks(table: Table, written: list[Ours], hooks: list[Follower]) -> None:
    for ours, other in zip(written, hooks, strict=False):
        least = HOOK_LEAST_AT.get(other.size_mb, HOOK_LEAST)
        row = f"{other.size_mb} MB: handoff.yaml against {other.name}'s hook"
        table.faster(row, ours.times, other.times, least)


def _report_logs(table: Table, written: list[Ours], logs: list[Follower]) -> None:
    for ours, other in zip(written, logs, strict=False):
        row = f"{other.size_mb} MB: handoff.yaml against {other.name} watch"
        if len(other.times) > 1:
            table.faster(row, ours.times, other.times, LOG_LEAST_AT.get(other.size_mb))
        else:
            took = other.times[0]
            ratio = took / statistics.median(ours.times)
            table.add(Row(row, spread(ours.times), f"{seconds(took)} (1 run)", ratio))


def _drawing(groups: list[list[Follower]]) -> str:
    lines = {
        group[0].name: [(each.size_mb, statistics.median(each.times)) for each in group]
        for group in groups
        if group
    }
    title = "From an appended line until the artifact has it (median, logarithmic)"
    return plot.draw(title, "size of the transcript", lines)
