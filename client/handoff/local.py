"""The only import of the daemon's code by the client, for commands that work without a daemon."""

from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser


def daemon_code(module: str = "commands") -> ModuleType:
    """Return a module of the daemon's package for clients without a daemon."""
    from importlib import import_module

    return import_module(f"handoffd.offline.{module}")


def mcp_answers() -> ModuleType:
    """Return the code of a relay's own answers; unlike the rest it loads next to nothing."""
    from handoffd.api import mcp_initialize

    return mcp_initialize


def daemon_parser() -> "ArgumentParser":
    """Return the parser that `handoffd --help` is made from."""
    from handoffd.command_line import parser

    return parser()
