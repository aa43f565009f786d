"""The client's whole round trip over the start of a bare interpreter, and beside other programs."""

import contextlib
import json
import os
import site
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import peers
from measure import Row, Table, quantile, spread
from peers import PeerError
from synthetic import Script
from world import BIN, PYTHON, Session, World

FLOOR = [PYTHON, "-I", "-S", "-c", "pass"]
HOOK_MOST, STATUS_MOST, HELP_MOST = 1.3, 3.0, 4.0
PEER_LEAST, PEER_RUNS = 3.0, 20
DOWN_MOST_MS = 60.0
SESSION_BYTES = 200_000
KNOWN = "The cart is empty"
_WORKLOADS = """\
Each prints what it keeps of the project: handoffd its checkpoint, claude-handoff a timeline of \
sessions, ai-handoff the last handoff that was saved, daimon-briefing a checkpoint that was \
written. Of daimon-briefing it is the command alone, without the hook's own script that starts it; \
ours is the hook with its shell script and needs a daemon, which the others do not."""
_DIRECT = (
    "import sys\nsys.path.append(sys.argv[1])\nfrom handoff.fast import main\n"
    "main(sys.argv[2], sys.argv[3:])"
)


@dataclass(frozen=True)
class Place:
    """The directory and the environment, with its HOME, in which a program is run."""

    directory: str
    environment: dict[str, str]


@dataclass
class Case:
    """One command, and the time of each of its runs."""

    what: str
    words: list[str]
    stdin: bytes = b""
    most: float | None = None
    expected: bytes = b""
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self, place: Place) -> None:
        # A session is told once: each run is a new session.
        given = self.stdin.replace(b"NEW", str(uuid.uuid4()).encode())
        os.chdir(place.directory)
        wall, cpu, output = run(self.words, given, place.environment)
        if self.expected not in output:
            raise RuntimeError(f"{self.what} printed {output[:200]!r}")
        self.wall.append(wall)
        self.cpu.append(cpu)


@dataclass(frozen=True)
class Turn:
    """A case in its place, in every so many rounds."""

    case: Case
    place: Place
    every: int = 1


def run(words: list[str], stdin: bytes, environment: dict[str, str]) -> tuple[float, float, bytes]:
    """Run a program between two pipes; return wall time, processor time and its output.

    Input and output fit into a pipe, so the program never waits for us.
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
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(World())
        project = world.project("shop", git=True)
        session = world.session(project, SESSION_BYTES)
        session.say("The cart is empty after a reload.")
        world.start().settle()
        _wait_for_brief(world)
        place = Place(str(project), world.environment)
        others = _others(table, stack, max(runs // PEER_RUNS, 1))
        event = partial(_event, world=world, project=project)
        up = _cases(_hook(session), event)
        _take_turns([*(Turn(case, place) for case in up), *others], runs)
        _report(table, up)
        _report_others(table, up, [turn.case for turn in others])
        world.stop()
        down = _cases_down(_hook(session), event)
        _take_turns([Turn(case, place) for case in down], runs)
        _report(table, down)
        _report_down(table, down)


def _cases(hook: bytes, event: Callable[[str], bytes]) -> list[Case]:
    known, start, prompt = KNOWN.encode(), event("SessionStart"), event("UserPromptSubmit")
    return [
        Case("floor", FLOOR),
        Case("inject (hook)", _wrapped("inject"), hook, HOOK_MOST, known),
        Case("inject (hook), without sh", _direct("inject"), hook, expected=known),
        Case("hook, SessionStart", _wrapped("hook"), start, HOOK_MOST, known),
        Case("hook, UserPromptSubmit", _wrapped("hook"), prompt, HOOK_MOST),
        Case("statusline", _wrapped("statusline"), event("Status"), HOOK_MOST, b"Find out why"),
        Case("status", _wrapped("status"), most=STATUS_MOST, expected=b"running"),
        Case("status, without sh", _direct("status"), expected=b"running"),
        Case("show", _wrapped("show"), expected=known),
        Case("--help", _wrapped("--help"), most=HELP_MOST, expected=b"doctor"),
    ]


def _cases_down(hook: bytes, event: Callable[[str], bytes]) -> list[Case]:
    known, start = KNOWN.encode(), event("SessionStart")
    return [
        Case("floor", FLOOR),
        Case("inject, daemon down", _wrapped("inject"), hook, expected=known),
        Case("hook, SessionStart, daemon down", _wrapped("hook"), start, expected=known),
    ]


def _event(name: str, world: World, project: Path) -> bytes:
    """Return the input of a new session's hook."""
    fields = {
        "session_id": "NEW",
        "transcript_path": str(world.transcript(Script(str(project))).with_name("NEW.jsonl")),
        "cwd": str(project),
        "hook_event_name": name,
        "source": "startup",
        "prompt": "Go on",
    }
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


def _others(table: Table, stack: contextlib.ExitStack, every: int) -> list[Turn]:
    """Prepare each peer in a HOME of its own; one that cannot be had is a bar missed."""
    found = []
    for name, prepare in _PEERS.items():
        world = stack.enter_context(World())
        project = world.project("shop", git=True)
        try:
            case = prepare(world, project, peers.programs(name))
        except PeerError as problem:
            row = f"hook, SessionStart, against {name}"
            table.add(Row(row, f"not measured: {problem}", passed=False))
        else:
            found.append(Turn(case, Place(str(project), world.environment), every))
    return found


def _claude_handoff(world: World, project: Path, programs: Path) -> Case:
    """A brief of the project's sessions, printed by the hook of --install-brief-hook."""
    world.session(project, SESSION_BYTES)
    program = str(programs / "claude-handoff")
    _prepare(world, project, [program, "--brief"])
    words = [program, "--brief-hook-stdin"]
    event = _event("SessionStart", world, project)
    return Case("claude-handoff", words, event, expected=b"Find out why")


def _ai_handoff(world: World, project: Path, programs: Path) -> Case:
    """The last handoff that was saved, printed by the hook that its plugin brings."""
    said = ["--summary", f"{KNOWN} after a reload.", "--next", "Compare both."]
    _prepare(world, project, [str(programs / "handoff"), "save", *said])
    words = [str(programs / "python"), "-m", "ai_handoff", "hook", "claude", "session-start"]
    return Case(
        "ai-handoff", words, _event("SessionStart", world, project), expected=KNOWN.encode()
    )


def _daimon_briefing(world: World, project: Path, programs: Path) -> Case:
    """A briefing from a checkpoint, by the command that its hook of a session's start runs."""
    topic = {"text": f"{KNOWN} after a reload.", "trust": "inferred"}
    context = {"active_topic": topic, "open_questions": [], "recent_decisions": []}
    snapshot = {"strong_beliefs": [], "uncertainties": []}
    kept = {"session_id": "one", "working_context": context, "epistemic_snapshot": snapshot}
    program = str(programs / "daimon")
    _prepare(world, project, [program, "write-checkpoint"], json.dumps(kept).encode())
    words = [program, "brief", "--auto", "--label"]
    return Case("daimon-briefing", words, expected=KNOWN.encode())


_PEERS: dict[str, Callable[[World, Path, Path], Case]] = {
    "claude-handoff": _claude_handoff,
    "ai-handoff": _ai_handoff,
    "daimon-briefing": _daimon_briefing,
}


def _prepare(world: World, project: Path, words: list[str], stdin: bytes = b"") -> None:
    done = subprocess.run(
        words, env=world.environment, cwd=project, input=stdin, capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words} said {done.stderr[-200:]!r}")


def _take_turns(turns: list[Turn], runs: int) -> None:
    """Run each case once per round, each round beginning with another, after a warm-up round."""
    before = os.getcwd()
    try:
        for turn in turns:
            os.chdir(turn.place.directory)
            run(turn.case.words, turn.case.stdin, turn.place.environment)
        for number in range(runs):
            due = [turn for turn in turns if number % turn.every == 0]
            first = number % len(due)
            for turn in due[first:] + due[:first]:
                turn.case.run(turn.place)
    finally:
        os.chdir(before)


def _report(table: Table, cases: list[Case]) -> None:
    floor, *others = cases
    for case in others:
        table.times(f"{case.what}: wall", case.wall, floor.wall, case.most)
        table.times(f"{case.what}: processor", case.cpu, floor.cpu, case.most)


def _report_others(table: Table, cases: list[Case], others: list[Case]) -> None:
    ours = next(case for case in cases if case.what == "hook, SessionStart")
    for other in others:
        table.faster(f"{ours.what}, against {other.what}", ours.wall, other.wall, PEER_LEAST)
    table.notes.append(_WORKLOADS)


def _report_down(table: Table, cases: list[Case]) -> None:
    floor, *others = cases
    for case in others:
        late_ms = quantile(case.wall, 0.95) * 1e3
        table.at_most(f"{case.what}: p95", late_ms, DOWN_MOST_MS, "ms", spread(floor.wall))
