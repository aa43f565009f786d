"""epic-start and epic-end: an epic of Beads is started or closed. They fire once per change."""

from handoff.common.triggers import EPIC_END, EPIC_START

STARTED, CLOSED = "in_progress", "closed"


def name(before: str, now: str, *, just_closed: bool) -> str | None:
    """Return the trigger of a change of status.

    An epic that is already closed when it is first seen gives none, unless it was closed just now.
    """
    if now == STARTED:
        return EPIC_START
    if now == CLOSED and (before or just_closed):
        return EPIC_END
    return None


def cause(trigger: str, project_id: str, epic_id: str, changes: int) -> str:
    """Return one cause per change: an epic that is reopened and closed again ends twice."""
    return f"{trigger}:{project_id}:{epic_id}:{changes}"
