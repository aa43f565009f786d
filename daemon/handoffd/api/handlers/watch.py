"""watch: a stream of changes; each is a notification `change` on the same connection."""

from typing import Any

from handoff.errors import HandoffError
from handoffd.api.method import InProject, Method, Reply, Send
from handoffd.api.resolve import named_project
from handoffd.api.text import Style
from handoffd.parts import Parts


async def handle(parts: Parts, params: InProject, send: Send) -> Reply:
    if len(parts.watchers) >= parts.connections_max // 2:
        raise HandoffError(f"{len(parts.watchers)} clients watch already.", "End one of them.")
    wanted = named_project(parts, params).root.path if params.project else None

    def tell(change: dict[str, Any]) -> None:
        if "project" in change and wanted in (None, change["project"]):
            send({"jsonrpc": "2.0", "method": "change", "params": change})

    return Reply({"watching": wanted or "*"}, watcher=tell)


def render(data: dict[str, Any], _style: Style) -> str:
    return f"Watching {data['watching']}\n"


METHOD = Method("watch", InProject, handle, render)
