"""Threads as a running daemon serves them: whoever waits for one, or worked with it, is told."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from handoff import paths
from handoffd import log
from handoffd.config import Threads as Settings
from handoffd.parts import Parts
from handoffd.store.core import CoreStore
from handoffd.store.threads import Entry, Thread
from handoffd.workflow.threads import Threads

Changed = Callable[[Thread, Entry | None], None]
T = TypeVar("T")


async def act(parts: Parts, do: Callable[[Threads], T], *, closing: bool) -> T:
    """Do something with the threads; to close one is done beside the loop, with its own store.

    What was said is wiped then, which takes the longer the larger core.db is.
    """
    if not closing:
        return do(threads(parts))
    loop = asyncio.get_running_loop()

    def changed(thread: Thread, entry: Entry | None) -> None:
        loop.call_soon_threadsafe(_tell, parts, thread, entry)

    def beside() -> T:
        with contextlib.closing(CoreStore(parts.core.path)) as core:
            return do(build(core, parts.config.threads, changed))

    async with parts.wiping:
        return await asyncio.to_thread(beside)


def threads(parts: Parts) -> Threads:
    return build(parts.core, parts.config.threads, partial(_tell, parts))


def _tell(parts: Parts, thread: Thread, entry: Entry | None) -> None:
    for project_id in concerned(parts.core, thread, entry):
        parts.board.touch(project_id, git_too=False)
    change: dict[str, Any] = {"thread": thread.id, "status": thread.status}
    if entry is not None:
        change["seq"] = entry.seq
    for watcher in list(parts.watchers):
        watcher(change)


def build(core: CoreStore, settings: Settings, changed: Changed) -> Threads:
    archive = f"{paths.state_dir()}/archive" if settings.archive_on_close else ""
    return Threads(core.threads, core.scrub, archive, settings.refuse_secrets, changed)


def concerned(core: CoreStore, thread: Thread, entry: Entry | None) -> list[str]:
    """Return the projects in which Code has more, or less, to read than before."""
    if entry is not None and entry.from_client == "code":
        return []
    return core.threads.users(thread.id)


def note_use(parts: Parts, directory: str, thread_id: str) -> None:
    """Remember that a project used a thread as code, unless nothing may be learned there."""
    if not directory:
        return
    try:
        project = parts.projects.at(directory, create=False)
        if not project.root.exists or parts.gate.refusal(project.id, project.root.path):
            return
        project = parts.projects.at(directory)
        is_new = parts.core.threads.note_use(thread_id, project.id)
        # What has just been begun there holds nothing new for Code.
        if is_new and any(thread_id == found.id for found in parts.core.threads.unread(project.id)):
            parts.board.touch(project.id, git_too=False)
    except Exception as problem:  # noqa: BLE001  what was asked for is done all the same
        log.get().warning("use_not_noted", error=log.where(problem))
