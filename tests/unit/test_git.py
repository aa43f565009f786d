"""Questions to git for a handoff: real repositories, hostile ones, and limits."""

import os
import subprocess

import pytest

from handoffd.links import git, git_process, program


@pytest.fixture
def repository(tmp_path):
    """Yield a repository with one commit, and a function that runs git in it."""
    root = tmp_path / "shop"
    root.mkdir()
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.invalid",
        "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.invalid",
    }  # fmt: skip

    def run(*words):
        done = subprocess.run(
            ["git", "-C", str(root), *words],
            env=environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip()

    run("init", "-q", "-b", "main")
    (root / "a.txt").write_text("one\n")
    run("add", ".")
    run("commit", "-qm", "one")
    return root, run


def test_unpushed_commits(repository, tmp_path):
    """Commits that no remote has are counted; without a remote the count is unknown."""
    root, run = repository
    assert git.unpushed_commits(str(root)) is None
    run("init", "-q", "--bare", str(tmp_path / "origin"))
    run("remote", "add", "origin", str(tmp_path / "origin"))
    run("push", "-q", "origin", "main")
    assert 0 == git.unpushed_commits(str(root))
    run("commit", "-q", "--allow-empty", "-m", "two")
    run("commit", "-q", "--allow-empty", "-m", "three")

    assert 2 == git.unpushed_commits(str(root))


def test_uncommitted_files(repository):
    """Files that differ from the last commit are listed, without temporary and compiled ones."""
    root, _run = repository
    (root / "__pycache__").mkdir()
    (root / "__pycache__/a.pyc").write_text("")
    for name in ("a.txt", "b.txt", "b.txt.tmp.22036.ff07b314c84e", "c.tmp"):
        (root / name).write_text("two\n")

    assert ["a.txt", "b.txt", "c.tmp"] == git.uncommitted_files(str(root))


def test_added_lines(repository):
    """The lines that a commit added are returned by file; removed lines are not."""
    root, run = repository
    (root / "a.txt").write_text("two\n")
    (root / "b c.txt").write_text("three\nfour\n")
    run("add", ".")
    run("commit", "-qm", "two")

    found = git.added_lines(str(root), run("rev-parse", "HEAD"))
    assert {"a.txt": "two\n", "b c.txt": "three\nfour\n"} == found


def test_output_is_bounded(repository, monkeypatch):
    """A huge diff is read up to a limit, and git is ended at that point."""
    root, run = repository
    (root / "big.txt").write_text("x" * 99 + "\n" + "y" * 2_000_000)
    run("add", ".")
    run("commit", "-qm", "big")
    monkeypatch.setattr(git_process, "OUTPUT_MAX_BYTES", 10_000)

    found = git.added_lines(str(root), run("rev-parse", "HEAD"))
    assert len(found["big.txt"]) < 10_000
    assert not program._running


def test_no_repository(tmp_path):
    """Outside a repository git fails, and that is reported as such."""
    with pytest.raises(git.GitError):
        git.unpushed_commits(str(tmp_path))
