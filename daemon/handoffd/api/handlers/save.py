"""save: keep a person's own words until a session states others."""

from typing import Any, Literal

from pydantic import Field

from handoff.common.paths import CHECKPOINT, home
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style, count, shorten_path, wrap
from handoffd.context import Context
from handoffd.session.text import SAVED_MAX, KeptValues


class SaveParams(InProject):
    message: str | None = Field(default=None, description="sets now, and goal when there is none")
    goal: str | None = None
    now: str | None = None
    hypothesis: str | None = None
    outcome: str | None = None
    status: Literal["in_progress", "completed", "blocked"] | None = None
    tags: list[str] = Field(default=[], description="kept under `tags`", max_length=50)


async def handle(context: Context, params: SaveParams, _send: Send) -> MethodReply:
    project = named_project(context, params, create=True)
    given = params.model_dump(include={"message", "goal", "now", "hypothesis", "outcome", "status"})
    document, kept = await context.daemon.checkpoint_writer.save(project, given, params.tags)
    return MethodReply(result(project.root.path, document, kept), project=project.root.path)


def result(root: str, document: dict[str, Any], kept: KeptValues) -> dict[str, Any]:
    return {
        "path": f"{root}/{CHECKPOINT}",
        "document": document,
        "redacted": kept.masked,
        "cut_to": SAVED_MAX if kept.cut else None,
    }


def render(data: dict[str, Any], style: Style) -> str:
    lines = [f"Saved {shorten_path(data['path'], home())}"]
    if data["cut_to"]:
        lines.append(f"Cut to {data['cut_to']} characters.")
    if data["redacted"]:
        lines.append(f"Masked: {count(data['redacted'], 'secret')}.")
    lines += wrap("now:", data["document"]["now"], style.columns, 5)
    return "\n".join(lines) + "\n"


METHOD = Method("save", SaveParams, handle, render)
