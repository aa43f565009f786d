"""epic-start and epic-end: an epic of Beads is taken up, or closed. Once for each change."""

from handoff.common.triggers import EPIC_END, EPIC_START

STARTED, CLOSED = "in_progress", "closed"


def name(before: str, now: str, *, just_closed: bool) -> str | None:
    """Return the trigger that a change of status is; an epic that arrives closed is old news."""
    if now == STARTED:
        return EPIC_START
    if now == CLOSED and (before or just_closed):
        return EPIC_END
    return None


def cause(trigger: str, project_id: str, epic_id: str, changes: int) -> str:
    """The same for the same change: an epic that is reopened and closed again ends twice."""
    return f"{trigger}:{project_id}:{epic_id}:{changes}"
