"""sessions: list the known sessions, the most recent first."""

from typing import Any

from pydantic import Field

from handoff.common import paths
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style, age, shorten_path, table
from handoffd.context import Context
from handoffd.projects.lanes import describe
from handoffd.projects.stored_sessions import is_outdated, state_of
from handoffd.runtime import clock


class SessionsParams(InProject):
    limit: int = Field(default=20, ge=1, le=1000)


async def handle(context: Context, params: SessionsParams, _send: Send) -> MethodReply:
    project = named_project(context, params) if params.project else None
    now = clock.wall()
    found = []
    for stored in context.daemon.state.sessions(project.id if project else None, params.limit):
        state = state_of(stored)
        found.append(
            {
                **describe(state),
                "project": state.root or state.cwd,
                "outdated": is_outdated(stored),
                "idle_seconds": round(max(now - stored.last_seconds, 0.0), 1),
            }
        )
    return MethodReply(
        {
            "sessions": found,
            "total": context.daemon.state.count_sessions(project.id if project else None),
        }
    )


def render(data: dict[str, Any], style: Style) -> str:
    if not data["sessions"]:
        return "No session is known yet.\n"
    home = paths.home()
    rows = [
        (
            item["session_id"][:8],
            age(item["idle_seconds"]),
            shorten_path(item["project"], home)[-30:],
            item["goal"] or item["now"] or "-",
        )
        for item in data["sessions"]
    ]
    lines = table([("SESSION", "IDLE", "PROJECT", "GOAL"), *rows], style.columns)
    left = data["total"] - len(rows)
    return "\n".join([*lines, *([f"({left} more)"] if left > 0 else [])]) + "\n"


METHOD = Method("sessions", SessionsParams, handle, render)
