"""The caller that speaks MCP on a connection."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The side that a caller speaks for unless a call names another, and its directory."""

    client: str = "chat"
    directory: str = ""
