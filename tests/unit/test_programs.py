"""The search path excludes directories into which a project can put a program."""

import os

import pytest

from handoff.common import programs
from handoffd.links import desktop


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A HOME that is a repository itself, with programs in the usual places."""
    for name in (".git", ".local/bin", ".nvm/.git", ".nvm/bin", "bin", "code/shop/.git",
                 "code/shop/bin", "code/shop/.venv/bin", "code/loose/bin", "links"):  # fmt: skip
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "links/bin").symlink_to(tmp_path / "code/shop/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir("/")
    return tmp_path


@pytest.mark.parametrize(
    ("place", "is_kept"),
    [
        (".local/bin", True), ("bin", True), (".nvm/bin", True), ("code/loose/bin", True),
        ("code/shop/bin", False), ("code/shop", False), ("code/shop/.venv/bin", False),
        ("links/bin", False), ("code/shop/../shop/bin", False),
    ],
)  # fmt: skip
def test_directories_of_projects(home, place, is_kept):
    """Directories in a project are left out; HOME and a version manager's are no projects."""
    found = programs.search_path(f"{home}/{place}:/usr/bin")

    assert found == (f"{home}/{place}:/usr/bin" if is_kept else "/usr/bin")


@pytest.mark.parametrize("given", ["", ":", ".", "bin:", "./bin:../bin", "{home}/code/shop/bin"])
def test_nothing_that_is_left(home, given, monkeypatch):
    """Relative directories are left out; if no other is given, the system's default remains."""
    monkeypatch.chdir(home)

    assert os.defpath == programs.search_path(given.format(home=home))


def test_the_project_we_run_in(home, monkeypatch):
    """A program that runs in a directory without a marker leaves it out; HOME is never left out."""
    place = f"{home}/code/loose/bin"
    monkeypatch.chdir(home / "code/loose")
    assert "/usr/bin" == programs.search_path(f"{place}:/usr/bin")
    monkeypatch.chdir(home)

    assert f"{place}:{home}/bin" == programs.search_path(f"{place}:{home}/bin")


@pytest.mark.parametrize(
    ("project", "place", "is_kept"),
    [
        ("/opt/proj", "/opt/proj/bin", False), ("/usr/src/app", "/usr/src/app/bin", False),
        ("/usr/local/src/app", "/usr/local/src/app/node_modules/.bin", False),
        ("/opt/homebrew", "/opt/homebrew/bin", True), ("/usr/local", "/usr/local/bin", True),
        ("/nix/store/x", "/nix/store/x/bin", True), ("/snap/x", "/snap/x/bin", True),
        ("/opt/homebrewed", "/opt/homebrewed/bin", False), ("/usr/local", "/usr/local/x/bin", False),
    ],
)  # fmt: skip
def test_projects_among_the_system_s_directories(home, project, place, is_kept, monkeypatch):
    """A repository in /opt or /usr is a project; a package manager's only if we run in it."""
    monkeypatch.setattr(programs.paths, "has_marker", lambda directory: directory == project)
    kept = f"{place}:/usr/bin"
    assert (kept if is_kept else "/usr/bin") == programs.search_path(kept)
    monkeypatch.setattr(programs.os, "getcwd", lambda: f"{project}/src")
    assert "/usr/bin" == programs.search_path(kept)


def test_a_notification(home, monkeypatch):
    """A project's notify-send is not run, although it is first on PATH."""
    hostile = home / "code/shop/bin/notify-send"
    hostile.write_text(f"#!/bin/sh\necho >{home}/ran\n")
    hostile.chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":77")
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setenv("PATH", f"{home}/code/shop/bin:{home}/bin")
    ours = home / "bin/notify-send"
    ours.write_text(f"#!/bin/sh\necho >{home}/ours\n")
    ours.chmod(0o755)
    desktop.notify("Title", "text")

    assert (home / "ours").exists()
    assert not (home / "ran").exists()
