"""Close an open item by its number in the list that was shown last."""

import contextlib
from collections.abc import Callable
from typing import Any

from pydantic import Field

from handoff.common.errors import HandoffError
from handoffd.api.method import InProject, MethodReply
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style, count, wrap
from handoffd.context import Context
from handoffd.errors import StoreError
from handoffd.projects.lanes import ProjectView
from handoffd.projects.registry import Project
from handoffd.runtime import clock
from handoffd.session.items import PERSON, list_stamp
from handoffd.session.text import redact_values
from handoffd.store.core import CoreStore

LOOK = "Look at the list: handoff show"
WORDS = {"done": "Done", "dropped": "Dropped", "untrue": "Dropped, as not true"}


class ItemParams(InProject):
    number: int = Field(description="the number of the item in the list that `show` returned")
    stamp: str | None = Field(default=None, description="the stamp of that list, as in `show`")


def stamp_of(view: ProjectView) -> str:
    """Return the stamp of a view's open items; the current activity is no part of it."""
    return list_stamp("\t".join(item.key) for item in view.items)


def described(view: ProjectView) -> list[dict[str, Any]]:
    """Return the open items of a view as data, with their numbers."""
    return [
        {
            "number": number,
            "text": redact_values(item.value.text),
            "kind": item.kind,
            "state": "open",
            "receipt": _located(item.key.transcript, item.value.receipt._asdict())
            if item.kind != PERSON
            else None,
        }
        for number, item in enumerate(view.items, 1)
    ]


def _located(transcript: str, receipt: dict[str, Any]) -> dict[str, Any]:
    return {**receipt, "transcript": transcript}


async def close_item(context: Context, params: ItemParams, state: str) -> MethodReply:
    """Close one item of the list that the caller saw; refuse if the list has changed since."""
    project = named_project(context, params)
    states = context.project_states
    active = states.active(project)
    async with states.turn(active):
        states.refresh(project)
        view = states.view(project)
        shown = params.stamp or (context.core.item_marks.shown(project.id) if project.id else "")
        number = checked(params.number, len(view.items), shown, stamp_of(view))
        item = view.items[number]
        states.close_items(project, [item], state, clock.iso_milliseconds())
        left = states.view(project)
    return MethodReply(
        result(item.value.text, state, left.document, described(left)),
        project=project.root.path,
        printed=remember(context.core, project, stamp_of(left)),
    )


def remember(core: CoreStore, project: Project, stamp: str) -> Callable[[], None]:
    """Return a function that notes the list that a person has seen; it never fails."""

    def note() -> None:
        if project.id:
            with contextlib.suppress(StoreError):
                core.item_marks.set_shown(project.id, stamp)

    return note


def checked(number: int, size: int, shown: str, stamp: str) -> int:
    """Return the index of an item, if the list is the one that was shown and has that number."""
    if not shown:
        raise HandoffError("The list of open items was not shown yet.", LOOK)
    if shown != stamp:
        raise HandoffError("The list of open items has changed since it was shown.", LOOK)
    if not 1 <= number <= size:
        known = f"It has {count(size, 'item')}" if size else "It has none"
        raise HandoffError(f"There is no open item {number}. {known}.", LOOK)
    return number - 1


def result(
    text: str, state: str, document: dict[str, Any], items: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the data of a reply."""
    return {
        "text": redact_values(text),
        "state": state,
        "status": document.get("status"),
        "items": items,
    }


def render(data: dict[str, Any], style: Style) -> str:
    lines = wrap(f"{WORDS[data['state']]}: ", data["text"], style.columns, 2)
    for item in data["items"]:
        label = "" if item["number"] > 1 else "next"
        lines += wrap(label, f"{item['number']}. {item['text']}", style.columns, 14)
    if not data["items"]:
        lines += wrap("status", f"{data['status']}; no open item is left", style.columns, 14)
    return "\n".join(lines) + "\n"
