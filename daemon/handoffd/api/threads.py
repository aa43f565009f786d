"""Threads as a running daemon serves them: whoever waits for one, or worked with it, is told."""

from dataclasses import asdict
from typing import Any

from handoff import paths
from handoffd import log
from handoffd.errors import StoreError
from handoffd.parts import Parts
from handoffd.store.threads import Entry, Thread
from handoffd.workflow.threads import Threads


def threads(parts: Parts) -> Threads:
    def changed(thread: Thread, entry: Entry | None) -> None:
        # What Code itself says changes nothing of what it has not read.
        if entry is None or entry.from_client != "code":
            for project_id in parts.core.threads.users(thread.id):
                parts.board.touch(project_id, git_too=False)
        change: dict[str, Any] = {"thread": thread.id, "status": thread.status}
        if entry is not None:
            change["entry"] = asdict(entry)
        for watcher in list(parts.watchers):
            watcher(change)

    settings = parts.config.threads
    return Threads(
        parts.core.threads,
        parts.core.scrub,
        archive_directory() if settings.archive_on_close else "",
        settings.refuse_secrets,
        changed,
    )


def archive_directory() -> str:
    return f"{paths.state_dir()}/archive"


def note_use(parts: Parts, directory: str, thread_id: str) -> None:
    """Remember that a project used a thread as code, unless nothing may be learned there."""
    if not directory:
        return
    project = parts.projects.at(directory, create=False)
    if not project.root.exists or parts.gate.refusal(project.id, project.root.path):
        return
    try:
        project = parts.projects.at(directory)
        is_new = parts.core.threads.note_use(thread_id, project.id)
    except StoreError as problem:  # what was asked for is done all the same
        log.get().warning("use_not_noted", why=problem.title)
        return
    # What has just been begun there holds nothing new for Code.
    if is_new and thread_id in dict(parts.core.threads.unread(project.id)):
        parts.board.touch(project.id, git_too=False)
