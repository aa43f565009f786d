"""Hundreds of hostile repositories, and every question that we ask: git runs nothing of them."""

import ast
import inspect
import json
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import REPOSITORY, contents_below, wait_for
from handoffd.contract import contract_writer
from handoffd.links import git, git_discovery, repository
from handoffd.links.git import GitError
from handoffd.offline import commands
from handoffd.projects import project_root
from hostile_repositories import World, cases, is_run_by_git

QUESTIONS = {
    git.uncommitted_files: lambda ask, root, _commit: ask(root, 10),
    git.status: lambda ask, root, _commit: ask(root, 10, "--branch"),
    git.is_tracked: lambda ask, root, _commit: ask(root, "a.txt"),
    git.may_be_tracked: lambda ask, root, _commit: ask(f"{root}/.git", "a.txt"),
    git.unpushed_commits: lambda ask, root, _commit: ask(root),
    git.added_lines: lambda ask, root, commit: ask(root, commit),
    repository.head: lambda ask, root, _commit: ask(root),
    repository.worktrees: lambda ask, root, _commit: ask(root),
    repository.commits_after: lambda ask, root, _commit: ask(root, "2020-01-01T00:00:00Z", 10),
    repository.since: lambda ask, root, commit: ask(root, commit),
    git_discovery.suspected: lambda ask, root, _commit: ask(root),
    project_root.branch: lambda ask, root, _commit: ask(root),
    project_root.git_directory: lambda ask, root, _commit: ask(root),
    project_root.reflog_stamp: lambda ask, root, _commit: ask(root),
    contract_writer.ask_git: lambda ask, root, _commit: ask(root),
    contract_writer.committed_secrets: lambda ask, root, commit: ask(root, commit),
    commands.git_state: lambda ask, root, _commit: ask(root),
}


def test_every_question_is_asked():
    """Every function that asks git is among the questions that hostile repositories are asked."""
    public = {
        function
        for module in (git, repository)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert public <= QUESTIONS.keys()


@pytest.mark.quick
def test_one_module_runs_git():
    """No other module starts git, and two modules alone ask it."""
    users: dict[str, set[str]] = {"program": set(), "git_process": set()}
    for path in (REPOSITORY / "daemon/handoffd").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for name, found in users.items():
            if any(f"handoffd.links.{name}" in imported for imported in _imports(tree)):
                found.add(path.relative_to(REPOSITORY / "daemon/handoffd").as_posix())

    starting = {"links/git_process.py", "links/beads_program.py", "links/desktop.py"}
    ending = {"app.py", "projects/git_questions.py"}
    assert starting | ending == users["program"]
    assert {"links/git.py", "links/repository.py", "app.py"} == users["git_process"]


def _imports(tree: ast.AST) -> list[str]:
    return [
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


def ran(world: World, case) -> tuple[list[str], bool]:
    """Return the questions that ran the canary, and whether a plain git would have run it."""
    root, found = str(case.make(world)), []
    for ask, call in QUESTIONS.items():
        with suppress(GitError):
            call(ask, root, world.commit)
        if world.mark.exists():
            found.append(f"{case.name}: {ask.__name__}: {world.mark.read_text()}")
            world.mark.unlink()
    return found, is_run_by_git(world, root)


def attack(tmp_path, monkeypatch, chosen, record_property):
    monkeypatch.setenv("HOME", str(tmp_path))
    world, found, wrong, run_by_git = World(tmp_path), [], [], 0
    began = time.monotonic()
    for case in chosen:
        world.begin()
        runs, is_run = ran(world, case)
        found += runs
        run_by_git += is_run
        wrong += [case.name] if case.is_run_by_git and not is_run else []

    assert [] == found
    assert [] == wrong, "a plain git was to run the canary there"
    figure = f"{len(chosen)} repositories, {len(QUESTIONS)} questions each: 0 canaries run; plain git ran {run_by_git}"
    record_property("figure", figure)
    print(figure, time.monotonic() - began)


def test_a_sample_of_hostile_repositories(tmp_path, monkeypatch, record_property):
    """No question to git runs a program of a hostile repository; plain git runs many."""
    attack(tmp_path, monkeypatch, cases()[::31], record_property)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_hundreds_of_hostile_repositories(tmp_path, monkeypatch, part, record_property):
    """No program of any generated hostile repository is run."""
    attack(tmp_path, monkeypatch, cases()[part::8], record_property)


CHOSEN = (
    r"filter clean b'\xff' .gitattributes plain",
    "filter clean b'evil' .gitattributes behind_much_else",
    "embedded docs/inner pyproject.toml False",
    "in a submodule",
    "linked",
    "[core] fsmonitor plain",
    "diff textconv b'evil' .gitattributes plain",
)
COMMANDS = (
    ["inject", "--save-state"], ["hook"], ["show"], ["save", "-m", "x"], ["create", "--general"],
    ["resume"], ["close", "--done", "x"], ["doctor"],
)  # fmt: skip


def recorded(sandbox) -> Path:
    """Let every started git write down the git directory that it was given."""
    program, calls = sandbox.home / "bin/git", sandbox.home / "calls"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$GIT_DIR" >> {calls}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    sandbox.environment["PATH"] = f"{program.parent}:{sandbox.environment['PATH']}"
    return calls


def speak(sandbox, path) -> None:
    """Run the commands that a person, a hook or the daemon runs in a directory."""
    hook = {"session_id": "s", "cwd": str(path), "hook_event_name": "PreCompact"}
    for command in COMMANDS:
        done = sandbox.handoff(*command, cwd=path, input=json.dumps(hook))
        assert "Traceback" not in done.stderr, (command, done.stderr)


@pytest.mark.parametrize("names", [CHOSEN[:3], pytest.param(CHOSEN[3:], marks=pytest.mark.long)])
def test_a_daemon_among_hostile_repositories(sandbox, names, record_property):
    """Neither the daemon, nor the client, nor a hook runs a program of a repository.

    That holds with and without a daemon.
    """
    sandbox.transcripts.mkdir(parents=True)
    worlds, paths = [], []
    chosen = {case.name: case for case in cases() if case.name in names}
    for number, name in enumerate(names):
        (sandbox.home / f"code{number}").mkdir()
        worlds.append(World(sandbox.home / f"code{number}"))
        worlds[-1].begin()
        paths.append(chosen[name].make(worlds[-1]))
    calls = recorded(sandbox)
    sandbox.start()
    for path in paths:
        session = sandbox.session(path)
        session.prompt("Look at this strange repository")
        session.edit(str(path / "a.txt"))
    for path in paths:
        wait_for(lambda path=path: "strange repository" in str(sandbox.show(path)))
        speak(sandbox, path)
    sandbox.stop()
    for path in paths:
        speak(sandbox, path)

    given = calls.read_text().splitlines()
    assert [] == [world.mark.read_text() for world in worlds if world.mark.exists()]
    assert len(given) > 10 * len(paths)
    assert {"/dev/null", str(sandbox.state / "git")} == {
        place if place == "/dev/null" else str(Path(place).parent) for place in given
    }
    for world, path in zip(worlds, paths, strict=True):
        assert is_run_by_git(world, path), path
    record_property("figure", f"{len(paths)} repositories, {len(given)} times git: 0 canaries run")


def test_names_from_elsewhere_stay_out(live):
    """No part of a `.git` that leads elsewhere brings a name from there into our files."""
    victim = live.project("victim")
    (victim / "secret-plan.txt").write_text("x\n")
    live.git(victim, "add", ".")
    live.git(victim, "commit", "-qm", "Plan the secret")
    commit = live.git(victim, "rev-parse", "HEAD").strip()
    live.git(victim, "checkout", "-qb", "secret-branch")
    (victim / "secret-plan.txt").write_text("y\n")
    led = live.project("led", git=False)
    sent, linked, linked_above, known = (
        live.project(name) for name in ("sent", "linked", "linked-above", "known")
    )
    (led / ".git").write_text(f"gitdir: {victim}/.git\n")
    live.git(sent, "config", "core.worktree", str(victim))
    theirs = victim / ".git/refs/heads"
    (linked / ".git/refs/heads/main").unlink(missing_ok=True)
    (linked / ".git/refs/heads/main").symlink_to(theirs / "main")
    shutil.rmtree(linked_above / ".git/refs/heads")
    (linked_above / ".git/refs/heads").symlink_to(theirs)
    (known / ".git/refs/heads/main").write_text(f"{commit}\n")
    for path in (linked, linked_above, known):
        (path / ".git/objects/info/alternates").write_text(f"{victim}/.git/objects\n")
    hostile = (led, sent, linked, linked_above, known)
    for path in hostile:
        live.session(path).prompt("Work on in a strange repository")
        wait_for(lambda path=path: "strange repository" in live.yaml(path))
        live.handoff("close", "--done", "x", cwd=path)
        live.handoff("create", "--general", cwd=path)
    wait_for(lambda: len(hostile) == live.handoff("status").stdout.count("git is not asked"))

    found = contents_below(*hostile, live.home / ".claude/handoffs")
    texts = {file: text.decode() for file, text in found.items() if ".git" not in file.parts}
    assert len(texts) >= 2 * len(hostile)
    assert {} == {file: text for file, text in texts.items() if "secret" in text.lower()}
