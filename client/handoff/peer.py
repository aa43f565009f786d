"""Who answers a relay: the daemon, or a process of the relay's own; and the lines they exchange."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any

    from handoff.children import Child

    Frame = dict[str, Any]

_READ_BYTES = 1 << 16
# A reply may be of any size.
_REPLY_MAX_BYTES = 1 << 62


class Lines:
    """Bytes in, whole lines out; of a line beyond `most` bytes nothing but its end is kept."""

    __slots__ = ("_most", "_parts", "_size")

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that are complete now; None stands for one that was too long."""
        *ends, rest = data.split(b"\n")
        found = []
        for end in ends:
            self._keep(end)
            found.append(self._take())
        self._keep(rest)
        return found

    def finish(self) -> list[bytes | None]:
        """Return a last line that has no end."""
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


class Request:
    """What the client asked, and since when it waits."""

    __slots__ = ("frame", "line", "since")

    def __init__(self, frame: Frame, line: bytes, since: float) -> None:
        self.frame = frame
        self.line = line
        self.since = since


class Peer:
    """Who answers, one request at a time: the daemon, or a child of ours that reads core.db."""

    __slots__ = ("_lines", "asked", "asked_at", "child", "greeted", "outgoing", "stream")

    def __init__(self, stream: _socket.socket, hello: bytes, child: Child | None = None) -> None:
        stream.setblocking(False)
        self.stream = stream
        self.child = child
        self.greeted = not hello
        self.asked: Request | None = None
        self.asked_at = 0.0
        self.outgoing = hello
        self._lines = Lines(_REPLY_MAX_BYTES)
        self.flush()

    def ask(self, request: Request, now: float) -> None:
        self.asked, self.asked_at = request, now
        self.outgoing = request.line
        self.flush()

    def flush(self) -> None:
        try:
            while self.outgoing:
                self.outgoing = self.outgoing[self.stream.send(self.outgoing) :]
        except BlockingIOError:
            return
        except OSError:
            self.outgoing = b""  # it is gone, as reading will show

    def receive(self) -> list[bytes] | None:
        """Return the lines that came, or None at the end."""
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


def is_request(frame: Any) -> bool:
    return (
        isinstance(frame, dict)
        and isinstance(frame.get("method"), str)
        and isinstance(frame.get("id"), (str, int, type(None)))
    )


def is_answer(frame: Any) -> bool:
    return (
        isinstance(frame, dict)
        and "method" not in frame
        and ("result" in frame or "error" in frame)
    )
