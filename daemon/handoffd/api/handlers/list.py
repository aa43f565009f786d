"""list: return the handoffs of a project, the newest first."""

import os
from typing import Any

from pydantic import Field

from handoff.common.paths import home
from handoffd.api.handoff_results import LISTED_MAX, describe, handoffs_of
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style, shorten_path, table
from handoffd.context import Context
from handoffd.contract.presentation import NOTHING, age


class ListParams(InProject):
    limit: int = Field(default=20, ge=1, le=LISTED_MAX)


async def handle(context: Context, params: ListParams, _send: Send) -> MethodReply:
    project = named_project(context, params)
    found = await handoffs_of(context, project, params, params.limit)
    data = {"project": project.root.path, "handoffs": describe(context, found)}
    return MethodReply(data, project=project.root.path)


def render(data: dict[str, Any], style: Style) -> str:
    found = data["handoffs"]
    if not found:
        return NOTHING
    rows = [
        (
            os.path.basename(item["path"]),
            age(item["age_seconds"]),
            _state(item),
            item["purpose"] or "-",
        )
        for item in found
    ]
    places = sorted({shorten_path(os.path.dirname(item["path"]), home()) for item in found})
    lines = [*places, *table([("HANDOFF", "AGE", "STATE", "PURPOSE"), *rows], style.columns)]
    return "\n".join(lines) + "\n"


def _state(item: dict[str, Any]) -> str:
    words = ("REVIEW" if item["escalations"] else "", "" if item["read"] else "unread")
    return " ".join(filter(None, words)) or "read"


METHOD = Method("list", ListParams, handle, render)
