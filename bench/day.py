"""A day of work in many projects, a hundred times as fast, and the facts to be known after it.

Every worker (work.py) is an iterator that does something and yields its pause, in seconds of the
clock here. Each action is noted, to be compared with handoffd's result. The seed fixes the actions
of each worker; the clock decides their order.
"""

import contextlib
import heapq
import itertools
import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from servers import Ours
from synthetic import Script
from world import World, append

import scripted_bd  # the tests' own stand-in for Beads

FACTOR = 100
PROJECTS = 200
# Projects that plan in conductor/, and of these those with epics in Beads.
TRACKED, WITH_EPICS = 12, 3
TRACK = "cart_20260301"
IDLE_SECONDS = 30 * 60 / FACTOR
PROGRAMS_MOST = 6
# The longest pause of a worker that is still busy when the day is over.
HURRY_SECONDS = 0.05
CONFIG = (
    f"[triggers]\nidle_minutes = {IDLE_SECONDS / 60}\n"
    "[beads]\ncommand = '%s'\nconfine = false\n"  # a script cannot be confined
)

_PERSON = {"NAME": "A", "EMAIL": "a@example.invalid"}


@dataclass
class Told:
    """The records written of a session, by all its writers."""

    script: Script
    path: Path
    ending: str
    # None after a compaction: then the summary has the goal.
    goal: str | None = None
    records: int = 0
    agent_records: int = 0
    prompts: int = 0
    compactions: int = 0
    edited: str = ""
    heard_at: float = field(default_factory=time.time)
    # The length of its silences that may have been taken for idle.
    silences: list[float] = field(default_factory=list)

    @property
    def headless(self) -> bool:
        return self.script.entrypoint != "cli"

    def write(self, *lines: bytes) -> None:
        """Append records as the client does, in one write."""
        self.path.touch(0o600)
        append(self.path, b"".join(lines))
        self.records += len(lines)
        self._hear()

    def write_agent(self, agent: Script, *lines: bytes) -> None:
        path = self.path.with_suffix("") / f"subagents/agent-{agent.id[:12]}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        append(path, b"".join(lines))
        self.agent_records += len(lines)
        self._hear()

    def _hear(self) -> None:
        now = time.time()
        if now - self.heard_at > IDLE_SECONDS / 2:
            self.silences.append(now - self.heard_at)
        self.heard_at = now


class Day:
    """The workers, and their actions so far."""

    def __init__(self, world: World, minutes: float, seed: int) -> None:
        self.world, self.minutes = world, minutes
        self.random = random.Random(seed)
        self.sessions: list[Told] = []
        self.projects: list[Path] = []
        # A person's notes in checkpoints: the file, and the line.
        self.notes: list[tuple[Path, str]] = []
        # The open threads, with the number of entries of each.
        self.threads: dict[str, int] = {}
        # The projects with epics, and the number of their beginnings and ends.
        self.epics: dict[Path, Counter[str]] = {}
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self.is_over = False
        self._agenda: list[tuple[float, int, Iterator[float]]] = []
        self._numbers = itertools.count()
        self._programs: list[subprocess.Popen] = []
        self._clients: list[subprocess.Popen] = []
        for role in ("AUTHOR", "COMMITTER"):
            world.environment |= {f"GIT_{role}_{name}": said for name, said in _PERSON.items()}

    # The stage

    def prepare(self) -> None:
        """Make the projects, all from one that git has made, and the configuration."""
        first = self.world.project("project0", git=True)
        (first / "readme.md").write_text("# A project\n")
        self.world.git(first, "add", ".")
        self.world.git(first, "commit", "-q", "-m", "Begin")
        self.projects = [first.with_name(f"project{number}") for number in range(PROJECTS)]
        for path in self.projects[1:]:
            shutil.copytree(first, path)
        self.bd = scripted_bd.install(self.world.base / "programs")
        config = self.world.home / ".config/handoffd/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(CONFIG % self.bd)
        (self.world.home / ".claude/sessions").mkdir()
        for number, path in enumerate(self.projects[:TRACKED]):
            self._plan(path, with_epics=number < WITH_EPICS)
        self.ours = Ours(self.world)

    def _plan(self, project: Path, *, with_epics: bool) -> None:
        directory = project / "conductor/tracks" / TRACK
        directory.mkdir(parents=True)
        about = {"track_id": TRACK, "type": "feature", "status": "in_progress"}
        if with_epics:
            self.beads(project, "init")
            self.epics[project] = Counter()
        (directory / "metadata.json").write_text(json.dumps(about))
        (directory / "spec.md").write_text("# Spec\n")
        (directory / "plan.md").write_text("# Plan\n- [x] Read it\n- [ ] Count it\n")

    def beads(self, project: Path, *words: str) -> dict:
        done = subprocess.run(
            [str(self.bd), *words, "--json"], cwd=project, env=self.world.environment,
            capture_output=True, check=True, timeout=60,
        )  # fmt: skip
        return json.loads(done.stdout) or {}

    # The clock

    def play(self, workers: list[Iterator[float]]) -> None:
        """Let all work until the day is over, and let busy workers end their work."""
        began = time.monotonic()
        for worker in workers:
            self.add(worker)
        while self._agenda:
            due, _, worker = heapq.heappop(self._agenda)
            wait = max(due - time.monotonic(), 0.0)
            time.sleep(min(wait, HURRY_SECONDS) if self.is_over else wait)
            self.is_over = time.monotonic() - began > self.minutes * 60
            pause = next(worker, None)
            if pause is not None:
                self.add(worker, pause)

    def add(self, worker: Iterator[float], pause_seconds: float = 0.0) -> None:
        due = time.monotonic() + pause_seconds
        heapq.heappush(self._agenda, (due, next(self._numbers), worker))

    def now_and_then(self, mean_seconds: float) -> Iterator[float]:
        """Yield pauses until the day is over."""
        while not self.is_over:
            yield self.random.expovariate(1 / mean_seconds)

    # Programs

    def client(self) -> subprocess.Popen:
        """Start a process that stands for a client."""
        self._clients.append(subprocess.Popen(["sleep", "100000"]))
        return self._clients[-1]

    def run(self, *words: str, cwd: Path, given: str = "") -> None:
        """Start a program beside everything else; it must end well, whenever it does."""
        self.reap(PROGRAMS_MOST)
        process = subprocess.Popen(
            words, cwd=cwd, env=self.world.environment,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        process.stdin.write(given.encode())
        process.stdin.close()
        self._programs.append(process)

    def reap(self, most: int = 0) -> None:
        """Wait until no more programs run than these."""
        for process in list(self._programs):
            if process.poll() is not None or len(self._programs) > most:
                self._programs.remove(process)
                said = process.stderr.read().decode(errors="replace").strip()
                process.stderr.close()
                if process.wait(30) != 0:
                    self.failures.append(f"{process.args}: {said}")

    def close(self) -> None:
        for process in (*self._clients, *self._programs):
            process.kill()
            process.wait()
            with contextlib.suppress(AttributeError):
                process.stderr.close()

    def claim(self, client: subprocess.Popen, told: Told) -> Path:
        """Say which session a client runs, as Claude Code does."""
        path = self.world.home / f".claude/sessions/{client.pid}.json"
        claim = {"pid": client.pid, "sessionId": told.script.id, "cwd": told.script.cwd}
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(claim))
        os.replace(temporary, path)
        return path
