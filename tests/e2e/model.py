"""A model that follows a test's script: the Messages API, streaming, on loopback only.

A test writes the script before it starts the client, and reads the client's requests afterwards:

    model.will(use("Bash", command="ls"), say("Done."))
    ...
    assert "README.md" in results(model.requests[1])

A sub-agent's requests are answered from a script of its own (`model.agent`), a compaction by
`model.summary`. The client's other requests (titles, suggestions) are no part of any script.
"""

import contextlib
import itertools
import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Block = dict[str, Any]
TOKENS = 1000
# The words with which the client asks for a compaction's summary, and for a suggestion to type.
_COMPACTION = "Your task is to create a detailed summary of"
_SUGGESTION = "[SUGGESTION MODE"


class Request(dict[str, Any]):
    """A request of the client, with the session and the sub-agent, if any, from its headers."""

    session: str = ""
    agent: str = ""


@dataclass(frozen=True)
class Reply:
    """Blocks, and the number of tokens that the model says it has read for them."""

    blocks: list[Block]
    tokens: int = TOKENS


@dataclass
class Refusal(Exception):  # noqa: N818  it is an answer
    """An answer that is an error; the client is told not to try again."""

    status: int
    kind: str
    text: str


# The model's answer to one request; a function sees the request first, and may act.
Said = Block | list[Block] | Reply
Turn = Said | Refusal | Callable[[Request], Said]


def say(text: str) -> Block:
    return {"type": "text", "text": text}


def use(tool: str, **given) -> Block:
    return {"type": "tool_use", "name": tool, "input": given}


def reading(tokens: int, *blocks: Block) -> Reply:
    """Answer as if so many tokens had been read: beyond a limit the client compacts."""
    return Reply(list(blocks), tokens)


def limited() -> Refusal:
    """Refuse like an account whose limit is reached."""
    text = "This request would exceed your account's rate limit. Please try again later."
    return Refusal(429, "rate_limit_error", text)


class Held:
    """A turn that waits until the test lets it go."""

    def __init__(self, said: Said) -> None:
        self.said = said
        self.asked = threading.Event()
        self.go = threading.Event()

    def __call__(self, _request: Request) -> Said:
        self.asked.set()
        assert self.go.wait(60), "nobody let the model go"
        return self.said


def tools(request: Request) -> dict[str, dict]:
    """Return the tools that a request offers, by name."""
    return {tool["name"]: tool for tool in request["tools"]}


def results(request: Request) -> list[str]:
    """Return the results of tools, as the model reads them, the newest last."""
    return [_text(block["content"]) for block in _blocks(request) if block["type"] == "tool_result"]


def errors(request: Request) -> list[str]:
    """Return the results of tools that are errors."""
    blocks = [block for block in _blocks(request) if block["type"] == "tool_result"]
    return [_text(block["content"]) for block in blocks if block.get("is_error")]


def words(request: Request) -> str:
    """Return every text of a request, the system's first."""
    return "\n".join([_text(request.get("system", "")), *map(_shown, _blocks(request))])


def asked(request: Request) -> str:
    """Return the last thing that a request says in a user's name."""
    last = [message for message in request["messages"] if message["role"] == "user"][-1]
    return _text(last["content"])


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
        self.agents: list[Request] = []
        self.compactions: list[Request] = []
        self.script: deque[Turn] = deque()
        self.agent: deque[Turn] = deque()
        self.summary = "<summary>\nThe conversation so far.\n</summary>"
        self.problems: list[str] = []
        # When the last turn of the script was asked for.
        self.asked_at = 0.0
        self._named = itertools.count(1)
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def will(self, *turns: Turn) -> None:
        """Add answers to the script, one turn per request."""
        self.script.extend(turns)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Request) -> Reply:
        """Return the next turn of the script that a request belongs to."""
        said = self._turn(request)
        reply = (
            said if isinstance(said, Reply) else Reply(said if isinstance(said, list) else [said])
        )
        blocks = [self._with_id(block) for block in reply.blocks]
        return Reply(blocks, reply.tokens)

    def _turn(self, request: Request) -> Said:
        if _COMPACTION in asked(request):
            self.compactions.append(request)
            return say(self.summary)
        if not request.get("tools") or _SUGGESTION in asked(request):
            return say("Ok.")
        heard, script = (self.agents, self.agent) if request.agent else (self.requests, self.script)
        heard.append(request)
        self.asked_at = time.time()
        if not script:
            raise IndexError("the script is over")
        turn = script.popleft()
        if isinstance(turn, Refusal):
            raise turn
        return turn(request) if callable(turn) else turn

    def _with_id(self, block: Block) -> Block:
        named = f"toolu_{next(self._named)}"
        return {**block, "id": named} if block["type"] == "tool_use" else block


class _Handler(BaseHTTPRequestHandler):
    model: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = Request(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        request.session = self.headers.get("x-claude-code-session-id", "")
        request.agent = self.headers.get("x-claude-code-agent-id", "")
        path = urlsplit(self.path).path
        if path == "/v1/messages/count_tokens":
            self._json({"input_tokens": 1000})
        elif path == "/v1/messages":
            self._message(request)
        else:
            self._refuse(Refusal(404, "not_found_error", f"there is no {path}"))

    def do_GET(self) -> None:
        self._json({})

    def do_HEAD(self) -> None:
        self._json({})

    def _message(self, request: Request) -> None:
        try:
            reply = self.model.answer(request)
        except Refusal as refusal:
            self._refuse(refusal)
            return
        except Exception as problem:  # noqa: BLE001  whatever a turn raises is the test's to see
            self.model.problems.append(repr(problem))
            self._refuse(Refusal(400, "invalid_request_error", repr(problem)))
            return
        wants_tool = any(block["type"] == "tool_use" for block in reply.blocks)
        usage = {
            "input_tokens": reply.tokens, "output_tokens": 10,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        }  # fmt: skip
        message = {
            "id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant",
            "model": request["model"], "content": reply.blocks, "stop_sequence": None,
            "stop_reason": "tool_use" if wants_tool else "end_turn", "usage": usage,
        }  # fmt: skip
        if not request.get("stream"):
            self._json(message)
            return
        self._send(200, "text/event-stream", b"".join(map(_event, _events(message))))

    def _refuse(self, refusal: Refusal) -> None:
        error = {"type": refusal.kind, "message": refusal.text}
        self._json({"type": "error", "error": error}, refusal.status)

    def _json(self, found: dict, status: int = 200) -> None:
        self._send(status, "application/json", json.dumps(found).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("x-should-retry", "false")
        # The client may be gone by now.
        with contextlib.suppress(ConnectionError):
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def log_message(self, *_about) -> None:
        """Print nothing: pytest shows the failures."""


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
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _streamed(block: Block) -> tuple[Block, Block]:
    if block["type"] == "tool_use":
        text = json.dumps(block["input"])
        return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": text}
    return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
