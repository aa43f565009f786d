"""down: stop the daemon in an orderly way."""

import os
from typing import Any

from handoffd.api.method import Method, MethodReply, Params, Send
from handoffd.api.terminal_text import Style
from handoffd.context import Context


async def handle(context: Context, _params: Params, _send: Send) -> MethodReply:
    return MethodReply({"pid": os.getpid()}, after=lambda _delivered: context.daemon.stop.set())


def render(data: dict[str, Any], _style: Style) -> str:
    return f"handoffd (process {data['pid']}) is ending.\n"


METHOD = Method("down", Params, handle, render)
