"""open: show the newest handoff to the next session; a handoff that is shown counts as read."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from handoffd.api.handoff_results import describe, handoffs_of
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style
from handoffd.context import Context
from handoffd.contract.handoff_directory import Handoff
from handoffd.contract.presentation import NOTHING, mentioned, opened
from handoffd.runtime import clock


class OpenParams(InProject):
    framed: bool = Field(default=False, description="mark the text as ours, for a session")


async def handle(context: Context, params: OpenParams, _send: Send) -> MethodReply:
    project = named_project(context, params)
    found = await handoffs_of(context, project, params)
    items = describe(context, found)
    data = outcome(project.root.path, found, items, framed=params.framed)
    context.core.mark_read(stamps(data, found), clock.iso())
    return MethodReply(data, project=project.root.path, silent=params.framed)


def outcome(
    root: str, found: Sequence[Handoff], items: Sequence[dict[str, Any]], *, framed: bool
) -> dict[str, Any]:
    """Return the newest handoff, and the others that are unread."""
    if not found:
        text = "" if framed else NOTHING
        return {"project": root, "handoffs": [], "more": 0, "text": text}
    told, more = mentioned(items)
    text = opened(found[0].contract, told, framed=framed)
    return {"project": root, "handoffs": told, "more": more, "text": text}


def stamps(data: dict[str, Any], found: Sequence[Handoff]) -> dict[str, str]:
    """Return the version of each handoff that is shown."""
    shown = {item["path"] for item in data["handoffs"]}
    return {handoff.path: handoff.stamp for handoff in found if handoff.path in shown}


def render(data: dict[str, Any], _style: Style) -> str:
    return str(data["text"])


METHOD = Method("open", OpenParams, handle, render)
