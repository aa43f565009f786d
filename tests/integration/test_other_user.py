"""The client's launcher, run by a user who has no access to a part of the installation."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import BIN

NOBODY = 65534


@pytest.fixture
def place():
    """An installation with a stub for an interpreter, in a place that every user can reach."""
    # pytest's own directories are closed to others.
    found = Path(tempfile.mkdtemp(prefix="ho-", dir="/tmp"))
    found.chmod(0o755)
    package = found / "lib/python3.11/site-packages/handoff"
    package.mkdir(parents=True)
    (package / "fast.py").write_text("")
    (found / "bin").mkdir()
    (found / "home/python").mkdir(parents=True)
    script(found / "home/python/python3", "#!/bin/sh\necho started\n")
    (found / "bin/python").symlink_to("python3")
    (found / "bin/python3").symlink_to(found / "home/python/python3")
    script(found / "bin/handoffd", f"#!{found}/bin/python\n")
    shutil.copy(BIN / "handoff", found / "bin/handoff")
    yield found
    for path in [found, *found.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(found)


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def run(place: Path, *words: str) -> subprocess.CompletedProcess:
    """Run it as another user; a user other than root is locked out by the modes alone."""
    other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(
        [str(place / "bin/handoff"), *(words or ("status",))],
        cwd="/", env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=90,
        check=False, **other,
    )  # fmt: skip


def test_open_to_all(place):
    """With everything open the client is started."""
    assert (0, "started\n", "") == (
        (done := run(place)).returncode, done.stdout, done.stderr,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("closed", "named"),
    [
        ("home", "home/python/python3"),
        ("home/python", "home/python/python3"),
        ("home/python/python3", "home/python/python3"),
        ("lib", "bin/../lib"),
        ("lib/python3.11/site-packages", "bin/../lib/python3.11/site-packages"),
        ("lib/python3.11/site-packages/handoff", "bin/../lib/python3.11/site-packages/handoff"),
    ],
)
def test_a_closed_part_is_named(place, closed, named):
    """The message names the file, the closed part of its path, and a remedy.

    A hook still ends with 0.
    """
    (place / closed).chmod(0)

    done = run(place)
    hook = run(place, "hook")

    assert (1, "") == (done.returncode, done.stdout)
    assert f"{place}/{named} cannot be used: you have no access to {place}/" in done.stderr
    assert os.path.realpath(place / closed) == os.path.realpath(
        done.stderr.split("you have no access to ")[1].split("\n")[0].removesuffix(".")
    )
    assert "pipx install handoffd" in done.stderr
    assert "exec:" not in done.stderr
    assert (0, "") == (hook.returncode, hook.stdout)


def test_a_closed_interpreter_behind_a_long_path(place):
    """The form that installers write for long paths, and for paths with spaces, is understood."""
    (place / "bin/python").unlink()
    for quote in ("", '"'):
        python = f"{place}/home/python/python3"
        line = f"'''exec' {quote}{python}{quote} \"$0\" \"$@\"\n' '''\n"
        script(place / "bin/handoffd", f"#!/bin/sh\n{line}")
        assert "started\n" == run(place).stdout
        (place / "home").chmod(0)
        assert f"{python} cannot be used: you have no access to {place}/home." in run(place).stderr
        (place / "home").chmod(0o755)


def test_a_part_that_is_missing(place):
    """A missing part is reported as missing, not as closed."""
    (place / "bin/python").unlink()
    (place / "bin/handoffd").unlink()

    done = run(place)

    assert 1 == done.returncode
    assert f"handoff: {place}/bin/handoffd is missing. Install handoffd anew.\n" == done.stderr
