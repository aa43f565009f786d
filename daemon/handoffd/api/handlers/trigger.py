"""trigger: make the record of a trigger as if it had fired, or only show it."""

from typing import Any

from pydantic import Field

from handoffd.api.method import Method, MethodReply, Send
from handoffd.api.resolve import meant_session, named_project
from handoffd.api.terminal_text import Style
from handoffd.api.track_results import (
    RecordParams,
    progress,
    render_created,
    render_steps,
    request_from,
)
from handoffd.context import Context


class TriggerParams(RecordParams):
    dry_run: bool = Field(default=False, description="show it and write nothing")


async def handle(context: Context, params: TriggerParams, send: Send) -> MethodReply:
    project = named_project(context, params, create=not params.dry_run)
    project.root.require()
    state = meant_session(context, project, params.session, params.track)
    request = request_from(params, "include")
    if params.dry_run:
        data = await context.record_maker.preview(project, state, request)
    else:
        data = await context.record_requests.create(project, state, request, progress(send))
    return MethodReply(data, exit=data["exit"], project=project.root.path)


def render(data: dict[str, Any], style: Style) -> str:
    if "record" not in data:
        return render_created(data, style)
    lines = ["Nothing was written. This would be:", *render_steps(data, lambda _step: True)]
    if data["record"]:
        lines += ["", f"--- {data['file']}", data["record"].rstrip("\n")]
    if data["note"]:
        lines += ["", "--- the note for Beads", data["note"]]
    return "\n".join(lines) + "\n"


METHOD = Method("trigger", TriggerParams, handle, render, ("record", "note"))
