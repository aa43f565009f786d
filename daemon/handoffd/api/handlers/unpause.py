"""unpause: learn again, from what is written from now on."""

from typing import Any

from handoff.errors import HandoffError
from handoffd.api.method import InProject, Method, Reply, Send
from handoffd.api.resolve import named_project
from handoffd.api.text import Style
from handoffd.parts import Parts
from handoffd.store.core import EVERYTHING


async def handle(parts: Parts, params: InProject, _send: Send) -> Reply:
    scopes = parts.gate.paused_scopes()
    project = named_project(parts, params) if params.project else None
    if project is not None and EVERYTHING in scopes:
        raise HandoffError("Everything is paused, not only this project.", "Run: handoff unpause")
    ended = [scope for scope in scopes if project is None or scope == project.id]
    await parts.lookout.rescan()
    parts.gate.unpause(ended, _ends_of_silence(parts, ended))
    parts.intake.requeue("paused", "excluded", "disabled")
    for project_id in list(parts.board.cards):
        parts.board.touch(project_id)
    await parts.renew_copy()
    return Reply({"ended": len(ended)})


def _ends_of_silence(parts: Parts, scopes: list[str]) -> dict[str, int]:
    """Return where transcripts may be heard again; one that is gone stays silent for good."""
    entries = parts.intake.entries
    return {
        name: entries[name].size_now if name in entries else 1 << 62
        for name in parts.gate.silent_transcripts(scopes)
    }


def render(data: dict[str, Any], _style: Style) -> str:
    return "Listening again.\n" if data["ended"] else "Nothing was paused.\n"


METHOD = Method("unpause", InProject, handle, render)
