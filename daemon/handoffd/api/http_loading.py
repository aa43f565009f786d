"""Loading the HTTP door with as little in memory as can be."""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType

# Their first pages load the SDK's client and framework, httpx, cryptography: 12 MB, for nothing.
_UNREAD = ("mcp", "mcp.server")


def load() -> ModuleType:
    """Import what answers behind the door; an SDK that cannot be had this way is taken whole."""
    try:
        for name in _UNREAD:
            _leave_unread(name)
        return import_module("handoffd.api.http")
    except (ImportError, AttributeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
            del sys.modules[name]
        return import_module("handoffd.api.http")


def _leave_unread(name: str) -> None:
    """Make a package known, so that its parts can be imported, without running its first page."""
    if name in sys.modules:
        return
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(name=name)
    package = sys.modules[name] = module_from_spec(spec)
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, package)
