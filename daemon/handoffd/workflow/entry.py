"""What is entered in the ledger about a record: who wants it, and what came of it."""

import os
import secrets
from dataclasses import replace
from typing import Any

from handoff.errors import EXIT_CHOICE_NEEDED
from handoffd import clock
from handoffd.session.state import SessionState
from handoffd.store.core import CoreStore
from handoffd.store.ledger import Firing
from handoffd.triggers import epic, manual
from handoffd.workflow.creation import Request
from handoffd.workflow.gather import GATHER
from handoffd.workflow.steps import FAILED

# The receipt of what a person wanted.
ASKED = "asked for"
RECORDED = "the start of this epic was recorded before"
# What goes wrong in the steps before anything is written will go wrong again.
_BEFORE = tuple(action.number for action in GATHER)


def asked(project_id: str, state: SessionState | None, request: Request) -> Firing:
    """Return what is entered when a person asks for a record."""
    at = clock.iso_milliseconds()
    session_id = state.session_id if state else ""
    # Two may ask within the same millisecond.
    cause = f"{manual.cause(session_id or project_id, at)}:{secrets.token_hex(4)}"
    kept = {**request.as_dict(), "pid": os.getpid()}
    return Firing(cause, request.trigger, project_id, session_id, at, ASKED, request.bead, kept)


def implementing(
    core: CoreStore, project_id: str, state: SessionState | None, found: dict[str, Any]
) -> tuple[Firing, Request]:
    """Return the epic-start of what is about to be implemented, and what is asked for.

    Its cause is that of the epic's own next change: once it is taken up, that is no news. A
    track without an epic starts once for each session.
    """
    bead = (found["beads"]["epic"] or {}).get("id", "")
    request = Request(epic.START, found["track"], bead=bead, if_parallel="include", binds=True)
    firing = asked(project_id, state, request)
    if bead:
        # Under the name by which all work trees that share the epic know it.
        scope = core.project_id(found["beads"]["home"], clock.iso()) or project_id
        seen = core.ledger.sighting(scope, "epic", bead)
        number = seen.changes if seen.status == epic.STARTED else seen.changes + 1
        return replace(firing, cause=epic.cause(epic.START, scope, bead, number)), request
    if firing.session_id:
        cause = f"{epic.START}:{project_id}:{found['track']}:{firing.session_id}"
        return replace(firing, cause=cause), request
    return firing, request


def implemented(found: dict[str, Any]) -> dict[str, Any]:
    """To begin a track nothing need have been left of it."""
    made = found.get("handoff")
    return {**found, "exit": made["exit"]} if made and not found["record"] else found


def is_made(found: dict[str, Any]) -> bool:
    """Tell whether somebody was handed off: nobody chose otherwise, nothing was refused."""
    refused = any(
        step["outcome"] == FAILED and step["number"] in _BEFORE for step in found["steps"]
    )
    return not (found["choice"] or found["cancelled"] or refused)


def settle(core: CoreStore, firing: Firing, found: dict[str, Any]) -> None:
    """Enter what came of a trigger; what failed on the way stays pending."""
    failed = [step["number"] for step in found["steps"] if step["outcome"] == FAILED]
    refused = bool(failed) and failed[0] in _BEFORE
    # A person was told; what was not begun is theirs to begin again.
    unwanted = found["cancelled"] or (bool(failed) and firing.receipt == ASKED)
    if found["exit"] == EXIT_CHOICE_NEEDED or (unwanted and not found["file"]):
        core.ledger.withdraw(firing.cause)
    elif not failed or (refused and not found["passing"]):
        kept = ("file", "track", "section", "contract")
        outcome = {name: found[name] for name in kept if found.get(name)}
        if not found["file"]:
            outcome["skipped"] = found["steps"][-1]["text"]
        core.ledger.settle(firing.cause, outcome)
