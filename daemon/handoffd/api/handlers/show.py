"""show: what is true of a project now."""

from typing import Any

from pydantic import Field

from handoff.common.paths import home
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style, age, fit, shorten_path, wrap
from handoffd.context import Context
from handoffd.projects.lanes import Lane, describe
from handoffd.projects.registry import Project
from handoffd.session.fields import FIELDS, LISTS, NOT_STATED
from handoffd.session.text import redact_values


class ShowParams(InProject):
    receipts: bool = Field(default=False, description="show where each value comes from")


async def handle(context: Context, params: ShowParams, _send: Send) -> MethodReply:
    project = named_project(context, params)
    refused = context.policy.refusal(project.id, project.root.path)
    if not refused:
        context.project_states.refresh(project)
    view = context.project_states.view(project)
    active = context.project_states.active(project)
    main = view.main
    data = {
        "project": project.root.path,
        "document": redact_values(view.whole),
        "idle_seconds": round(main.idle_seconds, 1) if main else None,
        "lanes": [_lane(lane, main) for lane in context.project_states.lanes(project.id)],
        "receipts": {name: receipt._asdict() for name, receipt in view.receipts.items()},
        "explained": params.receipts,
        "uncommitted": redact_values(active.git.uncommitted),
        "refused": refused or None,
        "not_written": _reason(context, project),
    }
    return MethodReply(data, project=project.root.path)


def _reason(context: Context, project: Project) -> str | None:
    return context.project_states.refusal_to_write(context.project_states.active(project)) or None


def _lane(lane: Lane, main: Lane | None) -> dict[str, Any]:
    return {
        **describe(lane.state),
        "main": main is not None and lane.state.session_id == main.state.session_id,
        "live": lane.live,
        "idle_seconds": round(lane.idle_seconds, 1),
    }


def render(data: dict[str, Any], style: Style) -> str:
    document = data["document"]
    lines = [style.bold(fit(shorten_path(data["project"], home()), style.columns)), ""]
    if document.get("goal") == document.get("now") == NOT_STATED and not data.get("refused"):
        return "\n".join([*lines, "Nothing is known of this project yet.", ""])
    for name in dict.fromkeys((*FIELDS, *LISTS, *document)):
        lines += _field(name, document.get(name), data, style)
    if data.get("idle_seconds") is not None:
        lines += wrap("last active", f"{age(data['idle_seconds'])} ago", style.columns, 14)
    others = [lane for lane in data.get("lanes", []) if lane["live"] and not lane["main"]]
    for lane in others:
        text = f"{lane['session_id'][:8]}: {lane['now'] or lane['goal'] or ''}"
        lines += wrap("also live", text, style.columns, 14)
    if data.get("refused"):
        lines += ["", f"This project is {data['refused']}: nothing new is learned about it."]
    elif data.get("not_written"):
        lines += ["", *wrap("not written:", data["not_written"], style.columns, 13)]
    return "\n".join(lines) + "\n"


def _field(name: str, value: Any, data: dict[str, Any], style: Style) -> list[str]:
    """Show a value, each item of a list on its own, with where it comes from if that was asked."""
    if not value:
        return []
    explained = data.get("explained")
    label = name.replace("_", " ")
    if not isinstance(value, list) or (name not in LISTS and not explained):
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        return [*wrap(label, text, style.columns, 14), *_receipt(name, data, style)]
    lines = []
    for number, item in enumerate(value):
        lines += wrap("" if number else label, str(item), style.columns, 14)
        lines += _receipt(f"{name}.{number}", data, style)
    return lines


def _receipt(name: str, data: dict[str, Any], style: Style) -> list[str]:
    found = data["receipts"].get(name) if data.get("explained") else None
    if found is None:
        return []
    text = f"{found['evidence']} {found['time']}, record {found['uuid']}, byte {found['offset']}"
    return [style.dim(line) for line in wrap("", text, style.columns, 14)]


METHOD = Method("show", ShowParams, handle, render, (*FIELDS, *LISTS))
