"""The client's whole round trip over the start of a bare interpreter."""

import json
import os
import site
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from measure import Table
from world import BIN, PYTHON, Session, World

FLOOR = [PYTHON, "-I", "-S", "-c", "pass"]
HOOK_MOST, STATUS_MOST, HELP_MOST = 1.3, 3.0, 4.0
_DIRECT = (
    "import sys\nsys.path.append(sys.argv[1])\nfrom handoff.fast import main\n"
    "main(sys.argv[2], sys.argv[3:])"
)


@dataclass
class Case:
    """One command, and what each of its runs took."""

    what: str
    words: list[str]
    stdin: bytes = b""
    most: float | None = None
    expected: bytes = b""
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self, environment: dict[str, str]) -> None:
        # A session is told once: each run is another one's.
        given = self.stdin.replace(b"NEW", str(uuid.uuid4()).encode())
        wall, cpu, output = run(self.words, given, environment)
        if self.expected not in output:
            raise RuntimeError(f"{self.what} printed {output[:200]!r}")
        self.wall.append(wall)
        self.cpu.append(cpu)


def run(words: list[str], stdin: bytes, environment: dict[str, str]) -> tuple[float, float, bytes]:
    """Run a program between two pipes; returns wall time, processor time and its output.

    What is written and printed fits into a pipe, so nothing waits for us.
    """
    given, give = os.pipe()
    take, taken = os.pipe()
    os.write(give, stdin)
    os.close(give)
    actions = [
        (os.POSIX_SPAWN_DUP2, given, 0),
        (os.POSIX_SPAWN_DUP2, taken, 1),
    ]
    started = time.perf_counter()
    pid = os.posix_spawn(words[0], words, environment, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - started
    os.close(given)
    os.close(taken)
    output = os.read(take, 1 << 16)
    os.close(take)
    if status:
        raise RuntimeError(f"{words} ended with {os.waitstatus_to_exitcode(status)}")
    return wall, usage.ru_utime + usage.ru_stime, output


def measure(table: Table, runs: int) -> None:
    with World() as world:
        project = world.project("shop", git=True)
        session = world.session(project, 200_000)
        session.say("The cart is empty after a reload.")
        world.start().settle()
        _wait_for_brief(world)
        hook = _hook(session)
        up = _cases(hook)
        _take_turns(up, runs, world, str(project))
        _report(table, up)
        world.stop()
        down = [
            Case("floor", FLOOR),
            Case("inject, daemon down", _wrapped("inject"), hook, expected=b"The cart is empty"),
        ]
        _take_turns(down, runs, world, str(project))
        _report(table, down)


def _cases(hook: bytes) -> list[Case]:
    known = b"The cart is empty"
    return [
        Case("floor", FLOOR),
        Case("inject (hook)", _wrapped("inject"), hook, HOOK_MOST, known),
        Case("inject (hook), without sh", _direct("inject"), hook, expected=known),
        Case("hook, SessionStart", _wrapped("hook"), _event("SessionStart"), HOOK_MOST, known),
        Case("hook, UserPromptSubmit", _wrapped("hook"), _event("UserPromptSubmit"), HOOK_MOST),
        Case("statusline", _wrapped("statusline"), _event("Status"), HOOK_MOST, b"Find out why"),
        Case("status", _wrapped("status"), most=STATUS_MOST, expected=b"running"),
        Case("status, without sh", _direct("status"), expected=b"running"),
        Case("show", _wrapped("show"), expected=known),
        Case("--help", _wrapped("--help"), most=HELP_MOST, expected=b"doctor"),
    ]


def _event(name: str) -> bytes:
    """Return what a hook of a new session gets."""
    fields = {"session_id": "NEW", "hook_event_name": name, "source": "startup", "prompt": "Go on"}
    return json.dumps(fields).encode() + b"\n"


def _wrapped(*words: str) -> list[str]:
    return [str(BIN / "handoff"), *words]


def _direct(*words: str) -> list[str]:
    packages = next(path for path in site.getsitepackages() if "site-packages" in path)
    return [PYTHON, "-I", "-S", "-c", _DIRECT, packages, "handoff", *words]


def _hook(session: Session) -> bytes:
    given = {
        "session_id": session.script.id,
        "transcript_path": str(session.path),
        "cwd": session.script.cwd,
        "hook_event_name": "SessionStart",
        "source": "startup",
    }
    return json.dumps(given).encode() + b"\n"


def _wait_for_brief(world: World) -> None:
    """Wait until the brief is written that is printed while the daemon is down."""
    briefs = world.home / ".local/state/handoffd/briefs"
    _wait(lambda: briefs.is_dir() and any(briefs.iterdir()), 10)
    time.sleep(1)


def _wait(condition: Callable[[], bool], limit_seconds: float) -> None:
    deadline = time.monotonic() + limit_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {limit_seconds:g} s")
        time.sleep(0.02)


def _take_turns(cases: list[Case], runs: int, world: World, directory: str) -> None:
    """Run each case once a round, each round beginning with another, after a warm-up round."""
    os.chdir(directory)
    try:
        for case in cases:
            run(case.words, case.stdin, world.environment)
        for number in range(runs):
            first = number % len(cases)
            for case in cases[first:] + cases[:first]:
                case.run(world.environment)
    finally:
        os.chdir("/")


def _report(table: Table, cases: list[Case]) -> None:
    floor, *others = cases
    for case in others:
        table.times(f"{case.what}: wall", case.wall, floor.wall, case.most)
        table.times(f"{case.what}: processor", case.cpu, floor.cpu, case.most)
