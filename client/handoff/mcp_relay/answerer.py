"""The process that answers a relay, the daemon or the relay's own child, and their lines."""

import select

from handoff.common import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any

    from handoff.mcp_relay.child_processes import Child

    Frame = dict[str, Any]

_READ_BYTES = 1 << 16
# A reply may have any size.
_REPLY_MAX_BYTES = 1 << 62
_CREATE = "create_handoff"
_READ_ONLY = "get_handoff"
_AGAIN = "Try again."


class Lines:
    """Splits bytes into whole lines; a line of more than `most` bytes is dropped up to its end."""

    __slots__ = ("_most", "_parts", "_size")

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that are complete now; None stands for a line that was too long."""
        *ends, rest = data.split(b"\n")
        found = []
        for end in ends:
            self._keep(end)
            found.append(self._take())
        self._keep(rest)
        return found

    def finish(self) -> list[bytes | None]:
        """Return the last line, if it has no newline."""
        return [self._take()] if self._size else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._most:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _take(self) -> bytes | None:
        whole = b"".join(self._parts) if self._size <= self._most else None
        self._parts.clear()
        self._size = 0
        return whole


class McpRequest:
    """A request of the client, the time since when it waits, and the number of answers to come."""

    __slots__ = ("answers_due", "frame", "line", "since", "tool")

    def __init__(self, frame: "Frame", line: bytes, since: float, tool: object = None) -> None:
        self.frame = frame
        self.line = line
        self.since = since
        self.tool = tool
        self.answers_due = 0

    @property
    def warning(self) -> str:
        """The warning in an error: an answerer that fell silent may have done the call.

        A call that the client repeats gets another key, so its entry would be there twice.
        """
        if not self.answers_due or self.tool in (None, _READ_ONLY):
            return ""
        if self.tool == _CREATE:  # its id is unknown to the client
            return "It may have been kept: ask the user before you create it again."
        return "It may have been kept: look with get_handoff before you say it again."

    def answered(self, line: bytes) -> bytes:
        """Count an answer and return it: with the request's own id, an error with its warning."""
        self.answers_due -= 1
        own = self.frame["id"]
        if line.startswith(b'{"jsonrpc":"2.0","id":null,') and own is not None:
            # The request is nested so deeply that the relay could just read it, but not the daemon.
            return error(own, wire.INVALID_REQUEST, "That cannot be read")
        warning = self.warning
        return _with_warning(line, warning) if warning else line


class Answerer:
    """The daemon, or a child of ours that reads core.db; it answers one request at a time."""

    __slots__ = ("_lines", "asked", "asked_at", "child", "greeted", "outgoing", "stream")

    def __init__(
        self, stream: "_socket.socket", hello: bytes, child: "Child | None" = None
    ) -> None:
        stream.setblocking(False)
        self.stream = stream
        self.child = child
        self.greeted = not hello
        self.asked: McpRequest | None = None
        self.asked_at = 0.0
        self.outgoing = hello
        self._lines = Lines(_REPLY_MAX_BYTES)
        self.flush()

    @property
    def handle(self) -> int:
        return self.stream.fileno()

    def ask(self, request: McpRequest, now: float) -> None:
        self.asked, self.asked_at = request, now
        request.answers_due += 1
        self.outgoing = request.line
        self.flush()

    def flush(self) -> None:
        try:
            while self.outgoing:
                self.outgoing = self.outgoing[self.stream.send(self.outgoing) :]
        except BlockingIOError:
            return
        except OSError:
            self.outgoing = b""  # the answerer is gone, as the next read will show

    def receive(self) -> list[bytes] | None:
        """Return the lines that came, or None at the end of the stream."""
        try:
            data = self.stream.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return [line or b"" for line in self._lines.feed(data)] if data else None

    def close(self) -> None:
        self.stream.close()
        if self.child is not None:
            self.child.end()


def ready(events: dict[int, int], seconds: float | None) -> list[int]:
    """Wait for an event as select does; return the handles that have one, of any kind.

    select itself cannot wait for a handle beyond 1023, and the parent process may have left many
    handles open.
    """
    poll = select.poll()
    for handle, wanted in events.items():
        if wanted:
            poll.register(handle, wanted)
    return [handle for handle, _ in poll.poll(seconds and seconds * 1000)]


def error(request_id: "Any", code: int, message: str) -> bytes:
    found = {"code": code, "message": message}
    return wire.encode({"jsonrpc": "2.0", "id": request_id, "error": found}).encode()


def is_request(frame: "Any") -> bool:
    return (
        isinstance(frame, dict)
        and isinstance(frame.get("method"), str)
        and isinstance(frame.get("id"), (str, int, type(None)))
    )


def is_answer(frame: "Any") -> bool:
    return (
        isinstance(frame, dict)
        and "method" not in frame
        and ("result" in frame or "error" in frame)
    )


def decoded(line: bytes) -> "Frame":
    try:
        found = wire.decode_strictly(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _with_warning(line: bytes, warning: str) -> bytes:
    reply = decoded(line)
    problem, result = reply.get("error"), reply.get("result") or {}
    if problem:
        problem["message"] = f"{problem.get('message')}\n{warning}"
    elif result.get("isError"):
        for block in result.get("content", ()):
            block["text"] = f"{block['text'].removesuffix(_AGAIN).rstrip()}\n{warning}"
    else:
        return line
    return wire.encode(reply).encode()
