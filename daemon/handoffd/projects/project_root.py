"""Project directories: where a project's root is, whose it is, and which branch is checked out."""

import os
from dataclasses import dataclass

from handoff.common import paths
from handoff.common.errors import HandoffError
from handoffd.links.git_discovery import GitError, find, head


@dataclass(frozen=True, slots=True)
class ProjectRoot:
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


def find_root(cwd: str) -> ProjectRoot:
    """Return the project root of a directory; one that is gone is its own root."""
    directory = os.path.realpath(cwd)
    if not os.path.isdir(directory):
        return ProjectRoot(directory, exists=False, marked=False, own=False)
    return look_at(paths.project_root(directory))


def look_at(path: str) -> ProjectRoot:
    """Return what a known root is like now."""
    try:
        own = os.stat(path).st_uid == os.getuid()
    except OSError:
        return ProjectRoot(path, exists=False, marked=False, own=False)
    return ProjectRoot(path, exists=True, marked=paths.has_marker(path), own=own)


def git_directory(root: str) -> str | None:
    """Return where HEAD lies, None outside git and in a repository that git is not run in."""
    try:
        repository = find(root)
    except GitError:
        return None
    return repository.directory if repository else None


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
    try:
        found = head(directory) if directory else None
    except GitError:
        return None
    if found is None:
        return None
    return found.branch or f"(detached at {found.commit[:10]})"
