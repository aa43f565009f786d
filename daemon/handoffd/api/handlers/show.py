"""show: what is true of a project now."""

from typing import Any

from handoff.paths import home
from handoffd.api.method import InProject, Method, Reply, Send
from handoffd.api.resolve import named_project
from handoffd.api.text import Style, age, fit, shorten_path, wrap
from handoffd.handoffs.checkpoint import FIELDS, LISTS, NOT_STATED
from handoffd.handoffs.lanes import Lane
from handoffd.parts import Parts
from handoffd.projects import Project
from handoffd.session.text import redact_values


async def handle(parts: Parts, params: InProject, _send: Send) -> Reply:
    project = named_project(parts, params)
    refused = parts.gate.refusal(project.id, project.root.path)
    if not refused:
        parts.board.refresh(project)
    view = parts.board.view(project)
    card = parts.board.card(project)
    main = view.main
    data = {
        "project": project.root.path,
        "document": redact_values(view.whole),
        "idle_seconds": round(main.idle_seconds, 1) if main else None,
        "lanes": [describe(lane, main) for lane in parts.board.lanes(project.id)],
        "receipts": {name: vars_of(receipt) for name, receipt in view.receipts.items()},
        "uncommitted": redact_values(card.uncommitted),
        "refused": refused or None,
        "not_written": _reason(parts, project),
    }
    return Reply(data, project=project.root.path)


def _reason(parts: Parts, project: Project) -> str | None:
    return parts.board.refusal_to_write(parts.board.card(project)) or None


def vars_of(receipt: Any) -> dict[str, Any]:
    return {name: getattr(receipt, name) for name in receipt.__dataclass_fields__}


def describe(lane: Lane, main: Lane | None) -> dict[str, Any]:
    state = lane.state
    return {
        "session_id": state.session_id,
        "main": main is not None and state.session_id == main.state.session_id,
        "live": lane.live,
        "headless": state.headless,
        "idle_seconds": round(lane.idle_seconds, 1),
        "records": state.records,
        "agent_records": state.agent_records,
        "prompts": state.prompts,
        "goal": state.goal.text if state.goal else None,
        "now": state.now.text if state.now else None,
    }


def render(data: dict[str, Any], style: Style) -> str:
    document = data["document"]
    lines = [style.bold(fit(shorten_path(data["project"], home()), style.columns)), ""]
    if document.get("goal") == document.get("now") == NOT_STATED and not data.get("refused"):
        return "\n".join([*lines, "Nothing is known of this project yet.", ""])
    for name in dict.fromkeys((*FIELDS, *LISTS, *document)):
        value = document.get(name)
        if isinstance(value, list):
            value = ", ".join(map(str, value))
        if value:
            lines += wrap(name.replace("_", " "), str(value), style.columns, 14)
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


METHOD = Method("show", InProject, handle, render)
