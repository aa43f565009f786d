"""pre-finish: `/conductor-finish` was given. Once for each time."""

from handoffd.triggers.commands import is_command

NAME = "pre-finish"


def cause(project_id: str, time: str) -> str:
    """By the record's time: a copy of the history has the same."""
    return f"{NAME}:{project_id}:{time}"


def is_start(command: str) -> bool:
    return is_command(command, "finish")
