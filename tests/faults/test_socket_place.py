"""The socket's place: a place that is not ours alone is refused, by both sides alike."""

import os
from pathlib import Path

import pytest

from conftest import wait_for


def foreign(directory: Path) -> None:
    if os.getuid() != 0:
        pytest.skip(
            "gives a directory to another user, which only root may do: run the tests as root"
        )
    directory.mkdir()
    os.chown(directory, 65534, 65534)


def writable(mode: int):
    def make(directory: Path) -> None:
        directory.mkdir()
        directory.chmod(mode)

    return make


def link(directory: Path) -> None:
    target = directory.with_name("target")
    target.mkdir(mode=0o700)
    directory.symlink_to(target)


def file(directory: Path) -> None:
    directory.write_text("")


PLACES = {
    "group": (writable(0o770), "Other users may write to"),
    "world": (writable(0o777), "Other users may write to"),
    "sticky": (writable(0o1777), "Other users may write to"),
    "foreign": (foreign, "is not a directory of this user"),
    "link": (link, "is not a directory of this user"),
    "file": (file, "File exists"),
}


@pytest.mark.parametrize("name", PLACES)
def test_place_that_is_not_ours_alone(sandbox, name, record_property):
    """A directory that others own or may write to, or a link, is refused with the reason."""
    make, why = PLACES[name]
    directory = sandbox.runtime / "open"
    make(directory)
    before = os.lstat(directory)
    sandbox.environment["HANDOFFD_SOCKET"] = str(directory / "x.sock")

    assert 1 == sandbox.spawn().wait(90)
    said = sandbox.log.read_text()
    assert why in said
    assert "HANDOFFD_SOCKET" in said
    assert "Traceback" not in said
    after = os.lstat(directory)
    assert (before.st_mode, before.st_uid) == (after.st_mode, after.st_uid)
    assert [] == [path.name for path in sandbox.runtime.rglob("*.sock")]
    record_property("figure", f"{len(PLACES)} of {len(PLACES)} kinds refused with a reason")


@pytest.mark.parametrize("name", ["foreign", "link", "file"])
def test_runtime_directory_that_is_not_ours(sandbox, name):
    """If XDG_RUNTIME_DIR has such a directory, both sides use the state directory."""
    make, _ = PLACES[name]
    make(sandbox.runtime / "handoffd")
    sandbox.environment["XDG_STATE_HOME"] = str(sandbox.runtime / "state")
    sandbox.process = sandbox.spawn()
    wait_for(lambda: sandbox.alive() and sandbox.handoff("status").returncode == 0)

    assert [] == [path for path in sandbox.runtime.glob("[ht]*/*") if path.is_socket()]


def test_long_paths(sandbox, tmp_path):
    """Both sides skip a path that is too long for a socket; a configured one is an error."""
    long = tmp_path / ("x" * 120)
    long.mkdir()
    sandbox.environment["XDG_RUNTIME_DIR"] = str(long)
    sandbox.environment["XDG_STATE_HOME"] = str(sandbox.runtime / "state")
    sandbox.process = sandbox.spawn()
    wait_for(lambda: sandbox.alive() and sandbox.handoff("status").returncode == 0)
    sandbox.stop()
    sandbox.environment["HANDOFFD_SOCKET"] = f"{long}/{'y' * 20}"
    asked, started = sandbox.handoff("status"), sandbox.handoff("up")

    assert [] == list(long.iterdir())
    assert 3 == asked.returncode
    assert 1 == started.returncode
    assert "is longer than 103 bytes" in started.stderr
    assert "Set HANDOFFD_SOCKET to a short path" in started.stderr
