"""pre-finish: the command `/conductor-finish` was given. It fires once per command."""

from handoff.common.triggers import PRE_FINISH
from handoffd.triggers.conductor_commands import is_command


def cause(project_id: str, time: str) -> str:
    """Return the cause by the record's time: a copy of the history has the same time."""
    return f"{PRE_FINISH}:{project_id}:{time}"


def is_start(command: str) -> bool:
    return is_command(command, "finish")
