"""Where a project's work tree stands: HEAD, its upstream, its other work trees, what came since."""

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
    """HEAD and its surroundings; `branch` is empty when detached, counts None without upstream."""

    commit: str = ""
    branch: str = ""
    detached: bool = False
    ahead: int | None = None
    behind: int | None = None
    uncommitted: tuple[str, ...] = ()


def head(root: str) -> Head:
    """Ask where HEAD is; a GitError says why there is no answer."""
    said, uncommitted = git.status(root, git.TIMEOUT_SECONDS, "--branch")
    commit = said.get("branch.oid", "")
    branch = said.get("branch.head", "")
    ahead, behind = _counts(said.get("branch.ab", ""))
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
    """Read `+1 -2`."""
    found = re.fullmatch(r"\+(\d+) -(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (None, None)


def worktrees(root: str) -> list[Worktree]:
    """Return every work tree of the repository, this one too."""
    return git_discovery.worktrees(git_process.opened(root))


class Commit(NamedTuple):
    """A commit: when it was made, its short hash and its subject."""

    seconds: float
    text: str


def commits_after(root: str, time_text: str, seconds: float) -> list[Commit]:
    """Return the commits of HEAD that are younger than a time, the newest first."""
    output = git_process.ask(
        root, time.monotonic() + seconds, "log", f"--since={time_text}", "--format=%ct %h %s",
        # There may be no commit at all yet.
        f"--max-count={RECENT_MAX}", "--ignore-missing", "HEAD", "--",
    )  # fmt: skip
    lines = (line.split(" ", 1) for line in output.decode("utf-8", "replace").splitlines())
    return [Commit(float(made), text) for made, text in lines]


class Since(NamedTuple):
    """What was committed since a commit: how many commits, which files; None: not known."""

    commits: int | None
    changed: tuple[str, ...]


def since(root: str, commit: str) -> Since:
    """Compare HEAD with the commit that a record names."""
    if not _HASH.fullmatch(commit):
        return Since(None, ())
    deadline = time.monotonic() + git.TIMEOUT_SECONDS
    repository = git_process.opened(root)
    counted = git_process.ask_in(
        repository, deadline,
        "rev-list", "--count", f"--max-count={COMMITS_MAX}", f"{commit}..HEAD", "--",
    )  # fmt: skip
    # Of trees alone: `git diff` would look at the work tree, and write the index of the person.
    output = git_process.ask_in(
        repository, deadline,
        "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--relative", commit, "HEAD", "--",
    )  # fmt: skip
    paths = output.decode("utf-8", "replace").split("\0")
    return Since(int(counted), tuple(filter(None, paths))[:PATHS_MAX])
