"""List every method of the socket by name; a method is loaded at its first call."""

import os
from functools import cache
from importlib import import_module

from handoffd.api.method import Method

NAMES = (
    "status",
    "show",
    "why",
    "save",
    "done",
    "drop",
    "inject",
    "hook",
    "statusline",
    "sessions",
    "watch",
    "open",
    "list",
    "close",
    "escalate",
    "review",
    "create",
    "resume",
    "auto",
    "triggers",
    "trigger",
    "pause",
    "unpause",
    "forget",
    "thread",
    "token",
    "mcp",
    "doctor",
    "down",
    # What a test asks for instead of waiting.
    *(("run_due",) if os.environ.get("HANDOFFD_TEST") == "1" else ()),
)


@cache
def method(name: str) -> Method:
    """Return the method with one of the names in NAMES."""
    found: Method = import_module(f"handoffd.api.handlers.{name}").METHOD
    return found
