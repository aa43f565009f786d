"""Project directories: where a project's root is, whose it is, and which branch is checked out."""

import os
import re
from dataclasses import dataclass

from handoff import paths
from handoff.errors import HandoffError
from handoffd import mounts

_HEAD_MAX_BYTES = 4096
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True, slots=True)
class Root:
    """A project's root and what it allows."""

    path: str
    exists: bool
    marked: bool
    own: bool

    @property
    def is_project(self) -> bool:
        """Tell a project from $HOME and /, into which nothing is ever written."""
        return self.path not in ("/", os.path.realpath(paths.home()))

    @property
    def writable_unasked(self) -> bool:
        """Tell where the daemon may write without being asked."""
        return self.exists and self.marked and self.own and self.is_project

    def require(self) -> None:
        """Refuse to save where there is no project."""
        if not self.exists:
            raise HandoffError(f"There is no directory {self.path}.", "Name another one.")
        if not self.is_project:
            raise HandoffError(
                f"{self.path} is no project; nothing was written.",
                "Go to one, or make one: git init",
            )


def find_root(cwd: str) -> Root:
    """Return the project root of a directory; one that is gone is its own root."""
    directory = os.path.realpath(cwd)
    if not os.path.isdir(directory):
        return Root(directory, exists=False, marked=False, own=False)
    return look_at(paths.project_root(directory))


def look_at(path: str) -> Root:
    """Return what a known root is like now."""
    try:
        own = os.stat(path).st_uid == os.getuid()
    except OSError:
        return Root(path, exists=False, marked=False, own=False)
    return Root(path, exists=True, marked=paths.has_marker(path), own=own)


def git_directory(root: str) -> str | None:
    """Return where HEAD lies: `.git` of the nearest ancestor, or where a worktree's file points."""
    directory = root if mounts.answers(root) else ""
    while directory not in ("/", "") and not paths.is_home(directory):
        path = f"{directory}/.git"
        if os.path.isdir(path):
            return path
        text = _read_small(path)
        if text.startswith("gitdir:"):
            return os.path.normpath(os.path.join(directory, text.removeprefix("gitdir:").strip()))
        directory = directory.rpartition("/")[0]
    return None


def reflog_stamp(root: str) -> str:
    """Return what changes whenever HEAD moves: by a commit, a checkout, a pull."""
    directory = git_directory(root)
    try:
        status = os.stat(f"{directory}/logs/HEAD") if directory else None
    except OSError:
        return ""
    return f"{status.st_size}.{status.st_mtime_ns}" if status else ""


def branch(root: str) -> str | None:
    """Return the checked-out branch, a short commit for a detached HEAD, None outside git."""
    directory = git_directory(root)
    head = _read_small(f"{directory}/HEAD").strip() if directory else ""
    if head.startswith("ref:"):
        return head.removeprefix("ref:").strip().removeprefix("refs/heads/") or None
    return f"(detached at {head[:10]})" if _COMMIT.fullmatch(head) else None


def _read_small(path: str) -> str:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except (OSError, ValueError):
        return ""
    try:
        return os.read(handle, _HEAD_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)
