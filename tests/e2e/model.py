"""A model that says what a test tells it to: the Messages API, streaming, on loopback only.

A test writes the script before it starts the client, and reads afterwards what the client sent:

    model.will(use("Bash", command="ls"), say("Done."))
    ...
    assert "README.md" in results(model.requests[1])
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Block = dict[str, Any]
Request = dict[str, Any]
# What the model answers to one request; a function sees the request first, and may act.
Turn = Block | list[Block] | Callable[[Request], "Block | list[Block]"]

USAGE = {
    "input_tokens": 1000, "output_tokens": 10,
    "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
}  # fmt: skip


def say(text: str) -> Block:
    return {"type": "text", "text": text}


def use(tool: str, **given) -> Block:
    return {"type": "tool_use", "name": tool, "input": given}


def tools(request: Request) -> dict[str, dict]:
    """Return the tools that a request offers, by name."""
    return {tool["name"]: tool for tool in request["tools"]}


def results(request: Request) -> list[str]:
    """Return what tools gave back, as the model reads it, the newest last."""
    return [_text(block["content"]) for block in _blocks(request) if block["type"] == "tool_result"]


def errors(request: Request) -> list[str]:
    """Return what tools gave back as an error."""
    blocks = [block for block in _blocks(request) if block["type"] == "tool_result"]
    return [_text(block["content"]) for block in blocks if block.get("is_error")]


def words(request: Request) -> str:
    """Return every text of a request, the system's first."""
    return "\n".join([_text(request.get("system", "")), *map(_shown, _blocks(request))])


def _blocks(request: Request) -> Iterator[Block]:
    for message in request["messages"]:
        content = message["content"]
        yield from [say(content)] if isinstance(content, str) else content


def _shown(block: Block) -> str:
    return block.get("text") or _text(block.get("content", ""))


def _text(content: str | list[Block]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content)


class Model:
    """The server. A request beyond the script is refused, which ends the client with an error."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.script: deque[Turn] = deque()
        self.problems: list[str] = []
        self._answered = 0
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def will(self, *turns: Turn) -> None:
        """Add what it will answer, one turn a request."""
        self.script.extend(turns)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Request) -> list[Block]:
        """Return the next turn of the script; asides of the client (a title) are no part of it."""
        if not request.get("tools"):
            return [say("Ok.")]
        self.requests.append(request)
        if not self.script:
            raise IndexError("the script is over")
        turn = self.script.popleft()
        found = turn(request) if callable(turn) else turn
        return [self._named(block) for block in (found if isinstance(found, list) else [found])]

    def _named(self, block: Block) -> Block:
        self._answered += 1
        return {**block, "id": f"toolu_{self._answered}"} if block["type"] == "tool_use" else block


class _Handler(BaseHTTPRequestHandler):
    model: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = urlsplit(self.path).path
        if path == "/v1/messages/count_tokens":
            self._json({"input_tokens": 1000})
        elif path == "/v1/messages":
            self._message(request)
        else:
            self._refuse(404, f"there is no {path}")

    def do_GET(self) -> None:
        self._json({})

    def do_HEAD(self) -> None:
        self._json({})

    def _message(self, request: Request) -> None:
        try:
            blocks = self.model.answer(request)
        except Exception as problem:  # noqa: BLE001  whatever a turn raises is the test's to see
            self.model.problems.append(repr(problem))
            self._refuse(400, repr(problem))
            return
        wants_tool = any(block["type"] == "tool_use" for block in blocks)
        message = {
            "id": f"msg_{len(self.model.requests)}", "type": "message", "role": "assistant",
            "model": request["model"], "content": blocks, "stop_sequence": None, "usage": USAGE,
            "stop_reason": "tool_use" if wants_tool else "end_turn",
        }  # fmt: skip
        if not request.get("stream"):
            self._json(message)
            return
        self._send(200, "text/event-stream", b"".join(map(_event, _events(message))))

    def _refuse(self, status: int, text: str) -> None:
        error = {"type": "invalid_request_error", "message": text}
        self._json({"type": "error", "error": error}, status)

    def _json(self, found: dict, status: int = 200) -> None:
        self._send(status, "application/json", json.dumps(found).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_about) -> None:
        """Say nothing: pytest shows what failed."""


def _event(event: dict) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _events(message: dict) -> Iterator[dict]:
    """Return a message as it is streamed, each block in one piece."""
    empty = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": empty}
    for index, block in enumerate(message["content"]):
        begun, delta = _streamed(block)
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": USAGE}
    yield {"type": "message_stop"}


def _streamed(block: Block) -> tuple[Block, Block]:
    if block["type"] == "tool_use":
        text = json.dumps(block["input"])
        return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": text}
    return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
