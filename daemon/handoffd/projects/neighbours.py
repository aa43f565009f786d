"""Find the projects that belong together: the work trees of a repository, packages and their root.

Only the disk is read; git is not run.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple

from handoffd.links import git_discovery
from handoffd.links.git_discovery import GitError
from handoffd.projects.project_root import is_project

# Claude Code puts the work trees of its agents there; they may be gone when the work is told.
AGENT_WORKTREES = ".claude/worktrees"
WORKTREE, BELOW, AROUND = "worktree", "below", "around"


class Neighbour(NamedTuple):
    """A project beside another one: how they belong together, and its path from there."""

    project_id: str
    root: str
    relation: str
    place: str


def neighbours(root: str, known: Iterable[tuple[str, str]]) -> list[Neighbour]:
    """Return the known projects that belong to the project at a root; to $HOME belongs none."""
    if not is_project(root):
        return []
    main, trees = _worktrees(root)
    found, around = [], Neighbour("", "", AROUND, "")
    for project_id, other in known:
        if other == root or not is_project(other):
            continue
        if other in trees or other.startswith(f"{main}/{AGENT_WORKTREES}/"):
            found.append(Neighbour(project_id, other, WORKTREE, _place(other, root)))
        elif other.startswith(f"{root}/"):
            found.append(Neighbour(project_id, other, BELOW, _place(other, root)))
        elif root.startswith(f"{other}/") and len(other) > len(around.root):
            around = Neighbour(project_id, other, AROUND, other)
    return [*found, around] if around.root else found


def _worktrees(root: str) -> tuple[str, set[str]]:
    """Return the main work tree of a root that is a work tree itself, and all work trees."""
    head, mark, _ = root.partition(f"/{AGENT_WORKTREES}/")
    main = head if mark else root
    try:
        repository = git_discovery.find(root)
        if repository is None or repository.top != root:
            return main, {main}
        trees = [tree.path for tree in git_discovery.worktrees(repository)]
    except GitError:
        return main, {main}
    return trees[0] if trees else main, {*trees, main}


def _place(other: str, root: str) -> str:
    return os.path.relpath(other, root) if other.startswith(f"{root}/") else other
