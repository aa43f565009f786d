"""manual: a person asks for a handoff. It fires every time."""

from handoff.common.triggers import MANUAL
from handoffd.store.ledger import Firing


def closed(project_id: str, session_id: str, at: str, path: str) -> Firing:
    """Return the trigger of a `handoff close`; its outcome is already known."""
    receipt, outcome = "handoff close", {"contract": path}
    return Firing(
        cause(session_id, at), MANUAL, project_id, session_id, at, receipt, outcome=outcome
    )


def cause(session_id: str, at: str) -> str:
    return f"{MANUAL}:{session_id}:{at}"
