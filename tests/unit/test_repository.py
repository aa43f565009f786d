"""The state of a work tree, as a real git reports it."""

import os
import subprocess

import pytest

from handoffd.links import git
from handoffd.links.git_discovery import Worktree
from handoffd.links.repository import Since, commits_after, head, since, worktrees

ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.invalid",
}  # fmt: skip


def run(path, *words):
    done = subprocess.run(
        ["git", "-C", str(path), *words],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    path = tmp_path / "repo"
    path.mkdir()
    run(path, "init", "-q", "-b", "main")
    commit(path, "a.txt", "one")
    return path


def commit(path, name, text):
    (path / name).write_text(text)
    run(path, "add", "-A")
    run(path, "commit", "-q", "-m", f"Write {name}")
    return run(path, "rev-parse", "HEAD")


def test_head(repository):
    """HEAD is returned with its commit, its branch and the files that differ from it."""
    (repository / "b c.txt").write_text("new")
    (repository / "a.txt").write_text("changed")
    found = head(str(repository))

    assert (run(repository, "rev-parse", "HEAD"), "main") == (found.commit, found.branch)
    assert not found.detached
    assert (None, None) == (found.ahead, found.behind)
    assert {"a.txt", "b c.txt"} == set(found.uncommitted)


def test_detached(repository):
    """A detached HEAD has no branch and is marked as detached."""
    run(repository, "checkout", "-q", "--detach")
    found = head(str(repository))

    assert ("", True) == (found.branch, found.detached)
    assert 40 == len(found.commit)


def test_before_the_first_commit(tmp_path):
    """A repository without a commit has a branch and no commit."""
    run(tmp_path, "init", "-q", "-b", "main")

    assert ("", "main") == head(str(tmp_path))[:2]


def test_ahead_and_behind(repository, tmp_path):
    """Commits ahead of and behind the upstream are counted."""
    run(tmp_path, "clone", "-q", str(repository), "clone")
    commit(repository, "b.txt", "two")
    clone = tmp_path / "clone"
    commit(clone, "c.txt", "three")
    commit(clone, "d.txt", "four")
    run(clone, "fetch", "-q")
    found = head(str(clone))

    assert (2, 1) == (found.ahead, found.behind)


def test_a_conflict_is_uncommitted(repository):
    """A file with a conflict is listed as uncommitted."""
    run(repository, "checkout", "-q", "-b", "other")
    commit(repository, "a.txt", "two")
    run(repository, "checkout", "-q", "main")
    commit(repository, "a.txt", "three")
    with pytest.raises(subprocess.CalledProcessError):
        run(repository, "merge", "other")

    assert ("a.txt",) == head(str(repository)).uncommitted


def test_worktrees(repository, tmp_path):
    """Every work tree is returned with its branch."""
    run(repository, "worktree", "add", "-q", "-b", "auth", str(tmp_path / "auth"))

    assert [
        Worktree(str(repository), "main", f"{repository}/.git"),
        Worktree(str(tmp_path / "auth"), "auth", f"{repository}/.git/worktrees/auth"),
    ] == worktrees(str(repository))


def test_since(repository):
    """The commits since a given one are counted, and their files are named."""
    commit(repository, "b.txt", "two")
    first = run(repository, "rev-parse", "--short=7", "HEAD")
    commit(repository, "c.txt", "three")
    (repository / "a.txt").write_text("not committed")

    assert Since(1, ("c.txt",)) == since(str(repository), first)


@pytest.mark.parametrize("commit", ["unknown", "", "--output=x", "HEAD"])
def test_only_a_hash_is_asked_for(repository, commit):
    """A value that is not a hash is never passed to git."""
    assert Since(None, ()) == since(str(repository), commit)


def test_a_commit_that_is_not_here(repository):
    """A commit of another clone is an error."""
    with pytest.raises(git.GitError):
        since(str(repository), "abcdef1")


def test_commits_after(repository, tmp_path):
    """Commits after a time are returned, the newest first; an empty repository has none."""
    commit(repository, "b.txt", "two")
    run(tmp_path, "init", "-q", "empty")

    found = commits_after(str(repository), "2020-01-01T00:00:00Z", 10)
    assert 2 == len(found)
    assert found[0].seconds >= found[1].seconds > 1_700_000_000
    assert found[0].text.startswith(run(repository, "rev-parse", "--short", "HEAD"))
    assert [] == commits_after(str(repository), "2099-01-01T00:00:00Z", 10)
    assert [] == commits_after(str(tmp_path / "empty"), "2020-01-01T00:00:00Z", 10)
