"""statusline: render one line for below the prompt."""

import asyncio
from typing import Any

from handoff.common.errors import HandoffError
from handoffd.api.handlers.hook import HookParams
from handoffd.api.method import Method, MethodReply, Send
from handoffd.api.resolve import hook_fields, hook_project, texts_of
from handoffd.api.terminal_text import Style
from handoffd.context import Context
from handoffd.contract.presentation import age
from handoffd.projects.registry import Project
from handoffd.runtime import clock
from handoffd.session.fields import NOT_STATED
from handoffd.session.text import shorten
from handoffd.tracks.conductor_directory import ConductorDirectory

# The width that the goal keeps if all other parts are long.
_GOAL_MIN = 12


async def handle(context: Context, params: HookParams, _send: Send) -> MethodReply:
    given = texts_of(hook_fields(params.hook))
    project = hook_project(context, params.cwd, given, params.environment)
    refused = context.policy.refusal(project.id, project.root.path)
    if refused or not project.id:
        return MethodReply({"project": project.root.path, "left_alone": refused}, silent=True)
    session_id = given.get("session_id", "")
    left = [clock.parse(found.session_time) for found in context.core.contracts_of(project.id)]
    document = context.project_states.view(project, session_id).document
    data = {
        "project": project.root.path,
        "left_alone": "",
        "goal": document["goal"] if document["goal"] != NOT_STATED else "",
        "status": document["status"],
        "handoff_seconds": round(clock.wall() - max(left)) if left else None,
        "unread": sum(thread.number for thread in context.project_states.unread(project)),
        "track": await _track(context, project, session_id),
    }
    return MethodReply(data, silent=True)


async def _track(context: Context, project: Project, session_id: str) -> dict[str, Any] | None:
    """Return the track that a session works on, with the progress in its metadata.json."""
    track_id = context.core.ledger.track_of(session_id)
    if not track_id:
        return None
    try:
        found = await asyncio.to_thread(ConductorDirectory(project.root.path).track, track_id)
    except (OSError, HandoffError):
        return None
    percent = found.metadata.handoff.get("progress_percent") if found and found.metadata else None
    return {"id": track_id, "percent": percent} if isinstance(percent, int) else None


def render(data: dict[str, Any], style: Style) -> str:
    if "goal" not in data:
        return data["left_alone"] and f"handoffd: {data['left_alone']}\n"
    rest = [data["status"]] if data["status"] != "in_progress" else []
    if data["track"]:
        rest.append(f"{data['track']['id']} {data['track']['percent']}%")
    if data["unread"]:
        rest.append(f"{data['unread']} unread")
    if data["handoff_seconds"] is not None:
        rest.append(f"handoff {age(data['handoff_seconds'])}")
    room = max(style.columns - len(" · ".join(["", *rest])), _GOAL_MIN)
    goal = [shorten(data["goal"], room)] if data["goal"] else []
    return " · ".join([*goal, *rest]) + "\n"


METHOD = Method("statusline", HookParams, handle, render)
