"""A session of the real Claude Code, played from a script, and the ways in which it ends."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from world import PYTHON, World, append

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from conftest import wait_for
from e2e.claude import Claude
from e2e.model import Held, Model, Refusal, Request, Said, Turn, limited, say, use
from e2e.terminal import Terminal
from e2e.test_compaction import compact

VERSION = "325"
VARIABLE = f"HANDOFFD_TEST_CLAUDE_{VERSION}"
_QUESTION = "Are these whole cents, and is each line rounded up?"
_ANSWER = "Yes, whole cents, rounded up. Go ahead."
_TEST = """\
import unittest
from {module} import tax

class Rounding(unittest.TestCase):
    def test_lines(self):
        self.assertEqual(4, tax([104, 104]))
"""
_CODE = "def tax(lines):\n    return sum(-(-line // 100) for line in lines)\n"


@dataclass(frozen=True)
class Plot:
    """The subject of a session; its place tells it from every other session."""

    place: str

    @property
    def goal(self) -> str:
        return f"Round the tax of the invoices to {self.place} per line"

    @property
    def file(self) -> str:
        return f"tax_{self.place.lower()}.py"

    @property
    def done(self) -> str:
        return f"The tax is rounded per line in {self.file}, and the tests are green."

    @property
    def last(self) -> str:
        return f"Next, I'll round the shipping to {self.place} in the same way."

    def prepare(self, world: World) -> Path:
        """Make the project, with a test that is red as long as the file is missing."""
        project = world.project(f"shop-{self.place.lower()}", git=True)
        (project / "test_tax.py").write_text(_TEST.format(module=self.file.removesuffix(".py")))
        world.git(project, "add", ".")
        author = ("-c", "user.name=A", "-c", "user.email=a@example.invalid")
        world.git(project, *author, "commit", "-q", "-m", "The test")
        return project

    def turns(self, project: Path) -> list[Turn]:
        """Return the model's words and actions up to the last step."""
        test = use("Bash", command=f"{PYTHON} -m unittest -q", description="Run the tests")
        written = use("Write", file_path=str(project / self.file), content=_CODE)
        return [
            [say("First, I look at what is there."), _run("ls")],
            [
                say("There is a test, so I read it."),
                _run("cat test_tax.py"),
            ],
            [say("I run it before I change anything."), test],
            [
                say("It is red: the module is missing."),
                _run("git log --oneline"),
            ],
            [say("It never was there, so I write it."), written],
            [say("Now I run the test again."), test],
            [
                say("It is green. I look at what changed."),
                _run("git status --short"),
            ],
            [
                say("Only what I meant to change."),
                _run("git diff --stat"),
            ],
        ]


def _run(command: str) -> dict:
    return use("Bash", command=command, description=f"Run {command}")


class Last(Held):
    """The turn in which a session dies: it waits, and is answered or refused then."""

    refusal: Refusal | None = None

    def __call__(self, request: Request) -> Said:
        said = super().__call__(request)
        if self.refusal:
            raise self.refusal
        return said


class Scene:
    """A session at work, in its terminal, and the death that waits for it."""

    def __init__(self, claude: Claude, death: "Death") -> None:
        self.claude = claude
        self.death = death
        self.plot = Plot(death.place)
        self.model = claude.model
        self.last = Last(say("It is done."))
        self._opened = contextlib.ExitStack()

    def close(self) -> None:
        self.last.go.set()
        self._opened.close()
        self.model.close()

    @property
    def transcript(self) -> Path:
        return self.claude.transcript(self.model.requests[-1].session)

    def begin(self, stage: "Stage") -> None:
        """Play until the model is waited for in the middle of a turn, or to the turn's end."""
        self.model.will(say(_QUESTION))
        words = (f"--allowedTools={stage.allowed}", self.plot.goal)
        self.terminal = self._opened.enter_context(Terminal(self.claude, *words))
        self.terminal.played()
        self.model.will(*self._turns(stage))
        self.terminal.type(_ANSWER)
        if self.death.in_turn:
            self.terminal.until(self.last.asked.is_set, "the last turn was not asked for")
        else:
            self.terminal.played()
        # Text that is on its way to the disk cannot be known yet.
        known = self.plot.last.encode()
        wait_for(lambda: known in self.transcript.read_bytes(), what="the last words")

    def _turns(self, stage: "Stage") -> list[Turn]:
        said, turns = say(f"{self.plot.done} {self.plot.last}"), self.plot.turns(self.claude.cwd)
        if self.death.in_turn:
            return [*turns, [said, _run("git diff")], self.last]
        return [*turns, said, *stage.epilogue(self)]

    def kill(self) -> None:
        self.terminal.kill()
        self.last.go.set()


@dataclass(frozen=True)
class Death:
    """A way to end: in the middle of a turn or after it, and with the session over or not.

    The place is the subject of its session.
    """

    what: str
    place: str
    strike: Callable[["Scene", "Stage"], None]
    in_turn: bool = False
    over: bool = True


class Stage:
    """The actions of a system on a session: its tools, its answers, its own fate."""

    allowed = "Bash"

    def epilogue(self, _scene: Scene) -> list[Turn]:
        """Return the model's words when the system asks for more at the end of a turn."""
        return []

    @contextlib.contextmanager
    def without_power(self) -> Iterator[None]:
        """Everything of the system is gone at once, and is started again by the machine."""
        yield


def _last_line(path: Path) -> bytes:
    return path.read_bytes().splitlines(keepends=True)[-1]


def _killed(scene: Scene, _stage: Stage) -> None:
    scene.kill()
    line = _last_line(scene.transcript)
    append(scene.transcript, line[: len(line) // 2])


def _cut(scene: Scene, stage: Stage) -> None:
    scene.kill()
    path = scene.transcript
    with stage.without_power():
        os.truncate(path, path.stat().st_size - len(_last_line(path)) // 2)


def _limited(scene: Scene, _stage: Stage) -> None:
    scene.last.refusal = limited()
    scene.last.go.set()
    scene.terminal.played()


def _left(scene: Scene, _stage: Stage) -> None:
    scene.terminal.leave()


def _cleared(scene: Scene, _stage: Stage) -> None:
    scene.terminal.type("/clear")
    seen = scene.terminal.screen
    scene.terminal.until(lambda: scene.plot.file not in seen.text, "it was not cleared")


def _compacted(scene: Scene, _stage: Stage) -> None:
    compact(scene.terminal, scene.model)


# The power goes first: with it goes our daemon, which the others need.
DEATHS = (
    Death("power cut, half of the last line lost", "Bruges", _cut, in_turn=True),
    Death("kill -9 in the middle of a line", "Ghent", _killed, in_turn=True),
    Death("usage limit reached", "Delft", _limited, in_turn=True, over=False),
    Death("/exit", "Leiden", _left),
    Death("/clear", "Namur", _cleared),
    Death("compaction", "Breda", _compacted),
)


def scenes(world: World, deaths: tuple[Death, ...]) -> list[Scene]:
    """Return a session for each death, all in one HOME; each has a model of its own."""
    found = []
    for death in deaths:
        project = Plot(death.place).prepare(world)
        found.append(Scene(Claude(VERSION, world, Model(), project), death))
    return found
