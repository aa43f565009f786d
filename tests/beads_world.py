"""Projects with Beads in them, made by the real programs or by the stand-in."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import scripted_bd
from handoffd.links.beads import Beads, BeadsProgram

REAL = {"classic": "HANDOFFD_TEST_BD_CLASSIC", "current": "HANDOFFD_TEST_BD_CURRENT"}
KINDS = [
    *(f"scripted {shape}" for shape in scripted_bd.SHAPES),
    *(pytest.param(f"real {line}", marks=pytest.mark.slow) for line in REAL),
]


@dataclass
class World:
    """A project in which a person works with Beads, in another terminal."""

    root: Path
    program: Path
    home: Path

    @property
    def beads(self) -> Beads:
        return Beads(str(self.root), self.wanted)

    @property
    def wanted(self) -> BeadsProgram:
        """The program as it is configured: the stand-in is a script, which is not confined."""
        return BeadsProgram(str(self.program), confine=not self.is_scripted)

    @property
    def is_scripted(self) -> bool:
        with self.program.open("rb") as stream:
            return stream.read(2) == b"#!"

    @property
    def directory(self) -> Path:
        return self.root / ".beads"

    def bd(self, *words: str):
        """Run the program as a person does, in the project's directory."""
        done = subprocess.run(
            [str(self.program), *words, "--json"],
            cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout) if done.stdout.strip() else None
        return found["data"] if isinstance(found, dict) and "data" in found else found

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home), "PATH": os.environ["PATH"], "BEADS_NO_DAEMON": "1",
            "BEADS_ACTOR": "person", "BD_NON_INTERACTIVE": "1", "DOLT_METRICS_DISABLED": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null", "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
        }  # fmt: skip

    def epic(self, title: str = "Login") -> str:
        return self.bd("create", title, "-t", "epic")["id"]

    def child(self, epic: str, title: str = "Form") -> str:
        return self.bd("create", title, "--parent", epic)["id"]

    def processes(self) -> list[str]:
        """Return the calls of the program that are at work on this project."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(self.program) in words[:3]:
                found.append(pid)
        return found

    def take(self, path: Path) -> None:
        """Import issues from a file."""
        classic = (self.directory / "beads.db").exists()
        words = ["import", *(["-i"] if classic else []), str(path)]
        subprocess.run(
            [str(self.program), *words], cwd=self.root, env=self.environment, check=True,
            capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def notes(self, issue_id: str) -> str:
        return self.bd("show", issue_id)[0].get("notes", "")


def required(variable: str, reason: str) -> Path:
    """Return a program; without it the test is skipped, and fails where all must run."""
    path = os.environ.get(variable, "")
    if not path:
        reason = f"{variable} names {reason}: `.ci/beads` builds it and prints the variable to set"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return Path(path)


def real_program(line: str) -> Path:
    return required(REAL[line], f"no bd of the {line} line")


def make_world(kind: str, place: Path) -> World:
    """Make a project with an empty database of this kind."""
    how, _, which = kind.partition(" ")
    program = scripted_bd.install(place / "bin", which) if how == "scripted" else place / "bd"
    world = World(place / "shop", program, place / "home")
    world.home.mkdir(parents=True)
    if how == "real":
        program.symlink_to(real_program(which))  # a name of its own, to know its processes by
    world.root.mkdir()
    world.directory.mkdir(exist_ok=True)
    subprocess.run(
        [str(program), "init", "--prefix", "shop", "--quiet"],
        cwd=world.root, env=world.environment, capture_output=True, check=True, timeout=120,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return world


def copied(template: World, place: Path) -> World:
    """Return a copy of a world: the real programs take seconds to make one."""
    shutil.copytree(template.root, place / "shop", symlinks=True)
    (place / "home").mkdir()
    program = template.program
    if program.is_symlink():
        (place / "bd").symlink_to(program.readlink())
        program = place / "bd"
    else:
        shutil.copytree(program.parent, place / "bin")
        (place / "bin" / "calls").unlink()
        text = (place / "bin" / program.name).read_text()
        (place / "bin" / program.name).write_text(
            text.replace(str(program.parent), str(place / "bin"))
        )
        program = place / "bin" / program.name
    return World(place / "shop", program, place / "home")


_made: dict[str, World] = {}


def fresh(kind: str, place: Path, factory: pytest.TempPathFactory) -> World:
    """Return a world of this kind; the first one in a run is made, the others are copies."""
    if kind not in _made:
        _made[kind] = make_world(kind, factory.mktemp("beads"))
    return copied(_made[kind], place)
