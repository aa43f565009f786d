"""The one door from the client into the daemon's code, for what works without a daemon."""

from types import ModuleType


def daemon_code() -> ModuleType:
    from handoffd import offline

    return offline
