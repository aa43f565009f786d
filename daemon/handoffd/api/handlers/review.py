"""review: show the newest handoff as it is, and whether it calls for a person."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from handoffd.api.handoff_results import describe, handoffs_of, place_of
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style, count
from handoffd.context import Context
from handoffd.contract import session_file
from handoffd.contract.handoff_directory import Handoff
from handoffd.contract.presentation import NOTHING, age


class ReviewParams(InProject):
    settle: bool = Field(default=False, description="take the call for a person out")


async def handle(context: Context, params: ReviewParams, _send: Send) -> MethodReply:
    project = named_project(context, params)
    settled = 0
    if params.settle:
        place = place_of(project, params)
        _, settled = await asyncio.to_thread(
            session_file.settle, context.contract_writer.base, place
        )
    found = await handoffs_of(context, project, params, 1)
    data = outcome(project.root.path, found, describe(context, found), settled)
    return MethodReply(data, project=project.root.path)


def outcome(
    root: str, found: Sequence[Handoff], items: Sequence[dict[str, Any]], settled: int
) -> dict[str, Any]:
    if not found:
        return {"project": root, "handoff": None, "settled": 0, "text": ""}
    return {"project": root, "handoff": items[0], "settled": settled, "text": found[0].text}


def render(data: dict[str, Any], style: Style) -> str:
    handoff = data["handoff"]
    if handoff is None:
        return NOTHING
    calls = [reason or "(no reason given)" for reason in handoff["escalations"]]
    lines = [f"{handoff['path']} ({age(handoff['age_seconds'])})"]
    lines += [style.bold(f"A person is needed: {reason}") for reason in calls]
    settled = f"Settled: {count(data['settled'], 'call')} for a person taken out."
    quiet = settled if data["settled"] else "Nobody calls for a person."
    lines += [] if calls else [quiet]
    lines += ["When you have seen to it: handoff review --settle"] if calls else []
    return "\n".join([*lines, "", data["text"]]).rstrip("\n") + "\n"


METHOD = Method("review", ReviewParams, handle, render, ("text",), calls=True)
