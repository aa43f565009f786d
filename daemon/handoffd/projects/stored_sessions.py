"""Load stored session states, also those of another version of the fold. Pure."""

import json
from typing import Any

from handoffd.session.state import FOLD_VERSION, SessionState
from handoffd.session.storage import load
from handoffd.store.state import StoredSession


def state_of(stored: StoredSession) -> SessionState:
    """Return a stored state; of an older version's, every field that still has its form."""
    return load_older(stored.fold) if is_outdated(stored) else load(stored.fold)


def is_outdated(stored: StoredSession) -> bool:
    """Return True if another version folded the session: its transcript was not read anew yet.

    If the transcript is gone, it never will be.
    """
    return stored.fold_version != FOLD_VERSION


def load_older(text: str) -> SessionState:
    """Return a state that another version stored, without values that have another form now."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("no session state")  # noqa: TRY004  as for any garbled text
    kept = {}
    if "goal" in found:  # up to version 9
        found["work"] = {"request": found["goal"]}
    for name, value in found.items():
        left = value
        if isinstance(value, list) and not _is_known({name: value}):
            left = [item for item in value if _is_known({name: [item]})]
        if _is_known({name: left}):
            kept[name] = left
    return load(json.dumps({"session_id": "", **kept}))


def _is_known(part: dict[str, Any]) -> bool:
    """Return True if this version reads a part of a state."""
    try:
        load(json.dumps({"session_id": "", **part}))
    except ValueError:
        return False
    return True
