"""Answer MCP without a daemon, from core.db, in a process of the relay."""

import json
import sys
from typing import Any

from handoff.common import wire
from handoff.common.errors import HandoffError
from handoff.common.plain_text import plain
from handoff.common.safe_parsing import load_json
from handoffd.api.caller import Caller
from handoffd.api.thread_calls import answer_mcp
from handoffd.offline.runner import run_in_process

Frame = dict[str, Any]


def serve(client: str, directory: str) -> None:
    """Answer a relay's requests, one per line, until its input ends."""
    caller = Caller(client, directory)
    for line in sys.stdin.buffer:
        text = json.dumps(_answer_line(line, caller), ensure_ascii=False)
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()


def _answer_line(line: bytes, caller: Caller) -> Frame:
    try:
        request = load_json(line)
    except ValueError as problem:
        error = {"code": wire.PARSE_ERROR, "message": f"That cannot be read: {problem}"}
        return {"jsonrpc": "2.0", "id": None, "error": error}
    return _answer(request, caller)


def _answer(request: Frame, caller: Caller) -> Frame:
    try:
        return run_in_process(
            lambda context: answer_mcp(context, request, caller), needs_config=False
        )
    except (HandoffError, OSError) as problem:
        result = {"content": [{"type": "text", "text": plain(str(problem))}], "isError": True}
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}
