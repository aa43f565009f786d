"""Answer MCP natively, without loading a library for it.

Every request stands alone, so that a conversation survives a restart of the daemon: no request
depends on an `initialize` that an earlier process may have answered.
"""

import json
from collections.abc import Callable
from typing import Any

from handoff.common import wire
from handoff.common.errors import HandoffError
from handoff.common.plain_text import escaped_json, plain
from handoffd.api import mcp_initialize, tools
from handoffd.api.caller import Caller
from handoffd.api.mcp_initialize import McpError
from handoffd.threads.service import ThreadService
from handoffd.threads.thread_text import mend

ONCE_MAX = 100

Frame = dict[str, Any]


def answer(
    request: Frame, caller: Caller, threads: ThreadService, used: Callable[[str], None]
) -> Frame:
    """Return the answer to any request; call `used` with the id of a thread used as code."""
    if request["method"] != "tools/call":
        return mcp_initialize.answer(request)
    reply = {"jsonrpc": "2.0", "id": request.get("id")}
    try:
        params = mcp_initialize.params_of(request)
        modern = mcp_initialize.is_modern(params)
        result = _call_tool(request, params, caller, threads, used)
    except McpError as problem:
        return {**reply, "error": problem.frame}
    return {**reply, "result": mcp_initialize.as_modern_result(result) if modern else result}


def closes(request: Frame) -> bool:
    """Return True for a request that may close a thread."""
    params = request.get("params")
    return isinstance(params, dict) and params.get("name") == tools.CLOSE


def _call_tool(
    request: Frame,
    params: Frame,
    caller: Caller,
    threads: ThreadService,
    used: Callable[[str], None],
) -> Frame:
    name, once = params.get("name"), request.get("once", "")
    if not isinstance(name, str):
        raise McpError(wire.INVALID_PARAMS, "name must be a text")
    if not isinstance(once, str) or len(once) > ONCE_MAX:
        raise McpError(wire.INVALID_PARAMS, f"once must be a text of {ONCE_MAX} characters at most")
    try:
        given = params.get("arguments")
        result, client = tools.call(threads, name, given, caller.client, mend(once))
    except HandoffError as problem:
        return {"content": [{"type": "text", "text": plain(str(problem))}], "isError": True}
    except OSError as problem:
        why = plain(f"It could not be kept: {problem.strerror or problem}.")
        return {"content": [{"type": "text", "text": why}], "isError": True}
    if thread_id := tools.used_as_code(result, client, given):
        used(thread_id)
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    return {
        "content": [{"type": "text", "text": escaped_json(text)}],
        "structuredContent": result,
        "isError": False,
    }
