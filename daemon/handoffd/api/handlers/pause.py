"""pause: from now on nothing is learned, of one project or of everything."""

from typing import Any

from handoffd.api.method import InProject, Method, Reply, Send
from handoffd.api.resolve import named_project
from handoffd.api.text import Style
from handoffd.parts import Parts
from handoffd.store.core import EVERYTHING


async def handle(parts: Parts, params: InProject, _send: Send) -> Reply:
    project = named_project(parts, params, create=True) if params.project else None
    scope = project.id if project else EVERYTHING
    await parts.lookout.rescan()
    already = scope in parts.gate.paused_scopes()
    if not already:
        parts.gate.pause(scope, _sizes(parts, project.id if project else None))
        parts.scribe.drop_briefs(project)
        await parts.renew_copy()
    return Reply({"paused": project.root.path if project else "*", "already": already})


def _sizes(parts: Parts, project_id: str | None) -> dict[str, int]:
    """Return the present sizes of the transcripts of a project, or of all."""
    parts.intake.keep()
    wanted = None if project_id is None else parts.state.session_ids(project_id)
    return {
        name: entry.size_now
        for name, entry in parts.intake.entries.items()
        if wanted is None or entry.cursor.session_id in wanted
    }


def render(data: dict[str, Any], _style: Style) -> str:
    what = "Everything" if data["paused"] == "*" else data["paused"]
    end = "handoff unpause" if data["paused"] == "*" else f"handoff unpause {data['paused']}"
    return (
        f"{what} is paused{' already' if data['already'] else ''}: what is written now will never "
        f"be read.\nGo on with: {end}\n"
    )


METHOD = Method("pause", InProject, handle, render)
