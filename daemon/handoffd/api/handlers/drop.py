"""drop: close an open item that is not to be done, or that was never true."""

from pydantic import Field

from handoffd.api.item_closing import ItemParams, close_item, render
from handoffd.api.method import Method, MethodReply, Send
from handoffd.context import Context
from handoffd.store.item_marks import DROPPED, UNTRUE


class DropParams(ItemParams):
    untrue: bool = Field(default=False, description="the item was wrong; `show` with `log` says so")


async def handle(context: Context, params: DropParams, _send: Send) -> MethodReply:
    return await close_item(context, params, UNTRUE if params.untrue else DROPPED)


METHOD = Method("drop", DropParams, handle, render)
