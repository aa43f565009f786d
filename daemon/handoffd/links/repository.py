"""The state of a work tree: HEAD, its upstream, other work trees, and later commits."""

import re
import time
from typing import NamedTuple

from handoffd.links import git, git_discovery, git_process
from handoffd.links.git_discovery import Worktree

_HASH = re.compile(r"[0-9a-f]{7,64}")
COMMITS_MAX = 1000
PATHS_MAX = 500
RECENT_MAX = 50


class Head(NamedTuple):
    """HEAD and related data; `branch` is empty if detached, counts are None without upstream."""

    commit: str = ""
    branch: str = ""
    detached: bool = False
    ahead: int | None = None
    behind: int | None = None
    uncommitted: tuple[str, ...] = ()


def head(root: str) -> Head:
    """Return HEAD and the uncommitted files; raise a GitError if git does not answer."""
    headers, uncommitted = git.status(root, git.TIMEOUT_SECONDS, "--branch")
    commit = headers.get("branch.oid", "")
    branch = headers.get("branch.head", "")
    ahead, behind = _counts(headers.get("branch.ab", ""))
    detached = branch == "(detached)"
    return Head(
        commit if _HASH.fullmatch(commit) else "",
        "" if detached else branch,
        detached,
        ahead,
        behind,
        tuple(uncommitted),
    )


def _counts(text: str) -> tuple[int | None, int | None]:
    """Return the numbers of a text like `+1 -2`."""
    found = re.fullmatch(r"\+(\d+) -(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (None, None)


def worktrees(root: str) -> list[Worktree]:
    """Return all work trees of the repository, including this one."""
    return git_discovery.worktrees(git_process.open_repository(root))


class Commit(NamedTuple):
    """A commit: its time, and its short hash with its subject."""

    seconds: float
    text: str


def commits_after(root: str, time_text: str, seconds: float) -> list[Commit]:
    """Return the commits of HEAD that are younger than a time, the newest first."""
    output = git_process.ask(
        root, time.monotonic() + seconds, "log", f"--since={time_text}", "--format=%ct %h %s",
        # A new repository may have no commit at all.
        f"--max-count={RECENT_MAX}", "--ignore-missing", "HEAD", "--",
    )  # fmt: skip
    # A subject may hold any character, also one that ends a line for str.splitlines().
    lines = (line.partition(" ") for line in output.decode("utf-8", "replace").split("\n"))
    return [Commit(float(made), text) for made, _, text in lines if made.isdigit()]


class Since(NamedTuple):
    """The number of commits since a commit, None if unknown, and the changed files."""

    commits: int | None
    changed: tuple[str, ...]


def since(root: str, commit: str) -> Since:
    """Return the changes between a recorded commit and HEAD."""
    if not _HASH.fullmatch(commit):
        return Since(None, ())
    deadline = time.monotonic() + git.TIMEOUT_SECONDS
    repository = git_process.open_repository(root)
    counted = git_process.ask_in(
        repository, deadline,
        "rev-list", "--count", f"--max-count={COMMITS_MAX}", f"{commit}..HEAD", "--",
    )  # fmt: skip
    # This compares trees only: `git diff` would read the work tree and write the person's index.
    output = git_process.ask_in(
        repository, deadline,
        "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--relative", commit, "HEAD", "--",
    )  # fmt: skip
    paths = output.decode("utf-8", "replace").split("\0")
    return Since(int(counted), tuple(filter(None, paths))[:PATHS_MAX])
