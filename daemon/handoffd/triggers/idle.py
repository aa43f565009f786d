"""idle: a session has been silent for long. It fires once per silence."""

from handoff.common.triggers import IDLE


def is_idle(silent_seconds: float, idle_seconds: float) -> bool:
    """Return True if a silence is long enough; a limit of 0 means never."""
    return 0 < idle_seconds <= silent_seconds


def cause(project_id: str, first_at: float, heard_at: float) -> str:
    """Return one cause per silence: a copy of a history begins and ends at the same moments."""
    return f"{IDLE}:{project_id}:{first_at:.3f}:{heard_at:.3f}"
