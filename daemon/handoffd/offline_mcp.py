"""MCP without a daemon: what a relay's own process answers, from core.db."""

import json
import sys
from typing import Any

from handoff.errors import HandoffError
from handoff.paths import config_file
from handoffd import config
from handoffd.api import mcp
from handoffd.api.caller import Caller
from handoffd.offline_threads import opened

Frame = dict[str, Any]


def serve(client: str, directory: str) -> None:
    """Answer the lines of a relay, which are requests, until there are no more."""
    caller = Caller(client, directory)
    for line in sys.stdin.buffer:
        text = json.dumps(_answer(json.loads(line), caller), ensure_ascii=False)
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()


def _answer(request: Frame, caller: Caller) -> Frame:
    try:
        settings, problem = config.load(config_file()), None
    except HandoffError as found:
        # What the user wants cannot be known, so nothing is done that they might not.
        settings, problem = config.Config(threads=config.Threads(refuse_secrets=True)), found
        if _is_closing(request):
            return _failed(request, f"It stays open, as a copy may be wanted. {problem}")
    try:
        with opened(settings, caller.directory) as (threads, used):
            return mcp.answer(request, caller, threads, used if problem is None else _learn_nothing)
    except (HandoffError, OSError) as found:
        return _failed(request, str(found))


def _is_closing(request: Frame) -> bool:
    params = request.get("params")
    return isinstance(params, dict) and params.get("name") == "close_handoff"


def _learn_nothing(_thread_id: str) -> None:
    return


def _failed(request: Frame, text: str) -> Frame:
    result = {"content": [{"type": "text", "text": text}], "isError": True}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}
