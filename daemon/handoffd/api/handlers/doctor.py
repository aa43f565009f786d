"""doctor: what nobody but the daemon can know of how well it serves."""

import asyncio
import os
from typing import Any

from handoffd.api.method import Method, MethodReply, Params, Send
from handoffd.api.terminal_text import Style
from handoffd.context import Context
from handoffd.privacy import expiring_transcripts
from handoffd.session.storage import load
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
    """Look at every page of core.db: one that was not asked for yet may be damaged, too."""
    if problem := await asyncio.to_thread(find_problem, context.core.path):
        context.core.report(problem)
        await context.daemon.recovered()


async def _roots(context: Context) -> list[dict[str, Any]]:
    """Return each root, how long its transcripts are kept, and when a person last typed there."""
    typed: dict[str, str] = {}
    for stored in context.daemon.state.sessions(None, _NEWEST, headless=False):
        entry = context.daemon.transcript_reader.entries.get(stored.session_id)
        prompt = load(stored.fold).last_prompt
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
    """Return how long the newest transcripts are as far as we know, so that one can compare.

    Those of sub-agents are not compared, and would crowd out the others.
    """
    known = context.daemon.transcript_reader.entries.items()
    entries = [entry for name, entry in known if name == entry.cursor.session_id]
    entries.sort(key=lambda entry: entry.mtime_ns, reverse=True)
    return [
        {"transcript": entry.cursor.path, "bytes": entry.size, "refusal": entry.refusal or None}
        for entry in entries[:_NEWEST]
    ]


def render(data: dict[str, Any], _style: Style) -> str:
    """Return a line; `handoff doctor` says the rest."""
    return f"sessions that will be deleted unsaved: {len(data['unsaved'])}\n"


METHOD = Method("doctor", Params, handle, render)
