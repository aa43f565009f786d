"""A client of MCP servers over HTTP: JSON-RPC by POST, with answers as JSON or as events."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from handoff.common.safe_parsing import load_json
from handoffd.links.http_post import Limit, PostError, PostReply, post, read_url
from handoffd.redaction.redact import redact

PROTOCOL_VERSION = "2025-06-18"
SHOWN_MAX = 300
_PAGES_MAX = 10
_SESSION_ID_MAX = 512
_OK = 200
_BODY_WITH_A_HINT = (400, 404, 422)
_REMEDIES = {
    401: "does not accept our token: put the one it expects into the token file",
    403: "does not let us in: check the token file and what the server allows",
    404: "has no MCP at this path: check the URL, mostly it ends in /mcp/",
    405: "has no MCP at this path: check the URL, mostly it ends in /mcp/",
}


class McpToolError(PostError):
    """The server refused a call; the message is its own, shortened."""


class _SessionNeededError(Exception):
    """The server requires a session (`initialize`) first."""


class McpServer:
    """An MCP server, during one of our calls."""

    def __init__(self, url: str, token: str, limit: Limit) -> None:
        self._target = read_url(url)
        self._token = token
        self._hidden = {token}
        self._session = ""
        self._initialized = False
        self._requests = 0
        self._tools: dict[str, Mapping[str, Any]] | None = None
        self.limit = limit

    def hide(self, secret: str) -> None:
        """Never show a secret in an error, even if the server repeats it."""
        self._hidden.add(secret)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool and return its unwrapped answer."""
        result = self._request("tools/call", {"name": tool, "arguments": arguments})
        if not isinstance(result, dict):
            return result
        if result.get("isError"):
            raise McpToolError(self._shown(" ".join(_texts(result)) or f"{tool} failed"))
        return _unwrapped(result)

    def tools(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the tools of the server, each with the schema of its arguments."""
        if self._tools is None:
            self._tools = dict(self._listed())
        return self._tools

    def _listed(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        parameters: dict[str, Any] = {}
        for _ in range(_PAGES_MAX):
            page = self._request("tools/list", parameters)
            tools = page.get("tools") if isinstance(page, dict) else None
            for tool in tools if isinstance(tools, list) else ():
                if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                    form = tool.get("inputSchema")
                    yield tool["name"], form if isinstance(form, dict) else {}
            if not isinstance(page, dict) or not page.get("nextCursor"):
                return
            parameters = {"cursor": page["nextCursor"]}

    def _request(self, method: str, parameters: Mapping[str, Any]) -> Any:
        try:
            return self._exchange(method, parameters)
        except _SessionNeededError:
            self._initialize()
            return self._exchange(method, parameters)

    def _initialize(self) -> None:
        """Open a session; most servers of this kind need none."""
        self._initialized = True
        self._exchange(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "capabilities": {},
                "clientInfo": {"name": "handoffd", "version": "1"},
            },
        )
        self._notify("notifications/initialized")

    def _notify(self, method: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method}).encode()
        with post(self._target, self._headers(), body, self.limit) as reply:
            if reply.status >= 300:  # noqa: PLR2004
                raise self._refusal(reply)

    def _exchange(self, method: str, parameters: Mapping[str, Any]) -> Any:
        self._requests += 1
        number = str(self._requests)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
        with post(self._target, self._headers(), json.dumps(request).encode(), self.limit) as reply:
            if reply.status != _OK:
                raise self._refusal(reply)
            answer = self._answer(reply, number)
            self._store_session_id(reply)
        if "error" in answer:
            problem = answer["error"]
            message = problem.get("message") if isinstance(problem, dict) else ""
            raise McpToolError(self._shown(str(message or f"{method} failed")))
        return answer["result"]

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "User-Agent": "handoffd",
        }
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._initialized:
            headers["MCP-Protocol-Version"] = PROTOCOL_VERSION
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        return headers

    def _store_session_id(self, reply: PostReply) -> None:
        session_id = reply.headers.get("mcp-session-id", "")
        # Only the answer to `initialize` has to name the session.
        if self._initialized and session_id and session_id.isascii() and session_id.isprintable():
            self._session = session_id[:_SESSION_ID_MAX]

    def _refusal(self, reply: PostReply) -> Exception:
        """Return the error for a status; the body is not quoted, since it may repeat our token."""
        status, shown = reply.status, self._target.shown
        if status in _BODY_WITH_A_HINT and not self._initialized:
            body = b"".join(reply.parts).lower()
            if b"session" in body or b"initializ" in body:
                return _SessionNeededError()
        if 300 <= status < 400:  # noqa: PLR2004
            return PostError(
                f"{shown} points elsewhere, which is not followed: set the URL that it really has",
                final=True,
            )
        if status in _REMEDIES:
            return PostError(f"{shown} {_REMEDIES[status]} ({status})", final=True)
        return PostError(f"{shown} answered with an error ({status})")

    def _answer(self, reply: PostReply, number: str) -> dict[str, Any]:
        """Return the answer to a request; a stream may contain other messages before it."""
        streamed = "text/event-stream" in reply.headers.get("content-type", "").lower()
        for text in _events(reply.parts) if streamed else (b"".join(reply.parts),):
            try:
                answer = load_json(text)
            except ValueError:
                break
            if _answers(answer, number):
                return dict(answer)
        raise PostError(f"{self._target.shown} does not answer as an MCP server does")

    def _shown(self, text: str) -> str:
        """Return a server's text as one line, without control characters and secrets."""
        line = "".join(char if char.isprintable() else " " for char in redact(text)[0])
        line = " ".join(line.split())
        for secret in filter(None, self._hidden):
            line = line.replace(secret, "***")
        return line if len(line) <= SHOWN_MAX else f"{line[: SHOWN_MAX - 1]}…"


def _answers(answer: Any, number: str) -> bool:
    if not isinstance(answer, dict):
        return False
    if "error" in answer:
        return answer.get("id") in (number, None)
    return answer.get("id") == number and "result" in answer


def _events(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the data of each event as soon as it is complete: the stream may stay open."""
    held = bytearray()
    data: list[bytes] = []
    for part in parts:
        held += part
        while (end := held.find(b"\n")) >= 0:
            line = bytes(held[:end]).removesuffix(b"\r")
            del held[: end + 1]
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data)
                data = []
    if data:
        yield b"\n".join(data)


def _texts(result: Mapping[str, Any]) -> list[str]:
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    found = [block.get("text") for block in blocks if isinstance(block, dict)]
    return [text for text in found if isinstance(text, str)]


def _unwrapped(result: Mapping[str, Any]) -> Any:
    """Return the value of a tool: structured, JSON in one text, or a list of one text per item."""
    value = result.get("structuredContent")
    if value is None:
        values = [_value(text) for text in _texts(result)]
        value = values[0] if len(values) == 1 else values
    if isinstance(value, dict) and value.keys() == {"result"}:
        return value["result"]
    return value


def _value(text: str) -> Any:
    try:
        return load_json(text)
    except ValueError:
        return text
