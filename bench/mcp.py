"""MCP over stdio: ours and other programs' servers, in turns, spoken to by one client."""

import contextlib
import os
import time
from dataclasses import dataclass, field

from clients import FLOOR, run
from measure import Row, Table, seconds
from peers import PeerError
from servers import AiHandoff, HandoffMcp, Ours, OursDown, Server
from world import PYTHON, World, resting_memory

from proc import memory_bytes

INITIALIZE_LEAST, CALL_LEAST = 10.0, 3.0
TOOLS_MOST_BYTES = 4096
CALLS_EACH = 8
START, READ_AGAIN = "start to initialize", "start to a first entry read again"
CREATE, ADD, GET = "create", "add", "get"
# The bytes that SQLite appends to its log for an entry.
_LOGGED = bytes(5 * 4096)
_RESTING = [PYTHON, "-I", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"]


@dataclass
class Floors:
    """The least that a start and a durable write take."""

    starts: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)

    def measure(self, world: World) -> None:
        self.starts.append(run(FLOOR, b"", world.environment)[0])
        handle = os.open(world.base / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for _ in range(2):  # the first write also waits for the disk writes of others
            began = time.perf_counter()
            os.write(handle, _LOGGED)
            os.fdatasync(handle)
            took = time.perf_counter() - began
        os.close(handle)
        self.writes.append(took)


def measure(table: Table, runs: int) -> None:
    with contextlib.ExitStack() as stack:
        ours, down = (kind(stack.enter_context(World())) for kind in (Ours, OursDown))
        others: list[Server] = []
        for kind in (AiHandoff, HandoffMcp):
            try:
                others.append(kind(stack.enter_context(World())))
            except PeerError as problem:
                row = f"MCP against {kind.name}"
                table.add(Row(row, f"not measured: {problem}", passed=False))
        ours.world.start().settle()
        floors = _take_turns([ours, down, *others], runs)
        table.times(f"MCP, {START}", ours.times[START], floors.starts)
        table.times(f"MCP, {ADD}", ours.times[ADD], floors.writes)
        _report_times(table, ours, down, others)
        _report_sizes(table, ours, others)


def _take_turns(servers: list[Server], runs: int) -> Floors:
    """Run each once per round, each round beginning with another."""
    floors = Floors()
    for number in range(-1, runs):
        if number == 0:  # the first round warmed up
            floors = Floors()
            for server in servers:
                server.times.clear()
        first = number % len(servers)
        for server in servers[first:] + servers[:first]:
            floors.measure(server.world)
            _hold_session(server, (number + 1) * 2 * (CALLS_EACH + 1))
    return floors


def _hold_session(server: Server, number: int) -> None:
    """Open a session, write and read in it; its entries are numbered from this number on."""
    with server.open() as session:
        server.times[START].append(session.initialize())
        server.tools_bytes = len(session.ask("tools/list")[1])
        # Not timed call by call: it also waits for the disk writes of others.
        server.converse(session, number)
        server.times[READ_AGAIN].append(session.age_seconds)
        for index in range(1, CALLS_EACH + 1):
            took = server.converse(session, number + 2 * index)
            for name, each in zip((CREATE, ADD, GET), took, strict=True):
                server.times[name].append(each)
        server.memory = memory_bytes(session.process.pid)
    server.rest()


def _report_times(table: Table, ours: Server, down: Server, others: list[Server]) -> None:
    for what, least in (
        (START, INITIALIZE_LEAST),
        (READ_AGAIN, None),
        (CREATE, CALL_LEAST),
        (ADD, CALL_LEAST),
        (GET, CALL_LEAST),
    ):
        for other in others:
            row = f"MCP, {what}, against {other.name}"
            table.faster(row, ours.times[what], other.times[what], least)
    # While others use the disk, all wait for it and seem alike; the fastest had it alone.
    for what in (CREATE, ADD):
        for other in others:
            best, theirs = min(ours.times[what]), min(other.times[what])
            row = f"MCP, {what}, fastest, against {other.name}"
            table.add(Row(row, seconds(best), seconds(theirs), theirs / best))
    for what in (START, READ_AGAIN):
        for other in others:
            row = f"MCP, daemon down, {what}, against {other.name}"
            table.faster(row, down.times[what], other.times[what])


def _report_sizes(table: Table, ours: Server, others: list[Server]) -> None:
    beside = ", ".join(f"{other.name} {other.tools_bytes}" for other in others)
    bar, kept = f"<= {TOOLS_MOST_BYTES} bytes", ours.tools_bytes <= TOOLS_MOST_BYTES
    table.add(Row("MCP, tools/list", f"{ours.tools_bytes} bytes", beside, None, bar, kept))
    bare = resting_memory(_RESTING, ours.world.environment)
    what = "MCP, an open session: RSS, PSS"
    table.add(Row(what, _megabytes(ours.memory), f"{_megabytes(bare)} (bare interpreter)"))
    for other in others:
        figures = _megabytes(ours.memory), _megabytes(other.memory)
        ratio = other.memory[1] / ours.memory[1]
        table.add(Row(f"{what}, against {other.name}", *figures, ratio))
    daemon = memory_bytes(ours.world.pid)
    table.add(Row("MCP, the daemon behind all sessions: RSS, PSS", _megabytes(daemon), "0"))


def _megabytes(memory: tuple[int, int]) -> str:
    return ", ".join(f"{size / 1e6:.1f} MB" for size in memory)
