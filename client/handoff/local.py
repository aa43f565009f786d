"""The only import of the daemon's code by the client, for commands that work without a daemon."""

from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser


def daemon_code() -> ModuleType:
    from handoffd.offline import commands

    return commands


def greeting() -> ModuleType:
    """Return the code of a relay's own answers; unlike the rest it loads next to nothing."""
    from handoffd.api import mcp_initialize as found

    return found


def daemon_parser() -> "ArgumentParser":
    """Return the parser that `handoffd --help` is made from."""
    from handoffd.command_line import parser

    return parser()
