"""design-end: a track has its design: `/conductor-newtrack` is over, or the disk says so."""

from handoffd.triggers.commands import is_command

NAME = "design-end"
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
    return f"{NAME}:{project_id}:{track_id}"


def is_start(command: str) -> bool:
    return is_command(command, "newtrack")
