"""why: show the receipt of a value, with the words of its record."""

from typing import Any

from pydantic import Field

from handoff.common.errors import HandoffError
from handoffd.agents.agent import line_at
from handoffd.agents.registry import agent_of
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style, wrap
from handoffd.context import Context
from handoffd.projects.lanes import ProjectView
from handoffd.session.fields import FIELDS, LISTS
from handoffd.session.state import Receipt
from handoffd.session.text import keep, shorten

EXCERPT_MAX = 600
WORDS_MAX = 8000
_SOUGHT = 40
_PARTS_MAX = 50
_MEANINGS = {
    "observed": "seen in what was done",
    "quoted": "somebody's words",
    "inferred": "put together or concluded: nobody said it in just these words",
}


class WhyParams(InProject):
    field: str = Field(description="a field, or `next.0` for an item", max_length=40)


async def handle(context: Context, params: WhyParams, _send: Send) -> MethodReply:
    project = named_project(context, params)
    view = context.project_states.view(project)
    field = params.field.strip().lower().replace(" ", "_")
    name, _, number = field.partition(".")
    if name not in view.whole and name not in (*FIELDS, *LISTS):
        known = ", ".join(dict.fromkeys((*FIELDS, *LISTS, *view.whole)))
        raise HandoffError(f"There is no field {params.field}.", f"There are: {known}")
    value = view.whole.get(name)
    if number:
        place = int(number) if number.isascii() and number.isdigit() else len(str(value))
        value = value[place] if isinstance(value, list) and place < len(value) else None
    if value is None:
        raise HandoffError(f"Nothing is known of {field}.", "See: handoff show")
    data: dict[str, Any] = {"project": project.root.path, "field": field, "value": value}
    setting = context.core.settings(project.id).get(name)
    data["evidence"] = [
        {"receipt": receipt._asdict(), "excerpt": excerpt(context, receipt, text)}
        for receipt, text in _receipts(view, field, value)
    ]
    if not data["evidence"] and setting is not None:
        data["set_at"] = setting.set_at
    return MethodReply(data, project=project.root.path)


def _receipts(view: ProjectView, field: str, value: Any) -> list[tuple[Receipt, str]]:
    """Return the receipts of a value; a value that was put together has several."""
    texts = value if isinstance(value, list) else [str(value)] * _PARTS_MAX
    found = [
        (view.receipts[f"{field}.{number}"], str(text))
        for number, text in enumerate(texts)
        if f"{field}.{number}" in view.receipts
    ]
    whole = view.receipts.get(field)
    return found or ([(whole, str(value))] if whole else [])


def excerpt(context: Context, receipt: Receipt, text: str) -> str:
    """Return the words of a receipt's record around the text, with secrets masked."""
    entry = context.daemon.transcript_reader.entries.get(receipt.transcript)
    if entry is None:
        return ""
    agent = agent_of(entry.cursor.path)
    line = line_at(entry.cursor.path, receipt.offset)
    for record in agent.decode(receipt.offset, line).records:
        if record.uuid and record.uuid == receipt.uuid:
            return _around(keep(agent.words(record), WORDS_MAX), text)
    return ""


def _around(said: str, text: str) -> str:
    place = said.find(text[:_SOUGHT]) if len(said) > EXCERPT_MAX else 0
    start = max(place - EXCERPT_MAX // 3, 0)
    return ("…" if start else "") + shorten(said[start:], EXCERPT_MAX)


def render(data: dict[str, Any], style: Style) -> str:
    columns = style.columns
    value = "; ".join(data["value"]) if isinstance(data["value"], list) else str(data["value"])
    lines = wrap(data["field"], value, columns, 14)
    if not data["evidence"]:
        set_at = data.get("set_at")
        because = f"set by a person at {set_at}" if set_at else "not from a session"
        lines += wrap("because", because, columns, 14)
    for item in data["evidence"]:
        receipt = item["receipt"]
        meaning = _MEANINGS[receipt["evidence"]]
        lines += wrap("because", f"{receipt['evidence']}: {meaning}", columns, 14)
        if item["excerpt"]:
            lines += wrap("words", item["excerpt"], columns, 14)
        record = f"record {receipt['uuid']}, byte {receipt['offset']}"
        # The message of a hook is in no record.
        place = f"{receipt['transcript']}, {record if receipt['uuid'] else 'a hook of its client'}"
        lines += wrap("where", place, columns, 14)
        lines += wrap("when", receipt["time"], columns, 14)
    return "\n".join(lines) + "\n"


METHOD = Method("why", WhyParams, handle, render, ("value", "excerpt"))
