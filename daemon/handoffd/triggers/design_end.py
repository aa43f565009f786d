"""design-end: a track has its design. `/conductor-newtrack` is over, or the files show it."""

from handoff.common.triggers import DESIGN_END
from handoffd.triggers.conductor_commands import is_command

DESIGNED, BEGUN = "designed", "begun"
# The values of workflow.state that follow the design.
_LATER = ("TRACKED", "FILED", "REVIEWED", "IMPLEMENTING", "DONE", "ARCHIVED")
_EARLIER = ("INIT", "DESIGNED")


def status(state: str, *, has_documents: bool) -> str:
    """Return the design status by a track's workflow.state, or else by its documents."""
    if state in _LATER:
        return DESIGNED
    return DESIGNED if has_documents and state not in _EARLIER else BEGUN


def cause(project_id: str, track_id: str) -> str:
    return f"{DESIGN_END}:{project_id}:{track_id}"


def is_start(command: str) -> bool:
    return is_command(command, "newtrack")
