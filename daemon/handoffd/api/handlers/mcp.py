"""mcp: the first request of a relay; from then on its connection speaks MCP."""

from typing import Any, Literal

from pydantic import Field

from handoffd.api.caller import Caller
from handoffd.api.method import Directory, Method, MethodReply, Params, Send
from handoffd.api.terminal_text import Style
from handoffd.context import Context


class McpParams(Params):
    client: Literal["chat", "code"] = Field(
        default="chat", description="the side a call speaks for that does not say"
    )
    cwd: Directory = Field(default="/", description="the directory it works in")


async def handle(_context: Context, params: McpParams, _send: Send) -> MethodReply:
    return MethodReply({"client": params.client}, caller=Caller(params.client, params.cwd))


def render(data: dict[str, Any], _style: Style) -> str:
    return f"Speaking MCP as {data['client']}\n"


METHOD = Method("mcp", McpParams, handle, render)
