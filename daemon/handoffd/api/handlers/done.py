"""done: close an open item that is done."""

from handoffd.api.item_closing import ItemParams, close_item, render
from handoffd.api.method import Method, MethodReply, Send
from handoffd.context import Context
from handoffd.store.item_marks import DONE


class DoneParams(ItemParams):
    pass


async def handle(context: Context, params: DoneParams, _send: Send) -> MethodReply:
    return await close_item(context, params, DONE)


METHOD = Method("done", DoneParams, handle, render)
