"""pause: learn nothing from now on, of one project or of all."""

from typing import Any

from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style
from handoffd.context import Context
from handoffd.store.core import EVERYTHING


async def handle(context: Context, params: InProject, _send: Send) -> MethodReply:
    project = named_project(context, params, create=True) if params.project else None
    scope = project.id if project else EVERYTHING
    await context.daemon.transcript_watcher.rescan()
    already = scope in context.policy.paused_scopes()
    if not already:
        context.policy.pause(scope, _sizes(context, project.id if project else None))
        context.daemon.brief_writer.drop(project)
        await context.daemon.core_keeper.renew_copy()
    return MethodReply({"paused": project.root.path if project else "*", "already": already})


def _sizes(context: Context, project_id: str | None) -> dict[str, int]:
    """Return the current sizes of the transcripts of one project or of all."""
    context.daemon.transcript_reader.keep()
    wanted = None if project_id is None else context.daemon.state.session_ids(project_id)
    return {
        name: entry.size_now
        for name, entry in context.daemon.transcript_reader.entries.items()
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
