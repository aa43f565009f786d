"""why: the receipt of a value, with the words it rests on."""

from typing import Any

from pydantic import Field

from handoff.errors import HandoffError
from handoffd.api.method import InProject, Method, Reply, Send
from handoffd.api.resolve import named_project
from handoffd.api.text import Style, wrap
from handoffd.parts import Parts
from handoffd.session.state import Receipt
from handoffd.session.text import keep
from handoffd.sources.transcripts import line_at
from handoffd.transcript.events import Prompt, Said, events
from handoffd.transcript.records import parse_line

EXCERPT_MAX = 600
_MEANINGS = {
    "observed": "seen in what was done",
    "quoted": "somebody's words",
    "inferred": "taken over from an earlier session: nobody said it in this one",
}


class WhyParams(InProject):
    field: str = Field(description="a field, or `next.0` for an item", pattern=r"^[a-z_]+(\.\d+)?$")


async def handle(parts: Parts, params: WhyParams, _send: Send) -> Reply:
    project = named_project(parts, params)
    view = parts.board.view(project)
    name, _, number = params.field.partition(".")
    value = view.whole.get(name)
    if number:
        value = value[int(number)] if isinstance(value, list) and int(number) < len(value) else None
    if value is None:
        raise HandoffError(f"Nothing is known of {params.field}.", "See: handoff show")
    data: dict[str, Any] = {"project": project.root.path, "field": params.field, "value": value}
    receipt = view.receipts.get(params.field) or view.receipts.get(f"{params.field}.0")
    setting = parts.core.settings(project.id).get(name)
    if receipt is not None:
        data["receipt"] = {key: getattr(receipt, key) for key in Receipt.__dataclass_fields__}
        data["excerpt"] = excerpt(parts, receipt)
    elif setting is not None:
        data["set_at"] = setting.set_at
    return Reply(data, project=project.root.path)


def excerpt(parts: Parts, receipt: Receipt) -> str:
    """Return the words of the record that a receipt names, masked like everything else."""
    entry = parts.intake.entries.get(receipt.transcript)
    line = line_at(entry.cursor.path, receipt.offset) if entry else b""
    for record in parse_line(receipt.offset, line).records:
        if record.text("uuid") == receipt.uuid:
            said = [event.text for event in events(record) if isinstance(event, (Prompt, Said))]
            return keep("\n".join(said), EXCERPT_MAX)[0]
    return ""


def render(data: dict[str, Any], style: Style) -> str:
    columns = style.columns
    value = ", ".join(data["value"]) if isinstance(data["value"], list) else str(data["value"])
    lines = wrap(data["field"], value, columns, 14)
    receipt = data.get("receipt")
    if receipt is None:
        because = (
            f"set by a person at {data['set_at']}" if data.get("set_at") else "not from a session"
        )
        return "\n".join([*lines, *wrap("because", because, columns, 14), ""])
    lines += wrap(
        "because", f"{receipt['evidence']}: {_MEANINGS[receipt['evidence']]}", columns, 14
    )
    if data.get("excerpt"):
        lines += wrap("words", data["excerpt"], columns, 14)
    place = f"{receipt['transcript']}, record {receipt['uuid']}, byte {receipt['offset']}"
    lines += wrap("where", place, columns, 14)
    lines += wrap("when", receipt["time"], columns, 14)
    return "\n".join(lines) + "\n"


METHOD = Method("why", WhyParams, handle, render)
