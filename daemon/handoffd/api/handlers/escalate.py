"""escalate: call for a person in the newest handoff; no new one is written."""

import asyncio
from typing import Any

from pydantic import Field

from handoff.errors import HandoffError
from handoff.paths import home
from handoffd.api.contracts import place_of
from handoffd.api.method import InProject, Method, Reply, Send
from handoffd.api.resolve import named_project
from handoffd.api.text import Style, shorten_path
from handoffd.handoffs import leaving
from handoffd.parts import Parts


class EscalateParams(InProject):
    reason: str = Field(description="why a person is needed")


async def handle(parts: Parts, params: EscalateParams, _send: Send) -> Reply:
    project = named_project(parts, params)
    place = place_of(project, params)
    reason = reason_of(params.reason)
    handoff, new = await asyncio.to_thread(leaving.escalate, parts.archivist.base, place, reason)
    data = {"path": handoff.path, "reason": reason, "already": not new}
    return Reply(data, project=project.root.path)


def reason_of(text: str) -> str:
    given, _ = leaving.given_words({}, "", [text])
    if not given.escalations[0]:
        raise HandoffError("A reason is needed.", "Example: handoff escalate 'check the migration'")
    return given.escalations[0]


def render(data: dict[str, Any], _style: Style) -> str:
    done = "It says so already" if data["already"] else "Called for a person in"
    return f"{done}: {shorten_path(data['path'], home())}\n"


METHOD = Method("escalate", EscalateParams, handle, render)
