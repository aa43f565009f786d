"""Who speaks MCP on a connection."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The side it speaks for unless a call says otherwise, and the directory it works in."""

    client: str = "chat"
    directory: str = ""
