"""The client of MCP's own SDK, over the relay or over HTTP."""

import contextlib
import json
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from conftest import BIN, DaemonSandbox, wait_for
from mcp_socket_client import configure, serving

# The protocol that the client is told to speak, and the one it speaks. By itself it asks.
ERAS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28", "auto": "2026-07-28"}
TOOLS = [
    "create_handoff", "get_handoff", "add_to_handoff", "mark_handoff_read", "close_handoff",
]  # fmt: skip


@dataclass
class Address:
    """The address of an open HTTP listener."""

    url: str
    token: str

    @property
    def secret_url(self) -> str:
        return f"{self.url}/{self.token}"

    @property
    def header(self) -> str:
        return f"Authorization: Bearer {self.token}"


@contextlib.contextmanager
def open_listener(
    kind: str, directory: Path
) -> Iterator[tuple[DaemonSandbox, StdioServerParameters | Address]]:
    """Yield a HOME with a running daemon, for more than one test, and one of its two transports."""
    port = _free_port() if kind == "http" else 0
    with serving(directory, _settings(port) if port else "") as sandbox:
        yield sandbox, _address(sandbox, port) if port else relay(sandbox)


def open_http(sandbox: DaemonSandbox) -> Address:
    """Start a daemon with its HTTP listener open."""
    port = _free_port()
    configure(sandbox, _settings(port))
    sandbox.transcripts.mkdir(parents=True, exist_ok=True)
    return _address(sandbox.start(), port)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def _settings(port: int) -> str:
    return f"[http]\nenabled = true\nport = {port}\nsecret_path = true\n"


def _address(sandbox: DaemonSandbox, port: int) -> Address:
    """Wait until the listener is open, and return its address."""
    root = f"http://127.0.0.1:{port}"
    wait_for(lambda: _healthy(root), what="the HTTP listener is open")
    shown = sandbox.handoff("token", "show")
    assert shown.returncode == 0, shown.stderr
    return Address(f"{root}/mcp", shown.stdout.strip())


def _healthy(root: str) -> bool:
    try:
        with urllib.request.urlopen(f"{root}/health", timeout=60) as answer:
            return answer.status == 200
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def relay(sandbox: DaemonSandbox, *words: str, cwd: Path | None = None) -> StdioServerParameters:
    """Return the command by which a client starts the relay in a HOME."""
    command = str(BIN / "handoff")
    return StdioServerParameters(
        command=command, args=["mcp", *words], env=sandbox.environment, cwd=cwd or sandbox.home
    )


class ToolError(Exception):
    """The message of a failed tool."""


@dataclass
class Side:
    """One side of a thread: a connected client."""

    client: Client

    async def call(self, tool: str, **given: Any) -> dict:
        """Call a tool and return its result, of which the text must be a copy."""
        result = await self.client.call_tool(tool, given)
        (block,) = result.content
        assert isinstance(block, mcp_types.TextContent)
        if result.is_error:
            raise ToolError(block.text)
        assert result.structured_content == json.loads(block.text)
        return result.structured_content

    async def refused(self, tool: str, **given: Any) -> str:
        """Call a tool that must fail, and return its message."""
        try:
            found = await self.call(tool, **given)
        except ToolError as problem:
            return str(problem)
        raise AssertionError(f"{tool} succeeded: {found}")

    async def new(self, thread_id: str, **given: Any) -> list[str]:
        """Return the entries of a thread that this side has not read."""
        got = await self.call("get_handoff", id=thread_id, **given)
        assert len(got["new_entries"]) == got["new_count"]
        return [entry["content"] for entry in got["new_entries"]]


@contextlib.asynccontextmanager
async def side(
    listener: StdioServerParameters | Address, mode: str = "auto"
) -> AsyncIterator[Side]:
    """Connect a client to the relay or to the HTTP listener."""
    if isinstance(listener, StdioServerParameters):
        async with Client(listener, mode=mode) as client:
            yield Side(client)
        return
    headers = {"Authorization": f"Bearer {listener.token}"}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(listener.url, http_client=http)
        async with Client(transport, mode=mode) as client:
            yield Side(client)
