"""design-end: a track has its design: `/conductor-newtrack` is over, or the disk says so."""

from handoff.common.triggers import DESIGN_END
from handoffd.triggers.conductor_commands import is_command

DESIGNED, BEGUN = "designed", "begun"
# What comes after the design, in workflow.state.
_LATER = ("TRACKED", "FILED", "REVIEWED", "IMPLEMENTING", "DONE", "ARCHIVED")
_EARLIER = ("INIT", "DESIGNED")


def status(state: str, *, has_documents: bool) -> str:
    """Tell from a track's workflow.state, or else from its documents, whether it is designed."""
    if state in _LATER:
        return DESIGNED
    return DESIGNED if has_documents and state not in _EARLIER else BEGUN


def cause(project_id: str, track_id: str) -> str:
    return f"{DESIGN_END}:{project_id}:{track_id}"


def is_start(command: str) -> bool:
    return is_command(command, "newtrack")
