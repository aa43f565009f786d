"""escalate: call for a person in the newest handoff; no new one is written."""

import asyncio
from typing import Any

from pydantic import Field

from handoff.common.errors import HandoffError
from handoff.common.paths import home
from handoffd.api.handoff_results import place_of
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style, shorten_path
from handoffd.context import Context
from handoffd.contract import session_file


class EscalateParams(InProject):
    reason: str = Field(description="why a person is needed")


async def handle(context: Context, params: EscalateParams, _send: Send) -> MethodReply:
    project = named_project(context, params)
    place = place_of(project, params)
    reason = reason_of(params.reason)
    handoff, new = await asyncio.to_thread(
        session_file.escalate, context.contract_writer.base, place, reason
    )
    data = {"path": handoff.path, "reason": reason, "already": not new}
    return MethodReply(data, project=project.root.path)


def reason_of(text: str) -> str:
    given, _ = session_file.given_words({}, "", [text])
    if not given.escalations[0]:
        raise HandoffError("A reason is needed.", "Example: handoff escalate 'check the migration'")
    return given.escalations[0]


def render(data: dict[str, Any], _style: Style) -> str:
    done = "It says so already" if data["already"] else "Called for a person in"
    return f"{done}: {shorten_path(data['path'], home())}\n"


METHOD = Method("escalate", EscalateParams, handle, render)
