"""watch: a stream of changes; each is a notification `change` on the same connection."""

from typing import Any

from handoff.common.errors import HandoffError
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style
from handoffd.context import Context


async def handle(context: Context, params: InProject, send: Send) -> MethodReply:
    if len(context.watchers) >= context.daemon.connections_max // 2:
        raise HandoffError(f"{len(context.watchers)} clients watch already.", "End one of them.")
    wanted = named_project(context, params).root.path if params.project else None

    def tell(change: dict[str, Any]) -> None:
        if "project" in change and wanted in (None, change["project"]):
            send({"jsonrpc": "2.0", "method": "change", "params": change})

    return MethodReply({"watching": wanted or "*"}, watcher=tell)


def render(data: dict[str, Any], _style: Style) -> str:
    return f"Watching {data['watching']}\n"


METHOD = Method("watch", InProject, handle, render)
