"""One HTTP POST: bounded in time and size as a whole, without redirects and proxies.

http.client would also load OpenSSL, 5 MB that an idle daemon then keeps for good. Its time limit
restarts with every byte, so that a server that sends slowly could block its caller for hours.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from handoffd.runtime import clock

ANSWER_MAX_BYTES = 1 << 20
_HEADERS_MAX = 100
_RECEIVED_BYTES = 1 << 16
_PORTS = {"http": 80, "https": 443}


class PostError(Exception):
    """There is no answer; the message gives the reason. `final`: do not try again."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class TooLongError(PostError):
    """The answer is longer than our limit."""


class Limit:
    """A time limit for a call as a whole."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = clock.monotonic() + seconds

    def remaining(self) -> float:
        """Return the remaining seconds, more than 0; raise a TimeoutError if none remain."""
        remaining = self._end - clock.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining


class PostTarget(NamedTuple):
    """The parsed address of a request."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def shown(self) -> str:
        """The host and port for headers and messages: never the path or a query."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PostReply(NamedTuple):
    """The answer of a server; the parts of its body are received when they are read."""

    status: int
    headers: Mapping[str, str]
    parts: Iterator[bytes]


def read_url(url: str) -> PostTarget:
    """Parse a URL; refuse one that is not plain http(s)."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise PostError("the URL is not valid; write http://HOST:PORT/mcp/", final=True) from None
    host = parts.hostname or ""
    if parts.scheme not in _PORTS or not host or not host.isascii() or " " in host:
        raise PostError("the URL is not valid; write http://HOST:PORT/mcp/", final=True)
    if "@" in parts.netloc:
        raise PostError("the URL holds a password; put it into the token file", final=True)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=~?')}" if parts.query else ""
    return PostTarget(parts.scheme == "https", host, port or _PORTS[parts.scheme], path + query)


@contextlib.contextmanager
def post(
    target: PostTarget, headers: Mapping[str, str], body: bytes, limit: Limit
) -> Iterator[PostReply]:
    """Send a request, and yield the reply while the connection is open."""
    all_headers = {
        "Host": target.shown,
        "Connection": "close",
        "Accept-Encoding": "identity",
        "Content-Length": str(len(body)),
        **headers,
    }
    lines = [
        f"POST {target.path} HTTP/1.1",
        *(f"{name}: {all_headers[name]}" for name in all_headers),
        "",
        "",
    ]
    with _as_post_error(target, limit), contextlib.ExitStack() as open_ones:
        connection = open_ones.enter_context(_connect(target, limit))
        if target.secure:
            connection = open_ones.enter_context(_secured(connection, target, limit))
        # A server that refuses a request may answer and close before it has read all of it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            _send(connection, "\r\n".join(lines).encode("latin-1") + body, limit)
        yield _receive(_Stream(connection, limit))


@contextlib.contextmanager
def _as_post_error(target: PostTarget, limit: Limit) -> Iterator[None]:
    """Turn errors of the kernel and of an invalid answer into a PostError."""
    try:
        yield
    except TimeoutError:
        raise PostError(f"{target.shown} took longer than {limit.seconds:g} s") from None
    except OSError as problem:
        why = getattr(problem, "verify_message", "") or problem.strerror or "no connection"
        raise PostError(f"{target.shown} cannot be reached: {why}") from None
    except ValueError:
        raise PostError(f"{target.shown} does not answer as a web server does") from None


def _addresses(target: PostTarget, limit: Limit) -> list[Any]:
    """Resolve a host name, in a separate thread: the resolver has no time limit."""
    with contextlib.suppress(socket.gaierror):
        return socket.getaddrinfo(
            target.host, target.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    found: list[Any] = []

    def look_up() -> None:
        with contextlib.suppress(OSError, UnicodeError):
            found.extend(socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM))

    thread = threading.Thread(target=look_up, name="resolver", daemon=True)
    thread.start()
    thread.join(limit.remaining())
    limit.remaining()
    return list(found)


def _connect(target: PostTarget, limit: Limit) -> socket.socket:
    addresses = _addresses(target, limit)
    problem = OSError(0, "there is no such host")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        # If an address drops all packets, some time remains for the next address.
        seconds = limit.remaining() / (len(addresses) - number)
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(seconds)
            connection.connect(address)
        except OSError as this:
            connection.close()
            problem = this
        else:
            return connection
    raise problem


def _secured(connection: socket.socket, target: PostTarget, limit: Limit) -> socket.socket:
    import ssl  # noqa: PLC0415  5 MB, and most servers are on this machine

    connection.settimeout(limit.remaining())
    return ssl.create_default_context().wrap_socket(connection, server_hostname=target.host)


def _send(connection: socket.socket, data: bytes, limit: Limit) -> None:
    rest = memoryview(data)
    while rest:
        connection.settimeout(limit.remaining())
        rest = rest[connection.send(rest) :]


class _Stream:
    """The bytes that a server sends, up to a limit."""

    def __init__(self, connection: socket.socket, limit: Limit) -> None:
        self._connection = connection
        self._limit = limit
        self._held = bytearray()
        self._room = ANSWER_MAX_BYTES

    def _receive(self) -> bool:
        self._connection.settimeout(self._limit.remaining())
        part = self._connection.recv(_RECEIVED_BYTES)
        self._held += part
        self._room -= len(part)
        if self._room < 0:
            raise TooLongError(f"the answer is longer than {ANSWER_MAX_BYTES >> 20} MiB")
        return bool(part)

    def line(self) -> bytes:
        """Return the next line, without its end."""
        self._limit.remaining()
        while (end := self._held.find(b"\n")) < 0:
            if not self._receive():
                raise ConnectionResetError(0, "it hung up in the middle of its answer")
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return line.removesuffix(b"\r")

    def part(self, most: int = _RECEIVED_BYTES) -> bytes:
        """Return some bytes, or none at the end of the stream."""
        if not self._held:
            self._receive()
        part = bytes(self._held[:most])
        del self._held[:most]
        return part

    def exactly(self, count: int) -> Iterator[bytes]:
        while count > 0:
            part = self.part(count)
            if not part:
                raise ConnectionResetError(0, "it hung up in the middle of its answer")
            count -= len(part)
            yield part


def _receive(stream: _Stream) -> PostReply:
    """Read the head of an answer; skip interim answers (1xx)."""
    while True:
        version, code, *_ = [*stream.line().split(None, 2), b"", b""]
        if not version.startswith(b"HTTP/1."):
            raise ValueError
        status, headers = int(code), _headers(stream)
        if status >= 200:  # noqa: PLR2004
            return PostReply(status, headers, _parts(stream, headers))


def _headers(stream: _Stream) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(_HEADERS_MAX):
        line = stream.line()
        if not line:
            return headers
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raise ValueError


def _parts(stream: _Stream, headers: Mapping[str, str]) -> Iterator[bytes]:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        while count := int(stream.line().split(b";")[0], 16):
            yield from stream.exactly(count)
            stream.line()
    elif length := headers.get("content-length"):
        yield from stream.exactly(int(length))
    else:
        while part := stream.part():
            yield part
