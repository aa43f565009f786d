"""manual: a person asks for a handoff. Every time is one."""

NAME = "manual"


def cause(session_id: str, at: str) -> str:
    return f"{NAME}:{session_id}:{at}"
