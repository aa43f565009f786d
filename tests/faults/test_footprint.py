"""Our files on a disk: their readers, git's view of them, and the rest after `forget`."""

import os
import re
import stat

import pytest

import conductor_projects
import written_handoffs
from conftest import contents_below, paths_below, timestamp, wait_for

SETUP = ("setup", "--yes", "--without", "service", "--with", "statusline", "--with", "flow")
WORD = "quixotic-zanzibar"


def ask(sandbox, *words, cwd, **run):
    done = sandbox.handoff(*words, cwd=cwd, **run)
    assert 0 == done.returncode, (words, done.stdout, done.stderr)
    return done.stdout


def use_everything(sandbox, project, **run):
    """Write every kind of file: by setup, a daemon, and commands with it and without."""
    for words in (SETUP, ("token", "show"), ("up",)):
        ask(sandbox, *words, cwd=sandbox.home, **run)
    session = written_handoffs.work(sandbox, project, ago=3)
    session.say(f"I suspect the {WORD}.", timestamp=timestamp(1))
    wait_for(lambda: sandbox.yaml(project))
    ask(sandbox, "save", "-m", f"about the {WORD}", cwd=project, **run)
    ask(sandbox, "close", "--done", f"the {WORD}", cwd=project, **run)
    conductor_projects.track(project)
    ask(sandbox, "create", cwd=project, **run)
    thread = ask(sandbox, "thread", "create", "a title", cwd=project, input="said", **run).split()[
        0
    ]
    wait_for(lambda: any((sandbox.state / "briefs").iterdir()))
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(f"goal: [{WORD}\n")
    ask(sandbox, "save", "-m", "over what cannot be read", cwd=project, **run)
    ask(sandbox, "down", cwd=sandbox.home, **run)
    ask(sandbox, "save", "-m", f"without a daemon: {WORD}", cwd=project, **run)
    ask(sandbox, "thread", "close", thread, "--yes", cwd=project, **run)
    ask(sandbox, "up", cwd=sandbox.home, **run)  # which copies core.db
    wait_for((sandbox.state / "core.db.backup").exists)
    return session


def paths(*roots):
    return {*paths_below(*roots)}


@pytest.mark.long
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_nobody_else_can_read_what_we_write(sandbox, umask, record_property):
    """Under any umask every file and directory is its owner's alone, except track records."""
    sandbox.transcripts.mkdir(parents=True)
    project = sandbox.project()
    theirs = paths(sandbox.home)
    use_everything(sandbox, project, umask=umask)
    try:
        made = paths(sandbox.home, sandbox.runtime / "handoffd") - theirs
        of_the_test = (project / "conductor/tracks", sandbox.transcripts, project / ".git")
        ours = [p for p in made if not any(p.is_relative_to(root) for root in of_the_test)]
    finally:
        sandbox.handoff("down")
    ours = [path for path in ours if os.path.lexists(path)]
    open_ones = {p for p in ours if not p.is_symlink() and stat.S_IMODE(p.lstat().st_mode) & 0o077}
    records = {p for p in ours if p.is_relative_to(project / "conductor")}
    assert records == open_ones
    assert {0o644, 0o755} == {stat.S_IMODE(path.stat().st_mode) for path in records}
    record_property("figure", f"umask {umask:03o}: {len(ours) - len(records)} of ours alone")


IGNORES = ("", "!*\n", "!.flow-guardian\n!.flow-guardian/**\n", "!.flow-guardian/\n!handoff.yaml\n")


@pytest.mark.parametrize("nested", [False, True])
def test_git_never_takes_in_a_file_of_ours(live, nested, record_property):
    """`git add -A` stages nothing of .flow-guardian/, with any .gitignore of the repository."""
    for number, ignore in enumerate(IGNORES):
        repository = live.project(f"p{number}")
        (repository / ".gitignore").write_text(ignore)
        project = repository
        if nested:
            project = repository / "inner"
            project.mkdir()
            live.git(project, "init", "-q", "-b", "main")
            (project / ".gitignore").write_text(ignore)
        live.session(project).prompt("Write beside a .gitignore")
        wait_for(lambda p=project: live.yaml(p))
        ask(live, "save", "-m", "and by hand", cwd=project)
        (project / "work.txt").write_text("theirs")
        live.git(project, "add", "-A")
        staged = live.git(project, "ls-files").split()
        assert [".gitignore", "work.txt"] == staged
        assert not (project / "conductor").exists()
    record_property("figure", f"0 files staged in {len(IGNORES)} repositories{', nested' * nested}")


@pytest.mark.long
def test_forgetting_everything(sandbox, record_property):
    """After `handoff forget` no byte of a project's words is in any kind of file, but its records."""
    sandbox.transcripts.mkdir(parents=True)
    project = sandbox.project()
    use_everything(sandbox, project)
    try:
        roots = (project / ".flow-guardian", sandbox.state, sandbox.home / ".claude/handoffs")
        holders = lambda: [p for p, text in contents_below(*roots).items() if WORD.encode() in text]  # noqa: E731
        before = {kind(path) for path in holders()}
        assert {"handoff.yaml", "handoff.yaml.unreadable", "core.db", "brief"} <= before
        ask(sandbox, "forget", "--yes", cwd=project)
        assert [] == holders()
        assert not (project / ".flow-guardian").exists()
        ask(sandbox, "restart", cwd=sandbox.home)
        wait_for(sandbox.settled)
        assert [] == holders()
    finally:
        sandbox.handoff("down")
    record_property("figure", f"0 bytes left in {len(before)} kinds of files")


def kind(path):
    if path.parent.name == "briefs":
        return "brief"
    return re.sub(r"unreadable-.*", "unreadable", re.sub(r"\.db.*", ".db", path.name))
