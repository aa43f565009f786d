"""A finding of a check, with its remedy."""

from dataclasses import dataclass

from handoff.common.errors import (
    EXIT_FAILED,
    EXIT_NOT_FRESH,
    EXIT_NOT_RUNNING,
    EXIT_VERSIONS_DIFFER,
)

OK, NOTE, BAD = "ok", "note", "bad"
# The most misleading problem decides on the exit code.
_EXITS = (EXIT_NOT_RUNNING, EXIT_NOT_FRESH, EXIT_VERSIONS_DIFFER, EXIT_FAILED)


@dataclass(frozen=True, slots=True)
class Finding:
    level: str
    text: str
    remedy: str = ""
    exit: int = 0


def ok(text: str) -> Finding:
    return Finding(OK, text)


def note(text: str, remedy: str) -> Finding:
    """Return a finding that a person may want to change, but that does not mislead."""
    return Finding(NOTE, text, remedy)


def bad(text: str, remedy: str, code: int = EXIT_FAILED) -> Finding:
    return Finding(BAD, text, remedy, code)


def explained(heading: str) -> str:
    """Return the command that prints a section of docs/troubleshooting.md, which the wheel has."""
    return f"More: handoff doctor --explain {heading}"


def exit_code(findings: list[Finding]) -> int:
    codes = {finding.exit for finding in findings}
    return next((code for code in _EXITS if code in codes), 0)


def age(seconds: float) -> str:
    """Return a duration in words."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"
