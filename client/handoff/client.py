"""A connection to the daemon, for Python programs.

from handoff import Client
Client().call("show", cwd="/home/me/project")["data"]
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from handoff import __version__, fast
from handoff.common import wire
from handoff.common.errors import (
    EXIT_VERSIONS_DIFFER,
    HandoffError,
    NotAnsweringError,
    NotRunningError,
    UnknownMethodError,
    VersionsDifferError,
)
from handoff.lock_holder import unreachable_message


class Client:
    """Talks to the daemon of this user; each call opens one connection."""

    def __init__(self, timeout_seconds: float = fast.REPLY_SECONDS) -> None:
        self.timeout_seconds = timeout_seconds

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a method, or raise a HandoffError with a remedy."""
        params.setdefault("cwd", fast.working_directory() or "/")
        params["protocol"] = wire.PROTOCOL
        try:
            reply = fast.call(method, params, self.timeout_seconds)
        except fast.Hanging as reason:
            raise NotAnsweringError(str(reason)) from None
        except fast.Unreachable as reason:
            raise NotRunningError(*unreachable_message(str(reason))) from None
        return _result(reply)

    def follow(
        self, method: str, on_step: Callable[[dict[str, Any]], None], **params: Any
    ) -> dict[str, Any]:
        """Return the result of a method that reports its steps; the time limit holds per step."""
        try:
            for frame in self._frames(method, params, self.timeout_seconds):
                if "method" not in frame:
                    return _result(frame)
                on_step(frame["params"])
        except TimeoutError:
            raise NotAnsweringError from None
        except (OSError, ValueError):
            pass  # the daemon ended, perhaps in the middle of a frame
        raise HandoffError(
            "handoffd ended while it was at work.",
            "What was begun is finished when it runs again: handoff up",
        )

    def watch(self, method: str = "watch", **params: Any) -> Iterator[dict[str, Any]]:
        """Yield the daemon's answer, then every change, until the daemon ends."""
        with contextlib.suppress(OSError):
            for frame in self._frames(method, params, None):
                yield frame["params"] if "method" in frame else _result(frame)

    def _frames(
        self, method: str, params: dict[str, Any], seconds: float | None
    ) -> Iterator[dict[str, Any]]:
        """Yield the frames on a connection, each within some seconds, until the daemon ends."""
        try:
            connection = fast.connect(time.monotonic() + self.timeout_seconds)
        except fast.Unreachable as reason:
            raise NotRunningError(*unreachable_message(str(reason))) from None
        with socket.socket(fileno=connection.detach()) as stream:
            stream.settimeout(seconds)
            stream.sendall(wire.request(method, {**params, "protocol": wire.PROTOCOL}))
            with stream.makefile("rb") as lines:
                for line in lines:
                    if not line.endswith(b"\n"):
                        return  # the daemon ended in the middle of a frame
                    yield json.loads(line)


def _result(reply: dict[str, Any]) -> dict[str, Any]:
    if "error" in reply:
        data = reply["error"].get("data") or {}
        if data.get("exit") == EXIT_VERSIONS_DIFFER:
            raise VersionsDifferError(
                reply["error"]["message"], data.get("hint", ""), str(data.get("version", ""))
            )
        is_unknown = reply["error"].get("code") == wire.METHOD_NOT_FOUND
        kind = UnknownMethodError if is_unknown else HandoffError
        error = kind(reply["error"]["message"], data.get("hint", ""))
        error.exit_code = data.get("exit", error.exit_code)
        raise error
    result: dict[str, Any] = reply["result"]
    if result.get("protocol") != wire.PROTOCOL:
        raise VersionsDifferError(
            f"This client is {__version__} (protocol {wire.PROTOCOL}), the daemon is "
            f"{result.get('version')} (protocol {result.get('protocol')}).",
            "Run: handoff restart",
            str(result.get("version", "")),
        )
    return result
