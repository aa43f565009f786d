"""review: the newest handoff as it is, and whether it calls for a person."""

from collections.abc import Sequence
from typing import Any

from handoffd.api.contracts import describe, handoffs_of
from handoffd.api.method import InProject, Method, Reply, Send
from handoffd.api.resolve import named_project
from handoffd.api.text import Style
from handoffd.handoffs.opening import NOTHING, age
from handoffd.handoffs.shelf import Handoff
from handoffd.parts import Parts


async def handle(parts: Parts, params: InProject, _send: Send) -> Reply:
    project = named_project(parts, params)
    found = await handoffs_of(parts, project, params, 1)
    data = outcome(project.root.path, found, describe(parts, found))
    return Reply(data, project=project.root.path)


def outcome(root: str, found: Sequence[Handoff], items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if not found:
        return {"project": root, "handoff": None, "text": ""}
    return {"project": root, "handoff": items[0], "text": found[0].text}


def render(data: dict[str, Any], style: Style) -> str:
    handoff = data["handoff"]
    if handoff is None:
        return NOTHING
    calls = [reason or "(no reason given)" for reason in handoff["escalations"]]
    lines = [f"{handoff['path']} ({age(handoff['age_seconds'])})"]
    lines += [style.bold(f"A person is needed: {reason}") for reason in calls]
    lines += [] if calls else ["Nobody called for a person."]
    return "\n".join([*lines, "", data["text"]]).rstrip("\n") + "\n"


METHOD = Method("review", InProject, handle, render)
