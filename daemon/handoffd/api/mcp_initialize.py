"""Answer the part of MCP that needs no thread: our name, our protocol versions and our tools.

A relay answers with this module while there is no daemon. It does so at once, since the module
loads nothing else.
"""

from __future__ import annotations

from handoff import __version__
from handoff.common import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Frame = dict[str, Any]

METHODS = ("initialize", "server/discover", "ping", "tools/list", "tools/call")
# Versions that begin with a handshake, and versions in which every request names its version.
HANDSHAKE_VERSIONS = ("2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)
UNSUPPORTED_VERSION = -32022
TOOLS_MAX_AGE_MS = 3_600_000
INSTRUCTIONS = (
    "Handoffs are threads that Claude Chat (decides) and Claude Code (implements) share by id. "
    "The user carries the id (hof_…) from one to the other: show it after create_handoff, and "
    "use one only if the user pasted it, or it was used in this project before. "
    "There is no list or search."
)
_VERSION = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_SERVER = "io.modelcontextprotocol/serverInfo"
_SERVER_INFO = {"name": "handoffd", "title": "handoffd", "version": __version__}
_CAPABLE = {"tools": {"listChanged": False}}
_TOOLS = __file__.rpartition("/")[0] + "/tools.json"


class McpError(Exception):
    """A request that cannot be answered, with its error frame of JSON-RPC."""

    def __init__(self, code: int, message: str, data: Frame | None = None) -> None:
        super().__init__(message)
        self.frame = {"code": code, "message": message, **({"data": data} if data else {})}


def answer(request: Frame) -> Frame:
    """Return the answer to any request that is no tool call."""
    reply = {"jsonrpc": "2.0", "id": request.get("id")}
    try:
        return {**reply, "result": result(request["method"], params_of(request))}
    except McpError as problem:
        return {**reply, "error": problem.frame}


def params_of(request: Frame) -> Frame:
    params = request.get("params")
    if not isinstance(params, dict | None):
        raise McpError(wire.INVALID_PARAMS, "params must be an object")
    return params or {}


def result(method: str, params: Frame) -> Frame:
    if method == "initialize":
        return _initialized(params)
    if method == "server/discover":
        found: Frame = {"supportedVersions": list(MODERN_VERSIONS), **_introduction()}
    elif method == "tools/list":
        found = {"tools": tool_list()}
    elif method == "ping":
        found = {}
    else:
        raise McpError(wire.METHOD_NOT_FOUND, f"There is no method {method[:80]!r}")
    modern = is_modern(params) or method == "server/discover"
    if modern and found:
        found |= {"ttlMs": TOOLS_MAX_AGE_MS, "cacheScope": "private"}
    return as_modern_result(found) if modern else found


def is_modern(params: Frame) -> bool:
    """Return True if a request names its version itself; raise an error for an unknown version."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or _VERSION not in meta:
        return False
    version = meta[_VERSION]
    if not isinstance(version, str) or _CAPABILITIES not in meta:
        raise McpError(
            wire.INVALID_PARAMS, f"_meta must have {_VERSION} (a text) and {_CAPABILITIES}"
        )
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": version}
        raise McpError(UNSUPPORTED_VERSION, f"Unsupported protocol version: {version[:40]}", data)
    return True


def as_modern_result(found: Frame) -> Frame:
    return {**found, "resultType": "complete", "_meta": {_SERVER: _SERVER_INFO}}


def _initialized(params: Frame) -> Frame:
    wanted = params.get("protocolVersion")
    version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    return {"protocolVersion": version, "serverInfo": _SERVER_INFO, **_introduction()}


def _introduction() -> Frame:
    return {"capabilities": _CAPABLE, "instructions": INSTRUCTIONS}


def tool_list() -> list[Frame]:
    """Return the tools as models read them."""
    with open(_TOOLS, "rb") as stream:
        found: list[Frame] = wire.decode(stream.read())
    return found
