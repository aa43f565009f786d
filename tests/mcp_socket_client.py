"""A client that speaks MCP to the daemon, on its socket and without a library, as a relay does."""

import contextlib
import itertools
import json
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from conftest import DaemonSandbox, contents_below

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
MODERN = "2026-07-28"
TYPES = ("context", "task", "progress", "question", "decision", "done")
# The tables as the seed makes them.
SEED = """
CREATE TABLE handoffs (
    id TEXT PRIMARY KEY, title TEXT NOT NULL, project TEXT,
    chat_last_seen INTEGER DEFAULT 0, code_last_seen INTEGER DEFAULT 0,
    status TEXT DEFAULT 'active', created_at TEXT, updated_at TEXT);
CREATE TABLE handoff_entries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, handoff_id TEXT NOT NULL REFERENCES handoffs(id),
    from_client TEXT NOT NULL, type TEXT NOT NULL, content TEXT NOT NULL, created_at TEXT);
"""
# Of the one and the other table: the seed's columns, in its order.
HANDOFF = [
    "id", "title", "project", "chat_last_seen", "code_last_seen", "status", "created_at", "updated_at",
]  # fmt: skip
ENTRY = ["seq", "handoff_id", "from_client", "type", "content", "created_at"]


def envelope(version: Any = MODERN, capabilities: Any = None) -> dict:
    """Return the `_meta` by which a request names its version itself."""
    prefix = "io.modelcontextprotocol"
    return {
        f"{prefix}/protocolVersion": version,
        f"{prefix}/clientCapabilities": capabilities or {},
        f"{prefix}/clientInfo": {"name": "test", "version": "1"},
    }


class Mcp:
    """A connection; with `client` or `cwd` it begins with a relay's hello."""

    def __init__(self, sandbox: DaemonSandbox, client: str | None = None, cwd: Path | None = None):
        self._ids = itertools.count(1)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(90)
        self._socket.connect(sandbox.socket_path)
        self._stream = self._socket.makefile("rb")
        if client or cwd:
            self.hello(client or "chat", cwd or "/")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def send(self, frame: Any) -> None:
        data = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        self._socket.sendall(data + b"\n")

    def receive_line(self) -> bytes:
        return self._stream.readline()

    def receive(self) -> dict:
        return json.loads(self.receive_line())

    def hello(self, client: str, cwd: Path | str) -> dict:
        reply = self.request("mcp", {"client": client, "cwd": str(cwd), "protocol": 1})
        assert {"client": client} == reply["result"]["data"]
        return reply

    def request(self, method: str, params: Any = None, **members: Any) -> dict:
        """Send a request and return its answer; `members` stand beside `params`."""
        number = next(self._ids)
        given = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "id": number, "method": method, **given, **members})
        reply = self.receive()
        assert number == reply["id"], reply
        return reply

    def result(self, method: str, params: Any = None, **members: Any) -> dict:
        reply = self.request(method, params, **members)
        assert "error" not in reply, reply
        return reply["result"]

    def call(self, tool: str, once: str = "", **arguments: Any) -> dict:
        """Call a tool; returns its structured result, of which the text must be a copy."""
        members = {"once": once} if once else {}
        result = self.result("tools/call", {"name": tool, "arguments": arguments}, **members)
        assert False is result["isError"], result
        (block,) = result["content"]
        assert "text" == block["type"]
        assert result["structuredContent"] == json.loads(block["text"])
        return result["structuredContent"]

    def refusal(self, tool: str, **arguments: Any) -> str:
        """Call a tool that must fail; return its message."""
        result = self.result("tools/call", {"name": tool, "arguments": arguments})
        assert True is result["isError"], result
        assert "structuredContent" not in result
        (block,) = result["content"]
        return block["text"]

    def create(self, content: str = "We decided on JWT.", **more: Any) -> str:
        """Create a thread; returns its id."""
        made = self.call("create_handoff", **{"title": "A thread", "content": content, **more})
        return made["handoff"]["id"]

    def add(self, thread_id: str, content: str = "x", kind: str = "progress", **more: Any) -> int:
        """Append an entry; returns its number."""
        given = {"id": thread_id, "type": kind, "content": content, **more}
        return self.call("add_to_handoff", **given)["entry"]["seq"]

    def get(self, thread_id: str, **more: Any) -> dict:
        return self.call("get_handoff", id=thread_id, **more)

    def new(self, thread_id: str, **more: Any) -> list[str]:
        """Return the words of the entries that are new."""
        got = self.get(thread_id, **more)
        assert len(got["new_entries"]) == got["new_count"]
        return [entry["content"] for entry in got["new_entries"]]

    def mark(self, thread_id: str, **more: Any) -> int:
        return self.call("mark_handoff_read", id=thread_id, **more)["last_seen"]

    def close(self, thread_id: str) -> dict:
        return self.call("close_handoff", id=thread_id)


@contextlib.contextmanager
def serving(
    directory: Path, configuration: str = "", *, start: bool = True
) -> Iterator[DaemonSandbox]:
    """A HOME with a running daemon, or without one, for more than one test."""
    runtime = Path(tempfile.mkdtemp(prefix="ho-", dir="/tmp"))
    sandbox = DaemonSandbox(directory, runtime)
    sandbox.transcripts.mkdir(parents=True)
    if configuration:
        configure(sandbox, configuration)
    try:
        yield sandbox.start() if start else sandbox
    finally:
        sandbox.kill()
        shutil.rmtree(runtime, ignore_errors=True)


def configure(sandbox: DaemonSandbox, text: str) -> None:
    path = sandbox.home / ".config/handoffd/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def ask(sandbox: DaemonSandbox, question: str, *values: Any) -> list[tuple]:
    """Ask core.db itself."""
    path = f"file:{sandbox.state}/core.db?mode=ro"
    with contextlib.closing(sqlite3.connect(path, uri=True)) as db:
        return db.execute(question, values).fetchall()


def files_with(directory: Path, marker: bytes) -> list[str]:
    """Return the files below a directory that hold these bytes."""
    found = sorted(contents_below(directory).items())
    return [str(path.relative_to(directory)) for path, text in found if marker in text]
