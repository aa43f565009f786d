"""The cost of standing by: daemons that have read everything and wait, all at the same time."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import peers
from measure import Row, Table
from peers import PeerError
from servers import Ours
from world import PYTHON, World, end_group, resting_memory

from proc import cpu_seconds, descriptors, memory_bytes, switches, threads

FEW, MANY, MOST = 10, 1_000, 10_000
SESSIONS_EACH, RECENT_PROJECTS, SESSION_BYTES = 5, 10, 12_000
RELAYS = 10
RESIDENT_MOST_MB, HTTP_MOST_MB = 55.0, 85.0
FURTHER_MOST_KB = 1.0
WAKE_UPS_MOST = 1.0
# Time enough to write the recent checkpoints, to ask git and to choose the watches.
SETTLE_SECONDS = 15.0
WATCH_START_SECONDS = 120.0
WATCH = "claude-code-log"
_HOUR = 3600.0
_IMPORTS = """
import sys
from handoffd.runtime import memory
memory.use_one_heap()
import handoffd.app
print("ready", flush=True)
sys.stdin.read()
"""
NO_DAEMON = (
    "The other programs that are compared here have no daemon: while nothing happens they cost "
    "nothing at all, and this table is the price of one. `claude-code-log watch` is the only one "
    "that stands by; it is started for all projects, has the same sessions as the daemon beside "
    "it, and has rendered them before."
)


@dataclass
class Standing:
    """A process that waits, and its costs."""

    what: str
    pid: int
    resident_mb: float = 0.0
    proportional_mb: float = 0.0
    threads: int = 0
    descriptors: int = 0
    wake_ups: float = 0.0
    share: float = 0.0

    @property
    def handles(self) -> str:
        return f"{self.threads}, {self.descriptors}"


def measure(table: Table, window_seconds: float) -> None:
    with contextlib.ExitStack() as stack:
        worlds = {count: _filled(stack, count) for count in (FEW, MANY, MOST)}
        listener = _filled(stack, MANY)
        floor_mb = resting_memory([PYTHON, "-P", "-c", _IMPORTS], listener.environment)[0] / 1e6
        for world in (*worlds.values(), listener):
            port = _open_listener(world) if world is listener else 0
            world.start().settle(0.5)
            if port:
                _use_listener(world, port)
        found = {count: Standing(_known(count), world.pid) for count, world in worlds.items()}
        http = Standing(f"{_known(MANY)}, HTTP on", listener.pid)
        watch = _start_watch(table, stack)
        time.sleep(SETTLE_SECONDS)
        _observe([*found.values(), http, *(other for _, other in watch)], window_seconds)
        _report(table, found, floor_mb)
        _report_http(table, http)
        _report_relays(table, worlds[MANY])
    for count, other in watch:
        _report_watch(table, found[count], other)
    table.notes += [f"Nothing happened for {window_seconds:.0f} s.", NO_DAEMON]


def _known(count: int) -> str:
    return f"{count:,} sessions known"


def _filled(stack: contextlib.ExitStack, count: int) -> World:
    """Return a HOME with so many sessions, a few of them recent and in repositories."""
    # In memory: a wait for the disk would be counted as a wake-up.
    world = stack.enter_context(World(in_memory=True))
    for number in range(count // SESSIONS_EACH):
        recent = number < RECENT_PROJECTS
        project = world.project(f"project{number}", git=recent)
        for index in range(SESSIONS_EACH):
            ago = (1 + index) * _HOUR if recent else (30 + number + index) * 24 * _HOUR / 8
            seed = number * SESSIONS_EACH + index
            world.session(project, SESSION_BYTES, seed=seed, ago_seconds=ago)
    return world


# The HTTP listener


def _open_listener(world: World) -> int:
    """Have the daemon listen for HTTP; returns the port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = world.home / ".config/handoffd/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f"[http]\nenabled = true\nport = {port}\n")
    return port


def _use_listener(world: World, port: int) -> None:
    """List the tools once: modules loaded for a first request stay."""
    deadline = time.monotonic() + 30
    with contextlib.closing(world.connect()) as connection:
        while not connection.call("status")["http"]:
            if time.monotonic() > deadline:
                raise RuntimeError("the HTTP listener did not open")
            time.sleep(0.1)
    token = (world.home / ".local/state/handoffd/http-token").read_text().strip()
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {token}",
        "MCP-Protocol-Version": "2025-11-25",
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as client:
        client.request("POST", "/mcp", body, headers)
        answer = client.getresponse().read()
    if b"get_handoff" not in answer:
        raise RuntimeError(f"the HTTP listener answered {answer[:200]!r}")


# The other that stands by


def _start_watch(table: Table, stack: contextlib.ExitStack) -> list[tuple[int, Standing]]:
    """Start a peer's watch, over as many sessions as it can take up in time."""
    try:
        program = str(peers.programs(WATCH) / WATCH)
    except PeerError as problem:
        table.add(Row(f"against {WATCH} watch", f"not measured: {problem}", passed=False))
        return []
    for count in (MANY, FEW):
        world = _filled(stack, count)
        words = [program, "watch", "--all-projects", "-f", "md", "-o", str(world.base / "out")]
        log = world.base / "watch.log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                words, env=world.environment, cwd=world.home,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        stack.callback(end_group, process)
        if _has_converted(log):
            return [(count, Standing(f"{WATCH} watch, {_known(count)}", process.pid))]
        end_group(process)
    print(log.read_text()[-2000:], file=sys.stderr)
    table.add(Row(f"against {WATCH} watch", "not measured: it did not come to rest", passed=False))
    return []


def _has_converted(log: Path) -> bool:
    deadline = time.monotonic() + WATCH_START_SECONDS
    while b"converted in" not in log.read_bytes():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


# Their costs


def _observe(items: list[Standing], window_seconds: float) -> None:
    """Look at all before and after the same time."""
    before = [(switches(item.pid), cpu_seconds(item.pid)) for item in items]
    time.sleep(window_seconds)
    for item, (slept, busy) in zip(items, before, strict=True):
        after = switches(item.pid)
        woken = sum(count - slept.get(task, 0) for task, count in after.items())
        item.wake_ups = woken / window_seconds
        item.share = (cpu_seconds(item.pid) - busy) / window_seconds
        resident, proportional = memory_bytes(item.pid)
        item.resident_mb, item.proportional_mb = resident / 1e6, proportional / 1e6
        item.threads, item.descriptors = threads(item.pid), descriptors(item.pid)


def _report(table: Table, found: dict[int, Standing], floor_mb: float) -> None:
    for count, item in found.items():
        bar = RESIDENT_MOST_MB if count == MANY else None
        _report_memory(table, item, bar, f"{floor_mb:.1f} MB (imports alone)")
        _report_rest(table, item)
    further = (found[MOST].resident_mb - found[MANY].resident_mb) * 1e3 / (MOST - MANY)
    shared = (found[MOST].proportional_mb - found[MANY].proportional_mb) * 1e3 / (MOST - MANY)
    table.at_most("one further known session: RSS", further, FURTHER_MOST_KB, "KB")
    table.add(Row("one further known session: PSS", f"{shared:.3g} KB"))


def _report_memory(table: Table, item: Standing, most_mb: float | None, floor: str = "") -> None:
    what, figure = f"{item.what}: RSS", f"{item.resident_mb:.1f} MB"
    if most_mb is None:
        table.add(Row(what, figure, floor))
    else:
        kept = item.resident_mb <= most_mb
        table.add(Row(what, figure, floor, None, f"<= {most_mb:g} MB", kept))
    table.add(Row(f"{item.what}: PSS", f"{item.proportional_mb:.1f} MB"))


def _report_rest(table: Table, item: Standing) -> None:
    table.add(Row(f"{item.what}: threads, file descriptors", item.handles))
    table.at_most(f"{item.what}: wake-ups", item.wake_ups, WAKE_UPS_MOST, "/s")
    table.add(Row(f"{item.what}: processor", f"{item.share:.3%}"))


def _report_http(table: Table, item: Standing) -> None:
    _report_memory(table, item, HTTP_MOST_MB)
    _report_rest(table, item)


def _report_watch(table: Table, ours: Standing, other: Standing) -> None:
    for what, figure, theirs, unit in (
        ("RSS", ours.resident_mb, other.resident_mb, "MB"),
        ("PSS", ours.proportional_mb, other.proportional_mb, "MB"),
        ("wake-ups", ours.wake_ups, other.wake_ups, "/s"),
        ("processor", ours.share * 100, other.share * 100, "%"),
    ):
        row = f"{what}, against {other.what}"
        ratio = theirs / figure if figure else None
        table.add(Row(row, f"{figure:.3g} {unit}", f"{theirs:.3g} {unit}", ratio))


def _report_relays(table: Table, world: World) -> None:
    """Add the memory of the daemon behind relays that have all been used."""
    ours = Ours(world)
    with contextlib.ExitStack() as stack:
        for number in range(RELAYS):
            session = stack.enter_context(ours.open())
            session.initialize()
            session.ask("tools/list")
            ours.converse(session, 2 * number)
        resident, _ = memory_bytes(world.pid)
    what = f"{RELAYS} relays open: RSS of the daemon"
    table.at_most(what, resident / 1e6, RESIDENT_MOST_MB, "MB")
