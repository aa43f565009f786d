"""Threads as a running daemon serves them: whoever waits for one, or worked with it, is told."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from handoff.common import paths
from handoffd.config import ThreadsConfig as Settings
from handoffd.context import Context
from handoffd.runtime import log
from handoffd.store.core import CoreStore
from handoffd.store.threads import Thread, ThreadEntry
from handoffd.threads.service import ThreadService

Changed = Callable[[Thread, ThreadEntry | None], None]
T = TypeVar("T")


async def act(context: Context, do: Callable[[ThreadService], T], *, closing: bool) -> T:
    """Do something with the threads; to close one is done beside the loop, with its own store.

    What was said is wiped then, which takes the longer the larger core.db is.
    """
    if not closing:
        return do(threads(context))
    loop = asyncio.get_running_loop()

    def changed(thread: Thread, entry: ThreadEntry | None) -> None:
        loop.call_soon_threadsafe(_tell, context, thread, entry)

    def beside() -> T:
        with contextlib.closing(CoreStore(context.core.path)) as core:
            return do(build(core, context.config.current.threads, changed))

    async with context.wiping:
        return await asyncio.to_thread(beside)


def threads(context: Context) -> ThreadService:
    return build(context.core, context.config.current.threads, partial(_tell, context))


def _tell(context: Context, thread: Thread, entry: ThreadEntry | None) -> None:
    for project_id in concerned(context.core, thread, entry):
        context.project_states.touch(project_id, git_too=False)
    change: dict[str, Any] = {"thread": thread.id, "status": thread.status}
    if entry is not None:
        change["seq"] = entry.seq
    for watcher in list(context.watchers):
        watcher(change)


def build(core: CoreStore, settings: Settings, changed: Changed) -> ThreadService:
    archive = f"{paths.state_dir()}/archive" if settings.archive_on_close else ""
    return ThreadService(core.threads, core.scrub, archive, settings.refuse_secrets, changed)


def concerned(core: CoreStore, thread: Thread, entry: ThreadEntry | None) -> list[str]:
    """Return the projects in which Code has more, or less, to read than before."""
    if entry is not None and entry.from_client == "code":
        return []
    return core.threads.users(thread.id)


def note_use(context: Context, directory: str, thread_id: str) -> None:
    """Remember that a project used a thread as code, unless nothing may be learned there."""
    if not directory:
        return
    try:
        project = context.projects.at(directory, create=False)
        if not project.root.exists or context.policy.refusal(project.id, project.root.path):
            return
        project = context.projects.at(directory)
        is_new = context.core.threads.note_use(thread_id, project.id)
        # What has just been begun there holds nothing new for Code.
        if is_new and any(
            thread_id == found.id for found in context.core.threads.unread(project.id)
        ):
            context.project_states.touch(project.id, git_too=False)
    except Exception as problem:  # noqa: BLE001  what was asked for is done all the same
        log.get().warning("use_not_noted", error=log.where(problem))
