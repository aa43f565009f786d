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
from e2e.model import Held, Model, Turn, limited, say, use
from e2e.terminal import Terminal
from e2e.test_compaction import compact

VERSION = "325"
VARIABLE = f"HANDOFFD_TEST_CLAUDE_{VERSION}"
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
    """What a session is about; its place tells it from every other session."""

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
        """Return what the model says and does up to the last step."""
        test = use("Bash", command=f"{PYTHON} -m unittest -q", description="Run the tests")
        written = use("Write", file_path=str(project / self.file), content=_CODE)
        return [
            [say("First, I look at what is there."), _run("ls")],
            [say("There is a test, so I read it."), _run("cat test_tax.py")],
            [say("I run it before I change anything."), test],
            [say("It is red, because the module is missing."), _run("git log --oneline")],
            [say("Nothing was there before, so I write it."), written],
            [say("Now I run the test again."), test],
            [say("It is green. I look at what changed."), _run("git status --short")],
            [say("Only what I meant to change."), _run("git diff --stat")],
        ]


def _run(command: str) -> dict:
    return use("Bash", command=command, description=f"Run {command}")


class Scene:
    """A session at work, in its terminal; its death is known before."""

    def __init__(self, claude: Claude, plot: Plot, *, over: bool) -> None:
        self.claude = claude
        self.over = over
        self.plot = plot
        self.model = claude.model
        self._opened = contextlib.ExitStack()

    def close(self) -> None:
        self._opened.close()
        self.model.close()

    def play(self, allowed: str, *turns: Turn) -> Terminal:
        """Begin, with these turns after the known ones."""
        self.model.will(*self.plot.turns(self.claude.cwd), *turns)
        words = (f"--allowedTools={allowed}", self.plot.goal)
        return self._opened.enter_context(Terminal(self.claude, *words))

    @property
    def transcript(self) -> Path:
        return self.claude.transcript(self.model.requests[-1].session)

    @property
    def said(self) -> dict:
        return say(f"{self.plot.done} {self.plot.last}")

    def stopped(self, allowed: str) -> Terminal:
        """Play until the model is waited for, in the middle of a turn, and kill the client."""
        held = Held(say("It is done."))
        terminal = self.play(allowed, [self.said, _run("git diff")], held)
        terminal.until(held.asked.is_set, "the last turn was not asked for")
        # What is on its way to the disk is nobody's to know.
        known = self.plot.last.encode()
        wait_for(lambda: known in self.transcript.read_bytes(), what="the last words")
        terminal.kill()
        held.go.set()
        return terminal

    def finished(self, allowed: str, epilogue: list[Turn]) -> Terminal:
        """Play to the end of a turn."""
        terminal = self.play(allowed, self.said, *epilogue)
        terminal.played()
        return terminal


@dataclass(frozen=True)
class Death:
    """A way to end, the place that its session is about, and whether the session is over then."""

    what: str
    place: str
    strike: Callable[["Scene", "Stage"], None]
    over: bool = True


class Stage:
    """What a system does about a session: its tools, its answers, its own fate."""

    allowed = "Bash"

    def epilogue(self, _scene: Scene) -> list[Turn]:
        """Return what the model says when the system asks for more at the end of a turn."""
        return []

    @contextlib.contextmanager
    def without_power(self) -> Iterator[None]:
        """Everything of the system is gone at once, and is started again by the machine."""
        yield


def _last_line(path: Path) -> bytes:
    return path.read_bytes().splitlines(keepends=True)[-1]


def _killed(scene: Scene, stage: Stage) -> None:
    scene.stopped(stage.allowed)
    line = _last_line(scene.transcript)
    append(scene.transcript, line[: len(line) // 2])


def _cut(scene: Scene, stage: Stage) -> None:
    scene.stopped(stage.allowed)
    path = scene.transcript
    with stage.without_power():
        os.truncate(path, path.stat().st_size - len(_last_line(path)) // 2)


def _limited(scene: Scene, stage: Stage) -> None:
    terminal = scene.play(stage.allowed, [scene.said, _run("git diff")], limited())
    terminal.played()


def _left(scene: Scene, stage: Stage) -> None:
    scene.finished(stage.allowed, stage.epilogue(scene)).leave()


def _cleared(scene: Scene, stage: Stage) -> None:
    terminal = scene.finished(stage.allowed, stage.epilogue(scene))
    terminal.type("/clear")
    terminal.until(lambda: scene.plot.file not in terminal.screen.text, "it was not cleared")


def _compacted(scene: Scene, stage: Stage) -> None:
    compact(scene.finished(stage.allowed, stage.epilogue(scene)), scene.model)


# The power goes first: with it goes our daemon, which the others need.
DEATHS = (
    Death("power cut, half of the last line lost", "Bruges", _cut),
    Death("kill -9 in the middle of a line", "Ghent", _killed),
    Death("usage limit reached", "Delft", _limited, over=False),
    Death("/exit", "Leiden", _left),
    Death("/clear", "Namur", _cleared),
    Death("compaction", "Breda", _compacted),
)


def scenes(world: World, deaths: tuple[Death, ...]) -> dict[Death, Scene]:
    """Return a session for each death, all in one HOME; each has a model of its own."""
    found = {}
    for death in deaths:
        plot = Plot(death.place)
        claude = Claude(VERSION, world, Model(), plot.prepare(world))
        found[death] = Scene(claude, plot, over=death.over)
    return found
