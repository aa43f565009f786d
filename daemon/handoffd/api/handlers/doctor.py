"""doctor: the facts that only the daemon knows about its own health."""

import asyncio
import os
from typing import Any

from handoffd.api.method import Method, MethodReply, Params, Send
from handoffd.api.terminal_text import Style
from handoffd.context import Context
from handoffd.privacy import expiring_transcripts
from handoffd.projects.stored_sessions import state_of
from handoffd.store.recovery import find_problem

_NEWEST = 20


async def handle(context: Context, _params: Params, _send: Send) -> MethodReply:
    await _look_closely(context)
    return MethodReply(
        {
            "roots": await _roots(context),
            "newest": _newest(context),
            "unsaved": await expiring_transcripts.unsaved(context),
        }
    )


async def _look_closely(context: Context) -> None:
    """Check every page of core.db: a page that was never read may be damaged, too."""
    if problem := await asyncio.to_thread(find_problem, context.core.path):
        context.core.report(problem)
        await context.daemon.core_keeper.wait()


async def _roots(context: Context) -> list[dict[str, Any]]:
    """Return each root, the days its transcripts are kept, and the time of its last prompt."""
    typed: dict[str, str] = {}
    for stored in context.daemon.state.sessions(None, _NEWEST, headless=False):
        entry = context.daemon.transcript_reader.entries.get(stored.session_id)
        prompt = state_of(stored).last_prompt
        if entry is not None and prompt is not None:
            root = os.path.dirname(os.path.dirname(entry.cursor.path))
            typed[root] = max(typed.get(root, ""), prompt.receipt.time)
    return [
        {"path": root, "keep_days": days, "typed_at": typed.get(root)}
        for root, days in (
            await expiring_transcripts.keep_days(context.daemon.transcript_watcher.roots)
        ).items()
    ]


def _newest(context: Context) -> list[dict[str, Any]]:
    """Return the known sizes of the newest transcripts, for a comparison with the disk.

    Those of sub-agents are left out: they would crowd out the others.
    """
    known = context.daemon.transcript_reader.entries.items()
    entries = [entry for name, entry in known if name == entry.cursor.session_id]
    entries.sort(key=lambda entry: entry.mtime_ns, reverse=True)
    return [
        {"transcript": entry.cursor.path, "bytes": entry.size, "refusal": entry.refusal or None}
        for entry in entries[:_NEWEST]
    ]


def render(data: dict[str, Any], _style: Style) -> str:
    """Return one line; `handoff doctor` renders the rest."""
    return f"sessions that will be deleted unsaved: {len(data['unsaved'])}\n"


METHOD = Method("doctor", Params, handle, render)
