"""down: end the daemon in good order."""

import os
from typing import Any

from handoffd.api.method import Method, Params, Reply, Send
from handoffd.api.text import Style
from handoffd.parts import Parts


async def handle(parts: Parts, _params: Params, _send: Send) -> Reply:
    return Reply({"pid": os.getpid()}, after=lambda _delivered: parts.stop.set())


def render(data: dict[str, Any], _style: Style) -> str:
    return f"handoffd (process {data['pid']}) is ending.\n"


METHOD = Method("down", Params, handle, render)
