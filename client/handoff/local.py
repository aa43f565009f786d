"""The one door from the client into the daemon's code, for what works without a daemon."""

from types import ModuleType


def daemon_code() -> ModuleType:
    from handoffd import offline

    return offline


def greeting() -> ModuleType:
    """What a relay answers by itself; unlike the rest it loads next to nothing."""
    from handoffd.api import greeting as found

    return found
