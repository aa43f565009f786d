"""`handoff` finds its interpreter and its code after every way of installation."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

import pytest

from conftest import BIN, REPOSITORY

HOME = tempfile.TemporaryDirectory()


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = sorted((REPOSITORY / "dist").glob("*.whl"))
    if not found:
        pytest.skip("there is no wheel in dist/: `make test` builds one")
    return found[-1]


def run(*words, cwd="/", **environment) -> subprocess.CompletedProcess:
    variables = {"PATH": os.environ["PATH"], "HOME": HOME.name, **environment}
    return subprocess.run(
        [str(word) for word in words], env=variables, cwd=cwd, capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL, timeout=100,
    )  # fmt: skip


def answers(program: Path, **given) -> None:
    """Assert that the hot path, the slow path and the daemon's script all start."""
    hot = run(program, "status", **given)
    slow = run(program, "save", "--help", **given)

    assert 3 == hot.returncode, hot.stderr
    assert "handoffd is not running." in hot.stderr
    assert "Example: handoff save" in slow.stdout, slow.stderr


def pip(python, *words, **environment) -> None:
    done = run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--disable-pip-version-check",
        *words,
        **environment,
    )
    assert 0 == done.returncode, done.stderr


def make_environment(directory: Path) -> Path:
    """Make a virtual environment that sees this one's libraries, and return its bin directory."""
    venv.create(directory, with_pip=False)
    site = next(directory.glob("lib/python3*/site-packages"))
    (site / "zz_libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return directory / "bin"


def test_environment_with_spaces_and_a_link(tmp_path, wheel):
    """The programs start from a path with spaces, through links as pipx and uv tool make them."""
    place = make_environment(tmp_path / "a directory with spaces")
    pip(place / "python", "--ignore-installed", wheel)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/handoff").symlink_to(place / "handoff")
    (tmp_path / "handoff").symlink_to("bin/handoff")

    answers(place / "handoff")
    answers(tmp_path / "handoff")
    assert "usage: handoffd" in run(place / "handoffd", "--help").stdout


def test_user_install(tmp_path, wheel):
    """`pip install --user` puts no interpreter beside the program, and the program still starts."""
    base = Path(sys._base_executable)
    environment = {
        "HOME": str(tmp_path),
        "PYTHONUSERBASE": str(tmp_path / ".local"),
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
    }
    if run(base, "-m", "pip", "--version").returncode:
        pytest.skip(
            "the interpreter below the environment has no pip: install it (Debian: apt-get install python3-pip)"
        )
    pip(base, "--user", "--ignore-installed", wheel, **environment)

    answers(tmp_path / ".local/bin/handoff", HOME=str(tmp_path))


def test_editable_install(tmp_path):
    """An editable install has its code elsewhere, and the daemon's script finds it."""
    place = make_environment(tmp_path / "editable")
    pip(place / "python", "--ignore-installed", "--no-build-isolation", "-e", REPOSITORY)

    answers(place / "handoff")


@pytest.mark.parametrize("path", [":", ".", "{here}", "x:"])
def test_the_daemon_s_interpreter_imports_nothing_from_here(path, tmp_path):
    """The client's fallback to the daemon's script imports no module of the current directory."""
    (tmp_path / "bin").mkdir()
    for name in ("handoff", "handoffd"):
        shutil.copy(BIN / name, tmp_path / "bin" / name)
    here, mark = tmp_path / "repository", tmp_path / "mark"
    here.mkdir()
    for name in ("sitecustomize", "usercustomize", "json", "handoff", "handoffd"):
        (here / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write(__file__)\n")
    given = {"PYTHONPATH": path.format(here=here), "PYTHONHOME": "", "PYTHONUSERBASE": str(here)}

    answers(tmp_path / "bin/handoff", cwd=here, **given)
    assert not mark.exists(), mark.read_text()
