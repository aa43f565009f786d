"""Serve the socket: one JSON object per line, one connection per client, only for our own user."""

import asyncio
import json
import math
import os
import resource
import select
import socket
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from handoff import __version__
from handoff.common import wire
from handoff.common.errors import EXIT_FAILED, EXIT_USAGE, EXIT_VERSIONS_DIFFER, HandoffError
from handoff.common.plain_text import plain, plain_values
from handoff.common.safe_parsing import load_json
from handoffd.api import mcp_initialize, registry
from handoffd.api.caller import Caller
from handoffd.api.health_warnings import warnings
from handoffd.api.method import MethodReply, Send, explain, render_reply
from handoffd.api.peer_credentials import is_allowed
from handoffd.api.socket_place import is_served, usable_path
from handoffd.api.terminal_text import Style
from handoffd.api.thread_calls import answer_mcp
from handoffd.context import Context
from handoffd.runtime import log

CONNECTIONS_MAX, CONNECTIONS_LEAST = 128, 4
# Descriptors that are not for clients: for databases, watches, files, and the pipes of git.
DESCRIPTORS_KEPT = 40
# Connections accepted at a time, so that refused clients leave before more come in.
ACCEPTED_MAX = 8
# A request must be complete within this time: the first one since the connection, others since
# their first byte, because a relay may send no request for hours. A client has the same time to
# read an answer.
FRAME_SECONDS = 5.0
SEND_BUFFER_MAX_BYTES = 4 << 20
BACKLOG = 128
BUSY_HINT = "Try again; if it stays so, end what keeps them open, or: handoff restart"
# Methods that a client of another version must be able to call, to replace this daemon.
ANY_PROTOCOL = ("status", "down")


@dataclass(slots=True)
class SocketServer:
    """Listens at the path where clients connect; answers the requests of a client in order."""

    context: Context
    _server: asyncio.Server | None = None
    _own: tuple[str, int] | None = None
    # The connection of each client; None for a refused client.
    _connections: dict[asyncio.Task[None], "Connection | None"] = field(default_factory=dict)

    async def start(self, handed: socket.socket | None) -> None:
        listener = handed or self._bind()
        # Since Python 3.13 asyncio would delete the path at the end, even one that systemd made.
        keep: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: asyncio.StreamReaderProtocol(Reader(wire.REQUEST_MAX_BYTES), self._accept),
            sock=listener,
            backlog=ACCEPTED_MAX,
            **keep,
        )
        listener.listen(BACKLOG)
        self.context.daemon.connections_max = room_for_clients()
        if handed is not None:
            self.context.daemon.socket_path = str(handed.getsockname())

    def _bind(self) -> socket.socket:
        path = usable_path()
        # We hold the lock, so a socket at this path was left by a daemon that is gone.
        if os.path.lexists(path):
            if not stat.S_ISSOCK(os.lstat(path).st_mode) or is_served(path):
                raise HandoffError(
                    f"{path} is in use by something else.",
                    "Remove it, or set HANDOFFD_SOCKET to another path.",
                )
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        previous = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(previous)
        self._own = (path, os.lstat(path).st_ino)
        self.context.daemon.socket_path = path
        return listener

    async def keep_bound(self) -> None:
        """Bind again if the socket was deleted, and protect it from cleaners of old files."""
        if self._own is None:
            return
        path, inode = self._own
        try:
            if os.lstat(path).st_ino == inode:
                os.utime(path)
                return
        except FileNotFoundError:
            pass
        if inode:
            log.get().warning("socket_lost", path=path)
            await self.stop_listening()
            # Without its listener the inode number is free, and may be given to another socket.
            self._own = (path, 0)
        try:
            await self.start(None)
        except (HandoffError, OSError) as problem:
            # Checkpoints and handoffs are still written, and connected relays are still answered.
            log.get().warning("socket_taken", why=str(problem).splitlines()[0])

    async def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def stop(self) -> None:
        if self._own is not None:
            self._unlink_own(*self._own)
        await self.stop_listening()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _unlink_own(self, path: str, inode: int) -> None:
        """Remove our own socket, not that of a successor."""
        try:
            if os.lstat(path).st_ino == inode:
                os.unlink(path)
        except FileNotFoundError:
            return

    async def _accept(self, reader: Any, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._connections[task] = None
        try:
            if not is_allowed(writer.get_extra_info("socket")):
                self.context.daemon.refused_peers += 1
            elif len(self._connections) <= self.context.daemon.connections_max or self._make_room():
                connection = self._connections[task] = Connection(self.context, reader, writer)
                await connection.serve()
            else:
                writer.write(encode(self._refusal()))
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self._connections.pop(task, None)
            writer.close()
            if writer.transport.get_write_buffer_size():  # a client that does not read must go, too
                later = asyncio.get_running_loop().call_later
                later(FRAME_SECONDS, writer.transport.abort)

    def _make_room(self) -> bool:
        """Abort the client that has been silent longest; return False if all are busy or watch."""
        known = [(connection, task) for task, connection in self._connections.items() if connection]
        for connection, task in sorted(known, key=lambda one: one[0].silent_since):
            if connection.is_silent:
                del self._connections[task]  # its place is free at once
                connection.writer.transport.abort()
                return True
        return False

    def _refusal(self) -> dict[str, Any]:
        room = self.context.daemon.connections_max
        text = f"{room} connections are open, and handoffd takes no more"
        return error_frame(None, wire.BUSY, text, {"hint": BUSY_HINT})


def room_for_clients() -> int:
    """Return the maximum number of connections under our limit of descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return min(max(soft - DESCRIPTORS_KEPT, CONNECTIONS_LEAST), CONNECTIONS_MAX)


class Reader(asyncio.StreamReader):
    """A reader that knows whether bytes arrived since the last wait for them."""

    fed = False

    def feed_data(self, data: Any) -> None:
        self.fed = True
        super().feed_data(data)


@dataclass(slots=True)
class Connection:
    context: Context
    reader: Reader
    writer: asyncio.StreamWriter
    _watchers: list[Callable[[dict[str, Any]], None]] = field(default_factory=list)
    # The caller of a relay, whose connection speaks MCP and nothing else.
    _caller: Caller | None = None
    # The start of its silence by the loop's clock; infinite while it is busy or watches.
    silent_since: float = math.inf

    @property
    def is_silent(self) -> bool:
        """Return True if the client has no open request, neither read nor still unread."""
        if self.silent_since == math.inf or self.writer.transport.is_closing():
            return False
        unread = select.poll()
        unread.register(self.writer.get_extra_info("socket"), select.POLLIN)
        return not (unread.poll(0) or self.reader.fed)

    async def serve(self) -> None:
        try:
            line = await self._line(FRAME_SECONDS)
            while line:
                await self._answer(line)
                await asyncio.sleep(0)  # a client that asks without pause must not block others
                line = await self._line()
        finally:
            for watcher in self._watchers:
                self.context.watchers.remove(watcher)

    async def _line(self, patience: float | None = None) -> bytes:
        self.silent_since = math.inf if self._watchers else asyncio.get_running_loop().time()
        try:
            return await self._next_line(patience)
        finally:
            self.silent_since = math.inf

    async def _next_line(self, patience: float | None) -> bytes:
        try:
            async with asyncio.timeout(patience) as limit:
                line = await self.reader.read(1)
                self.reader.fed = False
                if line and patience is None:
                    limit.reschedule(asyncio.get_running_loop().time() + FRAME_SECONDS)
                if line not in (b"", b"\n"):
                    line += await self.reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError:
            return await self._refuse_long()
        # The reader's own limit does not count the first byte.
        return line if len(line) <= wire.REQUEST_MAX_BYTES + 1 else await self._refuse_long()

    async def _refuse_long(self) -> bytes:
        text = f"A request may have {wire.REQUEST_MAX_BYTES} bytes at most"
        self._send(error_frame(None, wire.INVALID_REQUEST, text))
        await self.writer.drain()
        return b""

    async def _answer(self, line: bytes) -> None:
        frame = await answer(self.context, line, self._send, self._caller)
        if frame is None:
            return
        self._send(frame[0])
        reply = frame[1] or MethodReply(None)
        self._caller = reply.caller or self._caller
        # Do this before any await: a change right after the answer must be reported, too.
        if reply.watcher is not None:
            self._watchers.append(reply.watcher)
            self.context.watchers.append(reply.watcher)
        try:
            async with asyncio.timeout(FRAME_SECONDS):
                await self.writer.drain()
        finally:  # also for a hook whose client did not wait for the answer
            if reply.after is not None:
                reply.after(not (self.reader.at_eof() or self.writer.is_closing()))

    def _send(self, frame: dict[str, Any]) -> None:
        transport = self.writer.transport
        if transport.get_write_buffer_size() > SEND_BUFFER_MAX_BYTES:
            transport.abort()  # a watcher that does not read must not fill our memory
            return
        self.writer.write(encode(frame))


def encode(frame: dict[str, Any]) -> bytes:
    text = json.dumps(frame, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


Answer = tuple[dict[str, Any], MethodReply | None]


async def answer(context: Context, line: bytes, send: Send, caller: Caller | None) -> Answer | None:
    """Return the answer to one line; None for a notification."""
    try:
        request: Any = load_json(line)
    except ValueError:
        return error_frame(None, wire.PARSE_ERROR, "That is not JSON"), None
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        return error_frame(None, wire.INVALID_REQUEST, "That is not a JSON-RPC request"), None
    request_id = request.get("id")
    if not isinstance(request_id, (str, int, type(None))):
        return error_frame(None, wire.INVALID_REQUEST, "The id must be a text or a number"), None
    frame: Answer
    try:
        if caller is not None or request["method"] in mcp_initialize.METHODS:
            frame = await answer_mcp(context, request, caller or Caller()), None
        else:
            frame = await dispatch(context, request, send)
    except HandoffError as problem:
        data = {"hint": problem.hint, "exit": problem.exit_code}
        frame = error_frame(request_id, wire.COMMAND_FAILED, problem.title, data), None
    except Exception as problem:  # noqa: BLE001  one bad request must not end the daemon
        log.failed("request_failed", problem, method=request["method"])
        text = f"handoffd failed to answer ({type(problem).__name__}); see `handoff logs`"
        frame = error_frame(request_id, wire.INTERNAL_ERROR, text), None
    return frame if "id" in request else None


async def dispatch(context: Context, request: dict[str, Any], send: Send) -> Answer:
    request_id = request.get("id")
    if request["method"] not in registry.NAMES:
        known = ", ".join(registry.NAMES)
        text = f"There is no method {request['method'][:80]!r}; methods: {known}"
        return error_frame(request_id, wire.METHOD_NOT_FOUND, text), None
    method = registry.method(request["method"])
    given = request.get("params", {})
    if not isinstance(given, dict):
        return error_frame(request_id, wire.INVALID_PARAMS, "params must be an object"), None
    given = dict(given)
    protocol = given.pop("protocol", wire.PROTOCOL)
    if protocol != wire.PROTOCOL and method.name not in ANY_PROTOCOL:
        return error_frame(request_id, wire.INVALID_REQUEST, *_versions_differ(protocol)), None
    try:
        style = Style.model_validate(given.pop("render")) if "render" in given else None
        params = method.params.model_validate(_without_unknown_cwd(method.params, given))
    except ValidationError as problem:
        text = explain(method.name, problem)
        return error_frame(request_id, wire.INVALID_PARAMS, text, {"exit": EXIT_USAGE}), None
    reply = await method.handle(context, params, send)
    found = [
        warning.as_data()
        for warning in warnings(context)
        if reply.every_warning or warning.project in ("", reply.project)
    ]
    result = {"protocol": wire.PROTOCOL, "version": __version__, "data": reply.data}
    result |= {"warnings": found, "exit": reply.exit}
    if style is not None:
        shown_warnings = [] if reply.silent and not style.as_json else found
        result["text"] = render_reply(method, reply.data, style, shown_warnings)
        if reply.printed and not style.as_json:
            reply.printed()
    return {"jsonrpc": "2.0", "id": request_id, "result": result}, reply


def _without_unknown_cwd(model: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters without `cwd` if the method has none: any caller may send its own."""
    return given if "cwd" in model.model_fields else {k: v for k, v in given.items() if k != "cwd"}


def _versions_differ(protocol: Any) -> tuple[str, dict[str, Any]]:
    text = (
        f"the client speaks protocol {str(protocol)[:20]}, this daemon is {__version__} and speaks "
        f"{wire.PROTOCOL}: run `handoff restart`"
    )
    return text, {"exit": EXIT_VERSIONS_DIFFER}


def error_frame(
    request_id: Any, code: int, message: str, data: dict[str, Any] | None = None
) -> dict[str, Any]:
    details = {"protocol": wire.PROTOCOL, "version": __version__, "exit": EXIT_FAILED}
    harmless = plain_values(data or {}, ("hint",))
    error = {"code": code, "message": plain(message), "data": {**details, **harmless}}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}
