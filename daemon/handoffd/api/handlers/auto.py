"""auto: resume at the first message of a session that has something to resume, else create."""

from typing import Any

from pydantic import Field

from handoffd.api.method import Method, MethodReply, Send
from handoffd.api.resolve import meant_session, named_project
from handoffd.api.terminal_text import Style
from handoffd.api.track_results import (
    CreateParams,
    progress,
    render_created,
    render_resumed,
    request_from,
)
from handoffd.context import Context
from handoffd.tracks.auto_mode import decide
from handoffd.tracks.resume_state import ResumeRequest


class AutoParams(CreateParams):
    slash: bool = Field(default=False, description="the message that asks is not written yet")


async def handle(context: Context, params: AutoParams, send: Send) -> MethodReply:
    project = named_project(context, params, create=True)
    project.root.require()
    state = meant_session(context, project, params.session, params.track)
    named, unwritten = bool(params.session), params.slash
    mode, why = await context.record_maker.ask(
        project, state, lambda ports: decide(ports, in_session=named, unwritten=unwritten)
    )
    if mode == "resume":
        wanted = ResumeRequest(params.track, framed=True)
        data = await context.record_requests.resume(project, state, wanted, progress(send))
    else:
        request = request_from(params, params.if_parallel)
        data = await context.record_requests.create(project, state, request, progress(send))
    return MethodReply({**data, "why": why}, exit=data["exit"], project=project.root.path)


def render(data: dict[str, Any], style: Style) -> str:
    shown = render_resumed if data["mode"] == "resume" else render_created
    return f"{data['mode'].capitalize()}: {data['why']}.\n" + shown(data, style)


METHOD = Method("auto", AutoParams, handle, render, ("analysis",))
