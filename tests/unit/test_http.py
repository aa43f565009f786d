"""The HTTP door in this process: its limits, its log, and what is loaded for it."""

import asyncio
import contextlib
import datetime as dt
import json
import logging
import socket
import subprocess
import sys
from email.utils import parsedate_to_datetime
from types import SimpleNamespace

import pytest

pytest.importorskip("mcp")

from handoffd import token_file
from handoffd.api import http
from handoffd.config import Http
from handoffd.door import bind
from http_door import free_port

HEAD = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"


@contextlib.asynccontextmanager
async def door(directory):
    """An open door without a daemon behind it; yields the port and the token."""
    settings = Http(enabled=True, port=free_port())
    parts = SimpleNamespace(door=SimpleNamespace(state_dir=str(directory)))
    token = token_file.ensure(str(directory))
    async with http.opened(parts, settings, bind(settings), None):
        yield settings.port, token


async def told(port: int, data: bytes) -> bytes:
    """Send bytes, and return all that comes until the other side closes."""
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
    """A connection whose next request is not there in time ends, wherever it stopped."""
    monkeypatch.setattr(http, "REQUEST_SECONDS", 0.3)

    async def look() -> bytes:
        async with door(tmp_path) as (port, token):
            data = begun
            if begun == b"whole head":
                data = head(port, token, "Content-Length: 10") + b"{"
            if begun == b"after an answer":
                ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
                data = head(port, token, f"Content-Length: {len(ping)}") + ping + b"POST"
            with contextlib.suppress(ConnectionResetError):
                return await asyncio.wait_for(told(port, data), 20)
            return b""

    answer = asyncio.run(look())

    assert (begun == b"after an answer") == (b"200 OK" in answer)


def test_too_many_connections(tmp_path, monkeypatch):
    """Beyond a number of connections requests are told so, and beyond twice that, cut off."""
    monkeypatch.setattr(http, "BUSY_CONNECTIONS", 4)

    async def look() -> tuple[bytes, list[bool], bytes]:
        async with door(tmp_path) as (port, token), contextlib.AsyncExitStack() as stack:
            asked = head(port, token, "Content-Length: 0", "Connection: close")
            before = await told(port, asked)
            held = []
            for _ in range(9):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
                held.append((reader, writer))
            held[-2][1].write(asked)
            busy = await held[-2][0].read()
            with contextlib.suppress(ConnectionResetError):
                assert b"" == await held[-1][0].read()
            return before, [reader.at_eof() for reader, _ in held[:7]], busy

    before, ended, busy = asyncio.run(look())

    assert b"503" not in before
    assert busy.startswith(b"HTTP/1.1 503")
    assert not any(ended)


def test_every_answer_has_the_date(tmp_path):
    """The Date is that of the answer, for what we answer and for what the SDK does."""

    async def look() -> list[bytes]:
        async with door(tmp_path) as (port, token):
            right = head(port, token, "Content-Length: 2", "Connection: close") + b"{}"
            wrong = head(port, "no", "Content-Length: 2") + b"{}"
            return [await told(port, data) for data in (right, wrong)]

    begun = dt.datetime.now(dt.UTC).replace(microsecond=0)
    answers = asyncio.run(look())
    ended = dt.datetime.now(dt.UTC)
    for answer in answers:
        lines = answer.decode().lower().split("\r\n")
        (date,) = [line[6:] for line in lines if line.startswith("date: ")]

        assert begun <= parsedate_to_datetime(date) <= ended


def test_answers_are_not_delayed(tmp_path, monkeypatch):
    """Both halves of an answer are sent at once: the kernel does not wait for the first's receipt."""
    seen = []

    class Connection(http._Connection):
        def connection_made(self, transport):
            super().connection_made(transport)
            accepted = transport.get_extra_info("socket")
            seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(http, "_Connection", Connection)

    async def look() -> None:
        async with door(tmp_path) as (port, _):
            await told(port, b"x\r\n\r\n")

    asyncio.run(look())

    assert [1] == seen


def test_closing_waits_for_nobody(tmp_path):
    """Half a request, a silent connection and an answered one do not keep the door open."""

    async def look() -> list[bytes]:
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        async with contextlib.AsyncExitStack() as stack:
            readers = []
            async with door(tmp_path) as (port, token):
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


def test_libraries_log_through_us(tmp_path, monkeypatch):
    """What a library says is logged as a place, without its words; below an error, not at all."""
    said = []
    monkeypatch.setattr(
        http.log, "get", lambda: SimpleNamespace(error=lambda event, **more: said.append(more))
    )

    async def look() -> None:
        async with door(tmp_path):
            for name in ("uvicorn.error", "mcp.server.runner"):
                logging.getLogger(name).warning("the token is %s", "SECRET")
                try:
                    int("SECRET")
                except ValueError:
                    logging.getLogger(name).exception("a thread said SECRET")

    asyncio.run(look())

    assert ["uvicorn.error", "mcp.server.runner"] == [more["at"].split(":")[0] for more in said]
    assert ["ValueError at test_http.py"] * 2 == [more["error"].rpartition(":")[0] for more in said]
    assert "SECRET" not in str(said)


def run(code: str) -> list[str]:
    """Run Python elsewhere: what this process loaded cannot be unloaded."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.split()


def test_loading_installs_no_log_handler():
    """The SDK and uvicorn leave the root logger as it was."""
    code = """
import logging
from handoffd.api import http_loading
logging.basicConfig(level=logging.WARNING)
before = list(logging.getLogger().handlers)
http_loading.load()._log_through_us()
print(before == logging.getLogger().handlers, logging.getLogger().level)
"""

    assert ["True", "30"] == run(code)


def test_loading_leaves_out_what_is_not_used():
    """The door loads neither the SDK's client and framework nor what they need."""
    code = """
import sys
from handoffd.api import http_loading
http_loading.load()
unwanted = ("mcp.client", "mcp.server.mcpserver", "httpx2", "cryptography", "jwt")
print("mcp.server.lowlevel.server" in sys.modules, *[n for n in unwanted if n in sys.modules])
"""

    assert ["True"] == run(code)


def test_an_sdk_of_another_shape_is_taken_whole():
    """If it cannot be had in part, the SDK is imported as usual."""
    code = """
import sys
from handoffd.api import http_loading
http_loading._UNREAD = ("mcp", "mcp.server", "mcp.shared", "mcp.shared.exceptions")
print(callable(http_loading.load().opened), "mcp.client" in sys.modules)
"""

    assert ["True", "True"] == run(code)


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
