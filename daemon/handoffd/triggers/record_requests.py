"""Handle requests for track records: each request is a trigger of its own in the ledger."""

import os
import secrets
from dataclasses import dataclass, replace
from typing import Any

from handoff.common.triggers import EPIC_START
from handoffd.projects.registry import Project
from handoffd.runtime import clock
from handoffd.session.state import SessionState
from handoffd.store.core import CoreStore
from handoffd.store.ledger import Firing
from handoffd.tracks.create_state import CreateRequest
from handoffd.tracks.outcome import ASKED
from handoffd.tracks.record_maker import RecordMaker
from handoffd.tracks.resume_state import ResumeRequest
from handoffd.tracks.steps import Tell
from handoffd.triggers import epic, manual

RECORDED = "the start of this epic was recorded before"


@dataclass(slots=True)
class RecordRequests:
    """Enters requests in the ledger, and lets the RecordMaker make their records."""

    core: CoreStore
    record_maker: RecordMaker

    async def create(
        self, project: Project, state: SessionState | None, request: CreateRequest, tell: Tell
    ) -> dict[str, Any]:
        """Make a record on request."""
        firing = asked(project.id, state, request)
        self.core.ledger.fire(firing)
        return await self.record_maker.make(project, firing, request, tell, state)

    async def resume(
        self, project: Project, state: SessionState | None, wanted: ResumeRequest, tell: Tell
    ) -> dict[str, Any]:
        """Resume a track; if it is to be implemented, record the start of its epic as well."""
        found = await self.record_maker.resume(project, state, wanted, tell)
        if wanted.implement and found["track"] and not found["choice"]:
            firing, request = implementing(self.core, project.id, state, found, wanted)
            if self.core.ledger.fire(firing):
                made = await self.record_maker.make(project, firing, request, tell, state)
                found["handoff"] = made
            else:
                found["handoff_skipped"] = RECORDED
        return implemented(found)


def asked(project_id: str, state: SessionState | None, request: CreateRequest) -> Firing:
    """Return the firing for a person's request for a record."""
    at = clock.iso_milliseconds()
    session_id = state.session_id if state else ""
    # Two requests may come within the same millisecond.
    cause = f"{manual.cause(session_id or project_id, at)}:{secrets.token_hex(4)}"
    kept = {**request.as_dict(), "pid": os.getpid()}
    return Firing(cause, request.trigger, project_id, session_id, at, ASKED, request.bead, kept)


def implementing(
    core: CoreStore,
    project_id: str,
    state: SessionState | None,
    found: dict[str, Any],
    wanted: ResumeRequest,
) -> tuple[Firing, CreateRequest]:
    """Return the epic-start of a track that is about to be implemented, and its request.

    Its cause is that of the next change of the epic, or of a track without one, so that the change
    itself does not fire again.
    """
    bead = (found["beads"]["epic"] or {}).get("id", "")
    request = CreateRequest(
        EPIC_START, found["track"], bead=bead, if_parallel="include", binds=wanted.framed
    )
    # Use the project id that is common to all work trees that share the epic.
    home = found["beads"]["home"] if bead else ""
    scope = (core.project_id(home, clock.iso()) if home else None) or project_id
    cause = epic.start_cause(core.ledger, scope, bead, found["track"])
    return replace(asked(project_id, state, request), cause=cause), request


def implemented(found: dict[str, Any]) -> dict[str, Any]:
    """Return the result; a track that begins needs no earlier record: the new one's exit counts."""
    made = found.get("handoff")
    return {**found, "exit": made["exit"]} if made and not found["record"] else found
