"""The HTTP server in this process: its limits, its log and its imports."""

import asyncio
import contextlib
import datetime as dt
import json
import socket
import subprocess
import sys
from email.utils import parsedate_to_datetime
from types import SimpleNamespace

import pytest

pytest.importorskip("mcp", reason="the package mcp is missing: pip install 'handoffd[http]'")

from handoffd.api import http_server
from handoffd.config import HttpConfig
from handoffd.threads import http_token
from handoffd.threads.http_listener import bind
from http_clients import free_port

HEAD = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"


@contextlib.asynccontextmanager
async def serving(directory):
    """Serve HTTP without a daemon, and yield the port and the token."""
    settings = HttpConfig(enabled=True, port=free_port())
    context = SimpleNamespace(
        daemon=SimpleNamespace(http_listener=SimpleNamespace(state_dir=str(directory)))
    )
    token = http_token.ensure(str(directory))
    async with http_server.opened(context, settings, bind(settings), None):
        yield settings.port, token


async def answer_to(port: int, data: bytes) -> bytes:
    """Send bytes, and return all bytes until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await reader.read()
    finally:
        writer.close()


def head(port: int, token: str, *lines: str) -> bytes:
    text = HEAD.format(port=port) + f"Authorization: Bearer {token}\r\n"
    return (text + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()


@pytest.mark.parametrize(
    "begun",
    [b"", b"POST /mcp HT", b"whole head", b"after an answer"],
    ids=["silent", "head", "body", "next"],
)
def test_slow_clients_are_cut_off(tmp_path, monkeypatch, begun):
    """A connection whose next request is not complete in time is closed, at every stage."""
    monkeypatch.setattr(
        http_server, "REQUEST_SECONDS" if begun == b"whole head" else "HEAD_SECONDS", 0.3
    )

    async def look() -> bytes:
        async with serving(tmp_path) as (port, token):
            data = begun
            if begun == b"whole head":
                data = head(port, token, "Content-Length: 10") + b"{"
            if begun == b"after an answer":
                ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
                data = head(port, token, f"Content-Length: {len(ping)}") + ping + b"POST"
            with contextlib.suppress(ConnectionResetError):
                return await asyncio.wait_for(answer_to(port, data), 20)
            return b""

    answer = asyncio.run(look())

    assert (begun == b"after an answer") == (b"200 OK" in answer)


def test_silent_connections_make_way(tmp_path, monkeypatch):
    """A connection over the limit closes the longest silent one, and is answered."""
    monkeypatch.setattr(http_server, "BUSY_CONNECTIONS", 4)

    async def look() -> tuple[bytes, list[bytes]]:
        async with serving(tmp_path) as (port, token), contextlib.AsyncExitStack() as stack:
            held = []
            for number in range(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
                writer.write((b"", b"POST /mcp HT")[number % 2])
                held.append(reader)
            answer = await answer_to(
                port, head(port, token, "Content-Length: 0", "Connection: close")
            )
            return answer, [await asyncio.wait_for(_rest(reader), 20) for reader in held[:16]]

    answer, ended = asyncio.run(look())

    assert b"503" not in answer.partition(b"\r\n")[0]
    assert [b""] * 16 == ended


def test_too_many_requests_at_work(tmp_path, monkeypatch):
    """While all connections are busy a request gets 503, and beyond twice as many it is cut off."""
    monkeypatch.setattr(http_server, "BUSY_CONNECTIONS", 4)
    working: asyncio.Queue[http_server._Connection] = asyncio.Queue()

    class Connection(http_server._Connection):
        def data_received(self, data):
            super().data_received(data)
            if self.is_at_work:
                working.put_nowait(self)

    monkeypatch.setattr(http_server, "_Connection", Connection)

    async def look() -> tuple[list[bool], bytes, bytes]:
        async with serving(tmp_path) as (port, token), contextlib.AsyncExitStack() as stack:
            held = []
            for number in range(9):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
                if number < 4:  # the rest of its body never comes
                    writer.write(head(port, token, "Content-Length: 10") + b"{")
                    await asyncio.wait_for(working.get(), 20)
                held.append((reader, writer))
            asked = head(port, token, "Content-Length: 0", "Connection: close")
            held[-1][1].write(asked)
            busy = await _rest(held[-1][0])
            return [reader.at_eof() for reader, _ in held[:4]], busy, await _rest(held[4][0])

    ended, busy, silent = asyncio.run(look())

    assert not any(ended)
    assert busy.startswith(b"HTTP/1.1 503")
    assert b"" == silent


def test_every_answer_has_the_date(tmp_path):
    """The Date header is the time of the answer, for our answers and for the SDK's."""

    async def look() -> list[bytes]:
        async with serving(tmp_path) as (port, token):
            right = head(port, token, "Content-Length: 2", "Connection: close") + b"{}"
            wrong = head(port, "no", "Content-Length: 2") + b"{}"
            return [await answer_to(port, data) for data in (right, wrong)]

    begun = dt.datetime.now(dt.UTC).replace(microsecond=0)
    answers = asyncio.run(look())
    ended = dt.datetime.now(dt.UTC)
    for answer in answers:
        lines = answer.decode().lower().split("\r\n")
        (date,) = [line[6:] for line in lines if line.startswith("date: ")]

        assert begun <= parsedate_to_datetime(date) <= ended


def test_answers_are_not_delayed(tmp_path, monkeypatch):
    """Both parts of an answer are sent at once: TCP_NODELAY is set."""
    seen = []

    class Connection(http_server._Connection):
        def connection_made(self, transport):
            super().connection_made(transport)
            accepted = transport.get_extra_info("socket")
            seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(http_server, "_Connection", Connection)

    async def look() -> None:
        async with serving(tmp_path) as (port, _):
            await answer_to(port, b"x\r\n\r\n")

    asyncio.run(look())

    assert [1] == seen


def test_closing_waits_for_nobody(tmp_path):
    """Half a request, a silent connection and an answered one do not delay closing."""

    async def look() -> list[bytes]:
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        async with contextlib.AsyncExitStack() as stack:
            readers = []
            async with serving(tmp_path) as (port, token):
                for data in (
                    b"",
                    head(port, token, "Content-Length: 10") + b"{",
                    head(port, token, f"Content-Length: {len(ping)}") + ping,
                ):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    stack.callback(writer.close)
                    writer.write(data)
                    readers.append(reader)
                await readers[-1].readuntil(b"\r\n\r\n")
            return [await asyncio.wait_for(_rest(reader), 20) for reader in readers]

    assert 3 == len(asyncio.run(look()))


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


def run(code: str) -> list[str]:
    """Run Python in a new process, because modules cannot be unloaded from this one."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.split()


def test_loading_installs_no_log_handler():
    """The SDK and uvicorn leave the loggers unchanged: our handler is the only one."""
    code = """
import logging
logging.basicConfig(level=logging.WARNING)
before = list(logging.getLogger().handlers)
from handoffd.api import http_server
print(before == logging.getLogger().handlers, logging.getLogger().level)
print(*[logging.getLogger(name).handlers for name in ("uvicorn", "uvicorn.error", "mcp")])
"""

    assert ["True", "30", "[]", "[]", "[]"] == run(code)


def test_nothing_of_it_is_loaded_by_the_daemon_itself():
    """Importing the whole daemon loads neither the SDK nor uvicorn."""
    code = """
import sys, handoffd.app
from handoffd.api import registry
for name in registry.NAMES:
    registry.method(name)
print(sorted({"mcp", "mcp_types", "uvicorn", "starlette", "anyio"} & set(sys.modules)))
"""

    assert ["[]"] == run(code)
