"""auto: resume at the first message of a session that has something to resume, else create."""

from typing import Any

from pydantic import Field

from handoffd.api.method import Method, Reply, Send
from handoffd.api.resolve import meant_session, named_project
from handoffd.api.text import Style
from handoffd.api.tracks import (
    CreateParams,
    progress,
    render_created,
    render_resumed,
    request_from,
)
from handoffd.parts import Parts
from handoffd.workflow.auto import decide
from handoffd.workflow.resumption import Wanted


class AutoParams(CreateParams):
    slash: bool = Field(default=False, description="the message that asks is not written yet")


async def handle(parts: Parts, params: AutoParams, send: Send) -> Reply:
    project = named_project(parts, params, create=True)
    project.root.require()
    state = meant_session(parts, project, params.session, params.track)
    named, unwritten = bool(params.session), params.slash
    mode, why = await parts.recorder.ask(
        project, state, lambda ports: decide(ports, in_session=named, unwritten=unwritten)
    )
    if mode == "resume":
        wanted = Wanted(params.track, framed=True)
        data = await parts.recorder.resume(project, state, wanted, progress(send))
    else:
        request = request_from(params, params.if_parallel)
        data = await parts.recorder.create(project, state, request, progress(send))
    return Reply({**data, "why": why}, exit=data["exit"], project=project.root.path)


def render(data: dict[str, Any], style: Style) -> str:
    shown = render_resumed if data["mode"] == "resume" else render_created
    return f"{data['mode'].capitalize()}: {data['why']}.\n" + shown(data, style)


METHOD = Method("auto", AutoParams, handle, render, ("analysis",))
