"""Programs that keep a session's words, ours and others', and the way each takes in a text.

Every text is a note between two marks, in a session (or, for a program that reads none, in a call):
so it can be checked whether the text was taken in at all.
"""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import peers
import servers
from stories import Scene, hook_event
from world import World, frame

# The size limit of a call, for all programs: ai-handoff takes 16 KiB.
BATCH_CHARACTERS = 10_000
LIMIT_SECONDS = 120.0
_ASKED = ("show", "inject", "sessions", "list", "open")


@dataclass(frozen=True)
class Note:
    """A text, and the secret in it that must not come out, if that part is known."""

    number: int
    kind: str
    text: str
    secret: str = ""

    @property
    def marked(self) -> str:
        # The marks are short words: "password:" would take the next word for its value.
        return f"Keep in mind: note {self.number:05d} /\n{self.text}\n/ {self.number:05d} /"


class Program:
    """A program with a HOME of its own."""

    name = ""
    mask = "[REDACTED]"

    def __init__(self, world: World) -> None:
        self.world = world
        self.replies: list[str] = []

    def take(self, notes: list[Note]) -> None:
        """Let it take in the notes."""
        raise NotImplementedError

    def files(self) -> Iterator[Path]:
        """Yield every file that it wrote, but no file that was there before."""
        for path in sorted([*self.world.base.rglob("*"), *self.world.runtime.rglob("*")]):
            given = path.suffix == ".jsonl" and path.is_relative_to(self.world.transcripts)
            if path.is_file() and not given and ".git" not in path.parts:
                yield path

    def write(self, scene: Scene) -> Path:
        path = self.world.transcript(scene)
        path.write_bytes(b"".join(scene.lines))
        return path

    def run(self, words: list[str], directory: Path, given: bytes = b"") -> None:
        subprocess.run(
            words, input=given, env=self.world.environment, cwd=directory, timeout=LIMIT_SECONDS,
            capture_output=True, check=True,
        )  # fmt: skip


class Ours(Program):
    """A real daemon; notes are where it keeps text: in requests, statements and lists."""

    name = "handoffd"
    mask = "[redacted:"

    def take(self, notes: list[Note]) -> None:
        kinds: dict[str, list[Note]] = {}
        for note in notes:
            kinds.setdefault(note.kind, []).append(note)
        projects = [self.world.project(f"p{number}", git=True) for number in range(len(kinds))]
        sessions = 0
        for project, of_kind in zip(projects, kinds.values(), strict=True):
            for part in _parts(of_kind, 4):
                self.write(_placed(project, part))
                sessions += 1
        self.world.start().settle()
        wait_for_handoffs(self.world, sessions)
        self._ask(projects)

    def _ask(self, projects: list[Path]) -> None:
        with contextlib.closing(self.world.connect()) as connection:
            for project in projects:
                asked = (frame(method, cwd=str(project)) for method in _ASKED)
                self.replies += [connection.ask(request).decode() for request in asked]


def wait_for_handoffs(world: World, sessions: int) -> None:
    """Wait until every session has left a handoff: they have been silent for long enough."""
    left, deadline = world.home / ".claude/handoffs", time.monotonic() + LIMIT_SECONDS
    while sum(1 for _ in left.rglob("*.md")) < sessions:
        if time.monotonic() > deadline:
            raise RuntimeError(f"not every session left a handoff within {LIMIT_SECONDS:g} s")
        time.sleep(0.5)


def _placed(project: Path, notes: list[Note]) -> Scene:
    """Return a session with a note in each place."""
    scene = Scene(str(project), "main", notes[0].number)
    first, said, listed, last = (note.marked for note in [*notes, *notes, *notes, *notes][:4])
    scene.ask(first).tell(said).change("notes.md").todos((listed, "pending")).ask(last)
    return scene


class Reader(Program):
    """A program that reads sessions; the notes are prompts, many in each."""

    def sessions(self, notes: list[Note], project: Path) -> Iterator[Path]:
        for number, batch in enumerate(_batches(notes)):
            scene = Scene(str(project), "main", number)
            for note in batch:
                scene.ask(note.marked).tell("I'll keep it in mind.")
            yield self.write(scene)


class ClaudeHandoff(Reader):
    """The hook that writes a handoff when a session ends."""

    name = "claude-handoff"

    def take(self, notes: list[Note]) -> None:
        words = [str(peers.programs(self.name) / self.name), "--hook-stdin"]
        project = self.world.project("shop", git=True)
        for path in self.sessions(notes, project):
            self.run(words, project, hook_event("SessionEnd", str(project), path.stem, str(path)))


class ClaudeCodeLog(Reader):
    """A viewer, which promises no redaction."""

    name = "claude-code-log"

    def take(self, notes: list[Note]) -> None:
        words = [str(peers.programs(self.name) / self.name), "-f", "md"]
        project = self.world.project("shop", git=True)
        *_, path = self.sessions(notes, project)
        self.run([*words, str(path.parent)], project)


class Told(Program):
    """A server that is told by calls, as a model would."""

    server: type[servers.Server]
    text = ""  # the argument that holds it

    def take(self, notes: list[Note]) -> None:
        server = self.server(self.world)
        with server.open() as session:
            session.initialize()
            for number, batch in enumerate(_batches(notes)):
                tool, given = server.create(number)
                session.call(tool, given | {self.text: "\n\n".join(each.marked for each in batch)})
                self.replies.append(session.call(*server.get(server.key(number, "")))[1])


class AiHandoff(Told):
    name = "ai-handoff"
    server = servers.AiHandoff
    text = "summary"


class HandoffMcp(Told):
    """It promises no redaction."""

    name = "handoff-mcp"
    server = servers.HandoffMcp
    text = "content"


OTHERS = (ClaudeHandoff, AiHandoff, HandoffMcp, ClaudeCodeLog)


def _parts(notes: list[Note], size: int) -> Iterator[list[Note]]:
    rest = iter(notes)
    while part := [*islice(rest, size)]:
        yield part


def _batches(notes: list[Note]) -> Iterator[list[Note]]:
    batch: list[Note] = []
    for note in notes:
        if sum(len(each.marked) for each in batch) + len(note.marked) > BATCH_CHARACTERS:
            yield batch
            batch = []
        batch.append(note)
    yield batch
