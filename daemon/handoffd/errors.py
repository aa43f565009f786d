"""The daemon's own errors; those the client must know are in handoff.errors."""

from handoff.common.errors import HandoffError


class ConfigError(HandoffError):
    """The configuration cannot be used; the message names file, key and remedy."""


class StoreError(HandoffError):
    """A database cannot be used, and we will not guess."""


class DamagedError(StoreError):
    """core.db is damaged: it is left as it is, and nothing is written to it."""


class ThreadError(HandoffError):
    """What is asked of a thread cannot be done."""


class NoThreadError(ThreadError):
    """There is no thread of that id."""


class CompletedThreadError(ThreadError):
    """The thread is closed, and nothing is added to it."""
