"""A client of MCP over stdio, the same for every server that is measured."""

import json
import os
import select
import subprocess
import time
from typing import Any, Self

PROTOCOL_VERSION = "2025-11-25"
REPLY_SECONDS = 60.0
END_SECONDS = 10.0
_PART_BYTES = 1 << 16


class Session:
    """A server that is running, with pipes to it; the clock starts with its process."""

    def __init__(self, words: list[str], environment: dict[str, str], directory: str) -> None:
        self._number = 0
        self._rest = b""
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            words, bufsize=0, env=environment, cwd=directory,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    @property
    def age_seconds(self) -> float:
        return time.perf_counter() - self.started

    def initialize(self) -> float:
        """Shake hands; returns how long it took from the start of the process."""
        about = {"name": "bench", "version": "1"}
        params = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": about}
        self.ask("initialize", params)
        took = self.age_seconds
        self._send({"method": "notifications/initialized"})
        return took

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[float, str]:
        """Call a tool; returns the round trip's time and the text of the answer."""
        took, line = self.ask("tools/call", {"name": tool, "arguments": arguments})
        result = json.loads(line)["result"]
        text = "\n".join(block["text"] for block in result["content"])
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {text}")
        return took, text

    def ask(self, method: str, params: dict[str, Any] | None = None) -> tuple[float, bytes]:
        """Send a request; returns the round trip's time and the line of the answer."""
        self._number += 1
        asked = time.perf_counter()
        self._send({"id": self._number, "method": method, "params": params or {}})
        while True:
            line = self._line()
            took = time.perf_counter() - asked
            reply = json.loads(line)
            if reply.get("id") != self._number:
                continue  # a notification
            if "error" in reply:
                raise RuntimeError(f"{method}: {reply['error']}")
            return took, line

    def _send(self, frame: dict[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n"
        self.process.stdin.write(line)

    def _line(self) -> bytes:
        handle = self.process.stdout.fileno()
        while b"\n" not in self._rest:
            if not select.select([handle], [], [], REPLY_SECONDS)[0]:
                raise RuntimeError(f"no answer within {REPLY_SECONDS:g} s")
            part = os.read(handle, _PART_BYTES)
            if not part:
                raise RuntimeError(f"the server ended: {self.process.wait()}")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line
