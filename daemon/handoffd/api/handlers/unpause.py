"""unpause: learn again, from records that are written from now on."""

from typing import Any

from handoff.common.errors import HandoffError
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style
from handoffd.context import Context
from handoffd.store.core import EVERYTHING


async def handle(context: Context, params: InProject, _send: Send) -> MethodReply:
    scopes = context.policy.paused_scopes()
    project = named_project(context, params) if params.project else None
    if project is not None and EVERYTHING in scopes:
        raise HandoffError("Everything is paused, not only this project.", "Run: handoff unpause")
    ended = [scope for scope in scopes if project is None or scope == project.id]
    await context.daemon.transcript_watcher.rescan()
    context.policy.unpause(ended, _ends_of_silence(context, ended))
    context.daemon.transcript_reader.requeue("paused", "excluded", "disabled")
    for project_id in list(context.project_states.active_projects):
        context.project_states.touch(project_id)
    await context.daemon.core_keeper.renew_copy()
    return MethodReply({"ended": len(ended)})


def _ends_of_silence(context: Context, scopes: list[str]) -> dict[str, int]:
    """Return the offsets from which transcripts are read again; a deleted one stays silent."""
    entries = context.daemon.transcript_reader.entries
    return {
        name: entries[name].size_now if name in entries else 1 << 62
        for name in context.policy.silent_transcripts(scopes)
    }


def render(data: dict[str, Any], _style: Style) -> str:
    return "Listening again.\n" if data["ended"] else "Nothing was paused.\n"


METHOD = Method("unpause", InProject, handle, render)
