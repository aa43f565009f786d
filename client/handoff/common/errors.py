"""Errors with a remedy that a person can act on. No imports: both sides load this module."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_RUNNING = 3
EXIT_CHOICE_NEEDED = 4
EXIT_NOT_FRESH = 5
EXIT_VERSIONS_DIFFER = 6
EXIT_ALREADY_RUNNING = 7


NOT_RUNNING = "handoffd is not running."


class HandoffError(Exception):
    """An error with a title, a remedy and an exit code."""

    exit_code = EXIT_FAILED

    def __init__(self, title: str, hint: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.title}\n{self.hint}" if self.hint else self.title


class NotRunningError(HandoffError):
    exit_code = EXIT_NOT_RUNNING

    def __init__(self, title: str = NOT_RUNNING, hint: str = "Start it with: handoff up") -> None:
        super().__init__(title, hint)


class NotAnsweringError(HandoffError):
    """A daemon runs, but it hangs."""

    def __init__(self, title: str = "handoffd does not answer.") -> None:
        super().__init__(title, "End it and start it anew: handoff restart")


class VersionsDifferError(HandoffError):
    """The daemon speaks another protocol; `version` is the daemon's version."""

    exit_code = EXIT_VERSIONS_DIFFER

    def __init__(self, title: str, hint: str = "", version: str = "") -> None:
        super().__init__(title, hint)
        self.version = version


class UnknownMethodError(HandoffError):
    """The daemon is too old to know the method."""


class AlreadyRunningError(HandoffError):
    exit_code = EXIT_ALREADY_RUNNING


class ChoiceNeededError(HandoffError):
    """The request has more than one meaning; the remedy names the choices."""

    exit_code = EXIT_CHOICE_NEEDED


class UnsafePathError(HandoffError):
    """A path to be written through is unsafe: a symlink, or not the expected kind of file."""


class HandoffValidationError(HandoffError, ValueError):
    """A field of a checkpoint is missing or invalid."""
