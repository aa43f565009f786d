"""Threads for handlers and MCP: a change is passed on to watchers and to projects that use it."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from handoff.common import paths
from handoffd.api import mcp
from handoffd.api.caller import Caller
from handoffd.context import Context
from handoffd.runtime import log
from handoffd.store.core import CoreStore
from handoffd.store.thread_store import Thread, ThreadEntry
from handoffd.threads.service import ThreadService

Changed = Callable[[Thread, ThreadEntry | None], None]
T = TypeVar("T")


async def act(context: Context, do: Callable[[ThreadService], T], *, closing: bool) -> T:
    """Do something with the threads; a thread is closed beside the loop, with its own store.

    Closing wipes the entries, which takes longer the larger core.db is.
    """
    if not closing:
        return do(threads(context))
    loop = asyncio.get_running_loop()

    def changed(thread: Thread, entry: ThreadEntry | None) -> None:
        loop.call_soon_threadsafe(_tell, context, thread, entry)

    def beside() -> T:
        with contextlib.closing(CoreStore(context.core.path)) as core:
            return do(_build(context, core, changed))

    async with context.wiping:
        return await asyncio.to_thread(beside)


async def answer_mcp(context: Context, request: mcp.Frame, caller: Caller) -> mcp.Frame:
    """Answer a request of MCP."""
    used = partial(note_use, context, caller.directory)
    answer_by = partial(mcp.answer, request, caller, used=used)
    return await act(context, answer_by, closing=mcp.closes(request))


def threads(context: Context) -> ThreadService:
    return _build(context, context.core, partial(_tell, context))


def _tell(context: Context, thread: Thread, entry: ThreadEntry | None) -> None:
    # Code has more, or less, to read there than before.
    for project_id in context.core.threads.users(thread.id):
        context.unread_changed(project_id)
    change: dict[str, Any] = {"thread": thread.id, "status": thread.status}
    if entry is not None:
        change["seq"] = entry.seq
    context.tell_watchers(change)


def _build(context: Context, core: CoreStore, changed: Changed) -> ThreadService:
    settings, unknown = context.config.current.threads, context.config_unknown
    return ThreadService(
        core.threads,
        core.scrub,
        archive=f"{paths.state_dir()}/archive" if settings.archive_on_close else "",
        archive_unknown=unknown,
        refuse_secrets=settings.refuse_secrets or bool(unknown),
        changed=changed,
    )


def note_use(context: Context, directory: str, thread_id: str) -> None:
    """Remember that a project used a thread as code, unless nothing may be learned there."""
    if not directory or context.config_unknown:
        return
    try:
        project = context.projects.at(directory, create=False)
        if not project.root.exists:
            return
        if context.policy.refusal(project.id, project.root.path):
            if project.id:  # its brief may mention a thread from before
                context.unread_changed(project.id)
            return
        project = context.projects.at(directory)
        is_new = context.core.threads.note_use(thread_id, project.id)
        # A thread that was just begun there holds nothing new for Code.
        if is_new and any(
            thread_id == found.id for found in context.core.threads.unread(project.id)
        ):
            context.unread_changed(project.id)
    except Exception as problem:  # noqa: BLE001  the request itself is done
        log.get().warning("use_not_noted", error=log.where(problem))
