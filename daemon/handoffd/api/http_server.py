"""MCP over HTTP, by the official SDK: streamable, without sessions, one answer per request.

The SDK takes almost 30 MB of memory, so it is imported only when HTTP is switched on.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import Any

import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, PaginatedRequestParams
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from handoff import __version__
from handoff.common import wire
from handoffd.api import mcp, mcp_initialize
from handoffd.api.caller import Caller
from handoffd.api.http_guard import Answer, Guard, HttpRequest, make_guard
from handoffd.api.thread_calls import act
from handoffd.config import HttpConfig
from handoffd.context import Context
from handoffd.runtime import log
from handoffd.threads import http_token
from handoffd.threads.http_listener import BACKLOG, Tls

# One connection more replaces the one that has been silent longest. While all of these are busy,
# further requests are refused for now; connections beyond twice as many are aborted.
BUSY_CONNECTIONS = 64
# Connections accepted at a time, so that a request that came with its connection is read before
# many more come in.
ACCEPTED_MAX = 8
# From the first byte of a head, or the connection's start, to the end of the head.
HEAD_SECONDS = 5.0
# From the end of a head to the end of the answer.
REQUEST_SECONDS = 30.0
HANDSHAKE_SECONDS = 5.0
# Longer than clients keep an unused connection, so that the client closes it before we do.
KEEP_ALIVE_SECONDS = 15
CLOSE_SECONDS = 0.5

Scope = dict[str, Any]


@asynccontextmanager
async def opened(
    context: Context, settings: HttpConfig, listener: socket.socket, tls: Tls
) -> AsyncIterator[None]:
    """Answer requests on a listening socket, on the daemon's own event loop."""
    manager = StreamableHTTPSessionManager(
        _server(context),
        json_response=True,
        stateless=True,
        max_request_body_size=wire.REQUEST_MAX_BYTES,
    )
    read_token = partial(http_token.read, context.daemon.http_listener.state_dir)
    oauth = _make_oauth(context, settings)
    access = None if oauth is None else oauth.access
    guard = make_guard(settings, tls=tls is not None, read_token=read_token, oauth=access)
    config = _config(_App(guard, manager, oauth))
    state = ServerState()
    async with manager.run():
        server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(config, state, {}),
            sock=listener,
            ssl=tls,
            backlog=ACCEPTED_MAX,
            ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
        )
        listener.listen(BACKLOG)
        try:
            yield
        finally:
            await _close(server, state)


def _make_oauth(context: Context, settings: HttpConfig) -> Any:
    """Return the application of OAuth if the public address is known, which its documents name."""
    if not settings.public_url:
        return None
    from handoffd.api.http_oauth import OAuthApp  # noqa: PLC0415  it takes memory

    return OAuthApp(context.core, settings.public_url)


def _config(app: "_App") -> uvicorn.Config:
    """Use uvicorn's HTTP without its server, which wakes ten times per second and takes signals."""
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=_Connection,
        ws="none",
        lifespan="off",
        workers=1,
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=BUSY_CONNECTIONS + 1,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    config.load()
    return config


async def _close(server: asyncio.Server, state: ServerState) -> None:
    """Accept no more connections, let running requests end, then cut off the rest."""
    server.close()
    for connection in list(state.connections):
        connection.shutdown()
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=CLOSE_SECONDS)
    for task in list(state.tasks):
        task.cancel()
    for connection in list(state.connections):
        connection.transport.abort()


class _Connection(H11Protocol):
    """A connection that is aborted when it is late, or silent while another needs its place."""

    _deadline: asyncio.TimerHandle | None = None
    # The start of its silence: the connection's start, or its last answer.
    _silent_since = 0.0
    _in_head = True

    @property
    def is_at_work(self) -> bool:
        return not getattr(self.cycle, "response_complete", True)  # None before the first request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._silent_since = self.loop.time()
        self._end_in(HEAD_SECONDS)
        if len(self.connections) > BUSY_CONNECTIONS:
            self._make_room()
        if len(self.connections) > 2 * BUSY_CONNECTIONS:
            transport.abort()

    def _make_room(self) -> None:
        """Abort the connection that has been silent longest; a running request is not cut off."""
        others = [other for other in self.connections if isinstance(other, _Connection)]
        silent = [other for other in others if other is not self and not other.is_at_work]
        if silent:
            longest = min(silent, key=lambda other: other._silent_since)  # noqa: SLF001  same class
            longest.transport.abort()
            self.connections.discard(longest)  # at once, not only in connection_lost()

    def data_received(self, data: bytes) -> None:
        was_at_work = self.is_at_work
        super().data_received(data)
        if self.is_at_work and not was_at_work:
            self._in_head = False
            self._end_in(REQUEST_SECONDS)
        elif not self.is_at_work and not self._in_head:
            self._in_head = True
            self._end_in(HEAD_SECONDS)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._silent_since = self.loop.time()
        # A request that was sent along with the last one may be running already.
        self._in_head = False
        self._end_in(REQUEST_SECONDS if self.is_at_work else KEEP_ALIVE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def _end_in(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)


class _App:
    """The ASGI application: asks the guard first, then the SDK."""

    def __init__(self, guard: Guard, manager: StreamableHTTPSessionManager, oauth: Any) -> None:
        self._guard = guard
        self._manager = manager
        self._oauth = oauth

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        async def send_with_date(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                added = _added_headers(message["status"])
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        request = HttpRequest(scope["method"], scope["path"], tuple(scope["headers"]))
        answer = self._guard.answer(request)
        if answer is not None:
            await _send(answer, send_with_date)
            return
        if self._oauth is not None and self._oauth.access.covers(request.path):
            await self._oauth(scope, receive, send_with_date)
            return
        if request.header(b"accept") is None:
            # A client without this header accepts anything; the SDK would refuse it.
            scope = {**scope, "headers": [*scope["headers"], (b"accept", b"*/*")]}
        await self._manager.handle_request(scope, receive, send_with_date)


def _added_headers(status: int) -> list[tuple[bytes, bytes]]:
    date = (b"date", formatdate(usegmt=True).encode())
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return [date, (b"connection", b"close")]  # the rest of the request is not read
    return [date]


async def _send(answer: Answer, send: Any) -> None:
    length = str(len(answer.body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    start = {"type": "http.response.start", "status": int(answer.status)}
    await send({**start, "headers": [*headers, *answer.headers]})
    await send({"type": "http.response.body", "body": answer.body})


def _server(context: Context) -> Server[Any]:
    """Return the SDK's server with our one definition of the tools."""
    tools = mcp_initialize.tool_list()
    schemas = {tool["name"]: tool["inputSchema"] for tool in tools}
    hint = CacheHint(ttl_ms=mcp_initialize.TOOLS_MAX_AGE_MS)

    async def list_tools(request: Any, _params: Any) -> dict[str, Any]:
        return _for_version(request, {"tools": tools})

    async def call_tool(request: Any, _params: Any) -> dict[str, Any]:
        # The SDK runs a coroutine in the loop's own thread, as the database requires.
        return _for_version(request, await _call_tool(context, request.params or {}))

    server: Server[Any] = Server(
        "handoffd",
        title="handoffd",
        version=__version__,
        instructions=mcp_initialize.INSTRUCTIONS,
        cache_hints={"tools/list": hint, "server/discover": hint},
        get_tool_input_schema=schemas.get,
    )
    server.middleware.clear()  # it would report every call to an installed tracer
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    return server


def _for_version(request: Any, found: dict[str, Any]) -> dict[str, Any]:
    modern = request.protocol_version in mcp_initialize.MODERN_VERSIONS
    return mcp_initialize.as_modern_result(found) if modern else found


async def _call_tool(context: Context, params: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool in the same way as a request over the socket."""
    given = {name: params[name] for name in ("name", "arguments") if name in params}
    request = {"method": "tools/call", "params": given}
    try:
        answer_by = partial(mcp.answer, request, Caller(), used=lambda _used: None)
        reply = await act(context, answer_by, closing=mcp.closes(request))
    except Exception as problem:  # noqa: BLE001  one bad request must not end the daemon
        log.failed("request_failed", problem, method="tools/call")
        text = f"handoffd failed to answer ({type(problem).__name__}); see `handoff logs`"
        raise MCPError(wire.INTERNAL_ERROR, text) from None
    if "error" in reply:
        raise MCPError(reply["error"]["code"], reply["error"]["message"])
    result: dict[str, Any] = reply["result"]
    return result
