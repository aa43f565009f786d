"""The daemon's own errors; errors that the client must know are in handoff.common.errors."""

from handoff.common.errors import HandoffError


class ConfigError(HandoffError):
    """The configuration cannot be used; the message names file, key and remedy."""


class StoreError(HandoffError):
    """A database cannot be used, and we do not guess its content."""


class DamagedError(StoreError):
    """core.db is damaged: it is left as it is, and nothing is written to it."""


class ThreadError(HandoffError):
    """A request to a thread cannot be fulfilled."""


class NoThreadError(ThreadError):
    """There is no thread with that id."""


class CompletedThreadError(ThreadError):
    """The thread is closed, and nothing is added to it."""
