"""doctor: what nobody but the daemon can know of how well it serves."""

import asyncio
import os
from typing import Any

from handoffd import retention
from handoffd.api.method import Method, Params, Reply, Send
from handoffd.api.text import Style
from handoffd.parts import Parts
from handoffd.session.storage import load
from handoffd.store.recovery import find_problem

_NEWEST = 20


async def handle(parts: Parts, _params: Params, _send: Send) -> Reply:
    await _look_closely(parts)
    return Reply(
        {
            "roots": await _roots(parts),
            "newest": _newest(parts),
            "unsaved": await retention.unsaved(parts),
        }
    )


async def _look_closely(parts: Parts) -> None:
    """Look at every page of core.db: one that was not asked for yet may be damaged, too."""
    if problem := await asyncio.to_thread(find_problem, parts.core.path):
        parts.core.report(problem)
        await parts.recovered()


async def _roots(parts: Parts) -> list[dict[str, Any]]:
    """Return each root, how long its transcripts are kept, and when a person last typed there."""
    typed: dict[str, str] = {}
    for stored in parts.state.sessions(None, _NEWEST, headless=False):
        entry = parts.intake.entries.get(stored.session_id)
        prompt = load(stored.fold).last_prompt
        if entry is not None and prompt is not None:
            root = os.path.dirname(os.path.dirname(entry.cursor.path))
            typed[root] = max(typed.get(root, ""), prompt.receipt.time)
    return [
        {"path": root, "keep_days": days, "typed_at": typed.get(root)}
        for root, days in (await retention.keep_days(parts.lookout.roots)).items()
    ]


def _newest(parts: Parts) -> list[dict[str, Any]]:
    """Return how long the newest transcripts are as far as we know, so that one can compare.

    Those of sub-agents are not compared, and would crowd out the others.
    """
    known = parts.intake.entries.items()
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
