"""Find the sessions whose client will delete their transcript before they have a handoff."""

import asyncio
import os
from collections.abc import Iterable
from typing import Any

from handoffd.agents.registry import agent_of
from handoffd.context import Context
from handoffd.contract import session_file
from handoffd.contract.composition import is_worth
from handoffd.contract.contract_format import Contract
from handoffd.contract.contract_writer import worker
from handoffd.ingest.backlog import KnownTranscript
from handoffd.projects.lanes import describe
from handoffd.projects.stored_sessions import state_of
from handoffd.runtime import clock

# We report a transcript this many days before its end.
NOTICE_DAYS = 5.0
LOOKED_MAX = 500
NAMED_MAX = 100
_TURN = 20


async def keep_days(roots: Iterable[str]) -> dict[str, float | None]:
    """Return the number of days after which the transcripts of each root are deleted."""
    return await asyncio.to_thread(lambda: {root: agent_of(root).keep_days(root) for root in roots})


async def unsaved(context: Context) -> list[dict[str, Any]]:
    """Return the sessions with work and without a handoff that will be deleted soon.

    The oldest come first. Only some hundred are looked at, so that the call stays quick.
    """
    if context.config.current.contract.write == "none":
        return []
    ageing = _ageing(context, await keep_days(context.daemon.transcript_watcher.roots))
    found: list[dict[str, Any]] = []
    for number, (entry, ends_at) in enumerate(await asyncio.to_thread(_existing, ageing)):
        item = await _describe(context, entry, ends_at)
        if item is not None:
            found.append(item)
        if len(found) >= NAMED_MAX:
            break
        if number % _TURN == 0:
            await asyncio.sleep(0)
    return found


def _ageing(context: Context, days: dict[str, float | None]) -> list[tuple[KnownTranscript, float]]:
    """Return the transcripts without a handoff that will be deleted soon, with the time."""
    known = context.core.handed_off() | set(context.daemon.session_liveness.watched)
    now = clock.wall()
    found = []
    for name, entry in context.daemon.transcript_reader.entries.items():
        path = entry.cursor.path
        keep = days.get(agent_of(path).root_of(path))
        if keep is None or name != entry.cursor.session_id or name in known:
            continue
        ends_at = entry.mtime_ns / 1e9 + keep * clock.DAY_SECONDS
        if ends_at - now < min(NOTICE_DAYS, keep / 2) * clock.DAY_SECONDS:
            found.append((entry, ends_at))
    return sorted(found, key=lambda item: item[1])


def _existing(ageing: list[tuple[KnownTranscript, float]]) -> list[tuple[KnownTranscript, float]]:
    """Return the transcripts that still exist, at most so many as are looked at."""
    found = []
    for entry, ends_at in ageing:
        if os.path.exists(entry.cursor.path):
            found.append((entry, ends_at))
        if len(found) >= LOOKED_MAX:
            break
    return found


async def _describe(
    context: Context, entry: KnownTranscript, ends_at: float
) -> dict[str, Any] | None:
    """Return a description of a session that should have a handoff and has none, or None."""
    stored = context.daemon.state.session(entry.cursor.session_id)
    if stored is None or stored.project_id is None or stored.headless:
        return None
    project = context.projects.by_id(stored.project_id)
    if project is None or context.policy.refusal(project.id, project.root.path):
        return None
    state = state_of(stored)
    if not is_worth(state):
        return None
    mine = worker(state, project.root.path)
    base = context.contract_writer.base
    if (
        await asyncio.to_thread(session_file.plan, base, mine, lambda _since: Contract(), None)
        is None
    ):
        return None  # another author wrote one
    return {
        "session_id": state.session_id,
        "project": project.root.path,
        "transcript": entry.cursor.path,
        "goal": describe(state)["goal"],
        "last_at": clock.iso(stored.last_seconds),
        "deleted_at": clock.iso(ends_at),
        "in_days": round((ends_at - clock.wall()) / clock.DAY_SECONDS, 1),
    }
