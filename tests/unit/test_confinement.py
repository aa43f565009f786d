"""Confined programs: an interpreter attempts, in vain, actions that a hostile database could."""

import gc
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from handoffd.links import confinement, program
from handoffd.links.confinement import Reach

PYTHON = os.path.realpath(sys.executable)
# Each tries one action; {secret} and {outside} are out of its reach, {inside} is within it.
ATTEMPTS = {
    "read": "open({secret!r}).read()",
    "list": "os.listdir({outside!r})",
    "write": "open({outside!r} + '/new', 'w')",
    "overwrite": "open({secret!r}, 'r+')",
    "truncate": "os.truncate({secret!r}, 0)",
    "empty": "os.open({secret!r}, os.O_RDONLY | os.O_TRUNC)",
    "unlink": "os.unlink({secret!r})",
    "rename in": "os.rename({secret!r}, {inside!r} + '/taken')",
    "rename out": "open({inside!r} + '/a', 'w'); os.rename({inside!r} + '/a', {outside!r} + '/a')",
    "hard link": "os.link({secret!r}, {inside!r} + '/linked')",
    "mkdir": "os.mkdir({outside!r} + '/d')",
    "symlink out": "os.symlink({inside!r}, {outside!r} + '/s')",
    "through a link": "os.symlink({secret!r}, {inside!r} + '/s'); open({inside!r} + '/s').read()",
    "through a linked directory": (
        "os.symlink({outside!r}, {inside!r} + '/d'); open({inside!r} + '/d/new', 'w')"
    ),
    "environment of its parent": "open(f'/proc/{{os.getppid()}}/environ').read()",
    "memory of its parent": "open(f'/proc/{{os.getppid()}}/mem', 'rb').read(1)",
    "signal": "os.kill(os.getppid(), 0)",
    "run a program": "os.execv('/bin/true', ['true'])",
    "run a script": (
        "open({inside!r} + '/x', 'w').write('#!/bin/true'); os.chmod({inside!r} + '/x', 0o755);"
        " os.execv({inside!r} + '/x', ['x'])"
    ),
    "TCP": "_socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)",
    "TCP over IPv6": "_socket.socket(_socket.AF_INET6, _socket.SOCK_STREAM)",
    "UDP": "_socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)",
    "a socket of Unix": "_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)",
    "netlink": "_socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW)",
}
POSSIBLE = {
    "write inside": "open({inside!r} + '/w', 'w').write('x')",
    "move inside": (
        "os.mkdir({inside!r} + '/m'); open({inside!r} + '/f', 'w');"
        " os.rename({inside!r} + '/f', {inside!r} + '/m/f')"
    ),
    "a pipe and a thread": "os.pipe(); import _thread; _thread.start_new_thread(id, (1,))",
}


# The Landlock version that confines an attempt; the second one is the oldest that we use.
NEEDED = {"truncate": 3, "empty": 3, "signal": 6}


def require(version: int) -> None:
    """Skip a test that this kernel cannot pass, or fail it if all tests must run."""
    reason = f"this kernel has version {confinement._landlock()} of Landlock, not {version}"
    if confinement.problem() or confinement._landlock() < version:
        if os.environ.get("CI") == "true" and version < 6:
            pytest.fail(confinement.problem() or reason)
        pytest.skip(confinement.problem() or reason)


@pytest.fixture
def attempt(tmp_path):
    """Run a line of Python in a confined interpreter and return the result."""
    require(2)
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside").mkdir()
    names = {name: str(tmp_path / name) for name in ("inside", "outside")}
    (tmp_path / "outside/secret").write_text("kept")
    names["secret"] = f"{names['outside']}/secret"
    readable = (sys.base_prefix + "/lib", os.path.dirname(os.__file__))

    def run(line: str) -> str:
        code = (
            f"import os, sys, _socket\ntry:\n    {line.format(**names)}\n"
            "except OSError as problem:\n    print(problem.strerror or 'Permission denied')\n"
            "else:\n    print('done')\n"
        )
        said = program.run(
            [PYTHON, "-I", "-S", "-c", code], time.monotonic() + 30, {}, cwd="/",
            reach=Reach(PYTHON, readable, (names["inside"],)),
        )  # fmt: skip
        return (said.output + said.complaint).decode().strip()

    return run


@pytest.mark.parametrize("name", ATTEMPTS)
def test_beyond_its_reach(name, attempt, tmp_path):
    """A confined program can use no file out of its reach, no socket and no other program."""
    require(NEEDED.get(name, 2))
    said = attempt(ATTEMPTS[name])

    assert said.splitlines()[-1] in (
        "Permission denied", "Operation not permitted", "Invalid cross-device link",
    )  # fmt: skip
    assert ["secret"] == os.listdir(tmp_path / "outside")
    assert "kept" == (tmp_path / "outside/secret").read_text()


@pytest.mark.parametrize("name", POSSIBLE)
def test_within_its_reach(name, attempt):
    """A confined program can use its given files, threads and pipes."""
    assert "done" == attempt(POSSIBLE[name])


def test_we_are_not_confined(attempt, tmp_path):
    """Neither the calling thread nor another one is confined, and neither is the next program."""
    attempt("pass")
    (tmp_path / "outside/ours").write_text("x")
    socket.socket().close()
    written = []
    thread = threading.Thread(
        target=lambda: written.append((tmp_path / "outside/theirs").write_text("x"))
    )
    thread.start()
    thread.join()

    assert [1] == written
    assert 0 == subprocess.run(["/bin/true"], check=False).returncode


def test_what_cannot_be_started(tmp_path):
    """A missing program raises the usual error, and no process is left."""
    require(2)
    for words, reached in ((["/bin/sh"], "/bin/true"), ([f"{tmp_path}/no"], f"{tmp_path}/no")):
        with pytest.raises(program.ProgramError) as caught:
            program.run(words, time.monotonic() + 30, {}, reach=Reach(reached, (), ()))
        assert caught.value.missing


class Finalized:
    """A reference cycle that only a garbage collection ends; it records the collecting thread."""

    def __init__(self, threads: list[str]):
        self.me, self.threads = self, threads

    def __del__(self):
        self.threads.append(threading.current_thread().name)


def test_nothing_else_runs_in_the_confined_thread(monkeypatch, tmp_path):
    """Finalizers and the search for programs run elsewhere: there they could not reach files."""
    require(2)
    threads, searches = [], []

    def search(given):
        searches.append(threading.current_thread().name)
        return given

    def begin(_words):
        Finalized(threads)
        return [[] for _ in range(10_000)]  # many times the threshold of a collection

    monkeypatch.setattr(program.programs, "search_path", search)
    reach = Reach("/bin/true", (), ())
    program.run(["/bin/true"], time.monotonic() + 30, {}, reach=reach)
    confinement.start(reach, ["/bin/true"], begin)
    was_on = gc.isenabled()
    gc.collect()

    assert was_on
    assert (["MainThread"], ["MainThread"]) == (searches, threads)


def test_where_it_is_possible(monkeypatch):
    """Confinement needs Landlock; without it, or on another machine, the reason is given."""
    monkeypatch.setattr(confinement.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(confinement, "_landlock", lambda: 2)
    assert "" == confinement.problem()
    monkeypatch.setattr(confinement, "_landlock", lambda: 0)
    assert "Landlock" in confinement.problem()
    monkeypatch.setattr(confinement.platform, "machine", lambda: "riscv64")
    assert "riscv64" in confinement.problem()
