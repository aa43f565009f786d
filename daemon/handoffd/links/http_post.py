"""One HTTP POST: bounded in time and size as a whole, without redirects and proxies.

The time limit of http.client restarts with every byte, so that a server that sends slowly could
block its caller for hours. So a timer shuts the connection down at the end of the limit.
"""

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from handoffd.runtime import clock

ANSWER_MAX_BYTES = 1 << 20
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
    with _as_post_error(target, limit), contextlib.ExitStack() as open_ones:
        connection = open_ones.enter_context(_connect(target, limit))
        if target.secure:
            connection = open_ones.enter_context(_secured(connection, target, limit))
        connection.settimeout(limit.seconds)
        open_ones.enter_context(_shut_at_the_end_of(limit, connection))
        client = http.client.HTTPConnection(target.host, target.port)
        client.sock = connection
        # A server that refuses a request may answer and close before it has read all of it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.request(
                "POST", target.path, body, {"Host": target.shown, "Connection": "close", **headers}
            )
        reply = open_ones.enter_context(client.getresponse())
        named = {name.lower(): value for name, value in reply.getheaders()}
        yield PostReply(reply.status, named, _parts(reply, limit))


@contextlib.contextmanager
def _shut_at_the_end_of(limit: Limit, connection: socket.socket) -> Iterator[None]:
    """Shut a connection down when its time is over: a read that waits then returns."""

    def shut() -> None:
        with contextlib.suppress(OSError):
            # The method of a TLS socket would take its state from the reading thread.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    timer = threading.Timer(limit.remaining(), shut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _parts(reply: http.client.HTTPResponse, limit: Limit) -> Iterator[bytes]:
    room = ANSWER_MAX_BYTES
    while part := reply.read1(_RECEIVED_BYTES):
        limit.remaining()
        room -= len(part)
        if room < 0:
            raise TooLongError(f"the answer is longer than {ANSWER_MAX_BYTES >> 20} MiB")
        yield part
    limit.remaining()
    if reply.length:
        raise http.client.IncompleteRead(b"")


@contextlib.contextmanager
def _as_post_error(target: PostTarget, limit: Limit) -> Iterator[None]:
    """Turn errors of the kernel and of an invalid answer into a PostError."""
    try:
        try:
            yield
        except (OSError, http.client.HTTPException):
            limit.remaining()  # the end of the limit looks like the server's end
            raise
    except TimeoutError:
        raise PostError(f"{target.shown} took longer than {limit.seconds:g} s") from None
    except (http.client.RemoteDisconnected, http.client.IncompleteRead):
        why = "it hung up in the middle of its answer"
        raise PostError(f"{target.shown} cannot be reached: {why}") from None
    except OSError as problem:
        why = getattr(problem, "verify_message", "") or problem.strerror or "no connection"
        raise PostError(f"{target.shown} cannot be reached: {why}") from None
    except (ValueError, http.client.HTTPException):
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
    connection.settimeout(limit.remaining())
    return ssl.create_default_context().wrap_socket(connection, server_hostname=target.host)
