"""Every method of the socket, by name; each is loaded when it is first called."""

import os
from functools import cache
from importlib import import_module

from handoffd.api.method import Method

NAMES = (
    "status",
    "show",
    "why",
    "save",
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
    "mcp",
    "doctor",
    "down",
    # What a test asks for instead of waiting.
    *(("run_due",) if os.environ.get("HANDOFFD_TEST") == "1" else ()),
)


@cache
def method(name: str) -> Method:
    """Return a method that there is."""
    found: Method = import_module(f"handoffd.api.handlers.{name}").METHOD
    return found
