"""Find a project's root directory, its owner, and the branch that is checked out there."""

import os
from dataclasses import dataclass

from handoff.common import paths
from handoff.common.errors import HandoffError
from handoffd.links.git_discovery import GitError, find, head


@dataclass(frozen=True, slots=True)
class ProjectRoot:
    """A project's root, and the facts that decide whether we may write there."""

    path: str
    exists: bool
    marked: bool
    own: bool

    @property
    def is_project(self) -> bool:
        """True for any directory but $HOME and /, into which nothing is ever written."""
        return is_project(self.path)

    @property
    def writable_unasked(self) -> bool:
        """True if the daemon may write here without being asked."""
        return self.exists and self.marked and self.own and self.is_project

    def require(self) -> None:
        """Raise an error if there is no project here to save into."""
        if not self.exists:
            raise HandoffError(f"There is no directory {self.path}.", "Name another one.")
        if not self.is_project:
            raise HandoffError(
                f"{self.path} is no project; nothing was written.",
                "Go to one, or make one: git init",
            )


def is_project(path: str) -> bool:
    """Return False for $HOME and /: they hold projects, and are none themselves."""
    return path not in ("/", os.path.realpath(paths.home()))


def find_root(cwd: str) -> ProjectRoot:
    """Return the project root of a directory; a deleted directory is its own root."""
    directory = os.path.realpath(cwd)
    if not os.path.isdir(directory):
        return ProjectRoot(directory, exists=False, marked=False, own=False)
    return inspect_root(paths.project_root(directory))


def inspect_root(path: str) -> ProjectRoot:
    """Return the present facts about a known root."""
    try:
        own = os.stat(path).st_uid == os.getuid()
    except OSError:
        return ProjectRoot(path, exists=False, marked=False, own=False)
    return ProjectRoot(path, exists=True, marked=paths.has_marker(path), own=own)


def git_directory(root: str) -> str | None:
    """Return the directory of HEAD; None outside git, and where we do not run git."""
    try:
        repository = find(root)
    except GitError:
        return None
    return repository.directory if repository else None


def reflog_stamp(root: str) -> str:
    """Return a stamp that changes whenever HEAD moves: by a commit, a checkout, a pull."""
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
