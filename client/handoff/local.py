"""The one door from the client into the daemon's code, for what works without a daemon."""

from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser


def daemon_code() -> ModuleType:
    from handoffd.offline import commands

    return commands


def greeting() -> ModuleType:
    """What a relay answers by itself; unlike the rest it loads next to nothing."""
    from handoffd.api import mcp_initialize as found

    return found


def daemon_parser() -> "ArgumentParser":
    """What `handoffd --help` is made from."""
    from handoffd.command_line import parser

    return parser()
