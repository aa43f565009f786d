"""Where a project's work tree stands: HEAD, its upstream, its other work trees, what came since."""

import re
import time
from typing import NamedTuple

from handoffd.links import git

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


class Worktree(NamedTuple):
    path: str
    branch: str


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
    deadline = time.monotonic() + git.TIMEOUT_SECONDS
    output = git.ask(root, deadline, "worktree", "list", "--porcelain", "-z")
    found = []
    for block in output.decode("utf-8", "replace").split("\0\0"):
        said = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        if "worktree" in said and "bare" not in said:
            found.append(
                Worktree(said["worktree"], said.get("branch", "").removeprefix("refs/heads/"))
            )
    return found


class Commit(NamedTuple):
    """A commit: when it was made, its short hash and its subject."""

    seconds: float
    text: str


def commits_after(root: str, time_text: str, seconds: float) -> list[Commit]:
    """Return the commits of HEAD that are younger than a time, the newest first."""
    output = git.ask(
        root, time.monotonic() + seconds, "log", f"--since={time_text}", "--format=%ct %h %s",
        # There may be no commit at all yet.
        f"--max-count={RECENT_MAX}", "--ignore-missing", "HEAD", "--",
    )  # fmt: skip
    lines = (line.split(" ", 1) for line in output.decode("utf-8", "replace").splitlines())
    return [Commit(float(made), text) for made, text in lines]


class Since(NamedTuple):
    """What happened since a commit: how many commits, which files differ now; None: not known."""

    commits: int | None
    changed: tuple[str, ...]
    deleted: tuple[str, ...]


def since(root: str, commit: str) -> Since:
    """Compare a work tree with the commit that a record names."""
    if not _HASH.fullmatch(commit):
        return Since(None, (), ())
    deadline = time.monotonic() + git.TIMEOUT_SECONDS
    counted = git.ask(
        root, deadline, "rev-list", "--count", f"--max-count={COMMITS_MAX}", f"{commit}..HEAD", "--"
    )
    output = git.ask(
        root, deadline, "diff", "--name-status", "-z", "--no-renames", "--no-ext-diff",
        "--no-textconv", "--relative", "--ignore-submodules=all", commit, "--",
        settings=git.neutral_filters(root, deadline),
    )  # fmt: skip
    words = output.decode("utf-8", "replace").split("\0")
    pairs = list(zip(words[::2], words[1::2], strict=False))
    gone = tuple(path for status, path in pairs if status == "D")
    other = tuple(path for status, path in pairs if status != "D")
    return Since(int(counted), other[:PATHS_MAX], gone[:PATHS_MAX])
