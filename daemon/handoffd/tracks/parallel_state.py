"""Finds the parallel workers of a track, for step 1a of CREATE."""

import os
from contextlib import suppress

from handoffd.links.git_discovery import GitError, Worktree
from handoffd.links.repository import worktrees
from handoffd.runtime import clock
from handoffd.tracks.conductor_directory import Track
from handoffd.tracks.parallel_workers import STALE_SECONDS, ParallelWorker
from handoffd.tracks.work_context import WorkContext


def find_workers(work: WorkContext, track: Track | None) -> list[ParallelWorker]:
    """Return the workers of a track, from its parallel state and from its work trees."""
    if track is None:
        return []
    found = work.conductor.workers(track.id, clock.wall())
    known = {os.path.realpath(worker.worktree) for worker in found if worker.worktree}
    trees = (tree for tree in _worktrees(work.root, track) if tree.path not in known)
    return [*found, *(_worker(tree) for tree in trees)]


def _worktrees(root: str, track: Track) -> list[Worktree]:
    """Return the other work trees made for a track: its metadata names them, or they its id."""
    try:
        trees = worktrees(root)
    except GitError:
        return []
    data = track.metadata.data if track.metadata else {}
    named = str(data.get("worktree_path") or "")
    here = os.path.realpath(root)
    others = [tree for tree in trees if os.path.realpath(tree.path) != here]
    return [
        tree
        for tree in others
        if tree.path == named
        or track.id in tree.branch.split("/")
        or track.id in (os.path.basename(tree.path), tree.branch)
    ]


def _worker(tree: Worktree) -> ParallelWorker:
    """Return a work tree as a worker, which is active if git changed something in it lately."""
    changed = _last_change(tree.directory)
    stale = clock.wall() - changed > STALE_SECONDS
    name = f"worktree {os.path.basename(tree.path)}"
    since = clock.iso(changed) if changed else ""
    status = "unknown" if not changed else "stale" if stale else "running"
    return ParallelWorker(
        name, status, worktree=tree.path, since=since, active=not stale, stale=stale
    )


def _last_change(directory: str) -> float:
    """Return when git last wrote the index or HEAD of a work tree; 0 if unknown."""
    times = [0.0]
    for name in ("index", "HEAD"):
        with suppress(OSError):
            times.append(os.lstat(f"{directory}/{name}").st_mtime)
    return max(times)
