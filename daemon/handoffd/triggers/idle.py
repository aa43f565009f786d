"""idle: a session has been silent for long. Once for each silence."""

NAME = "idle"


def cause(session_id: str, heard_at: float, now: float, idle_seconds: float) -> str | None:
    """Return what fires the trigger, the same for the same silence; None if nothing does."""
    return f"{NAME}:{session_id}:{heard_at:.3f}" if now - heard_at >= idle_seconds else None
