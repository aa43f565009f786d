"""Keep the history of each project's view: how goal, status, next items and tests changed, and why.

The store keeps a bounded number of changes per project.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handoffd.projects.lanes import ProjectView
from handoffd.projects.project_state import ActiveProject
from handoffd.runtime import clock
from handoffd.session.fields import NOT_STATED
from handoffd.session.state import Receipt
from handoffd.store.state import Change, StateStore

TRACKED = ("goal", "status", "next", "tests")


@dataclass(slots=True)
class ProjectHistory:
    """Adds the changes of a project's view to its history in the store."""

    state: StateStore

    def note(self, active: ActiveProject, view: ProjectView) -> None:
        """Add what has changed since the last view."""
        if not active.project.id:
            return
        values = {name: _as_json(view.document.get(name)) for name in TRACKED}
        if values == active.history:
            return
        known = active.history or self.state.last_values(active.project.id)
        changes = [
            _change(view, name, known.get(name, "null"), after)
            for name, after in values.items()
            if after != known.get(name, "null")
        ]
        if changes:
            self.state.add_changes(active.project.id, sorted(changes, key=lambda made: made.at))
        active.history = values


def _as_json(value: Any) -> str:
    return "null" if value in (None, [], NOT_STATED) else json.dumps(value, ensure_ascii=False)


def _change(view: ProjectView, name: str, before: str, after: str) -> Change:
    receipt = _receipt(view, name, before)
    session_id = view.main.state.session_id if view.main else ""
    at = clock.parse(receipt.time) if receipt else 0.0
    given = json.dumps(receipt._asdict(), ensure_ascii=False) if receipt else "null"
    return Change(min(at or clock.wall(), clock.wall()), name, before, after, session_id, given)


def _receipt(view: ProjectView, name: str, before: str) -> Receipt | None:
    """Return the receipt of a new value; for a list, of its first new item.

    If items only went away, the record that the current work rests on made them go.
    """
    value = view.document.get(name)
    if not isinstance(value, list):
        return view.receipts.get(name) if value else view.receipts.get("now")
    old = json.loads(before) or []
    new = (number for number, item in enumerate(value) if item not in old)
    number = next(new, None)
    if number is None:
        return view.receipts.get("now") or view.receipts.get("status")
    return view.receipts.get(f"{name}.{number}")


def described(change: Change) -> Mapping[str, Any]:
    """Return a change as data, with the items that came and went if it is a list."""
    before, after = json.loads(change.before), json.loads(change.after)
    found = {
        "at": clock.iso(change.at),
        "age_seconds": round(max(clock.wall() - change.at, 0.0), 1),
        "field": change.field,
        "before": before,
        "after": after,
        "session_id": change.session_id or None,
        "receipt": json.loads(change.receipt),
    }
    if isinstance(before, list) or isinstance(after, list):
        old, new = before or [], after or []
        found["added"] = [item for item in new if item not in old]
        found["removed"] = [item for item in old if item not in new]
    return found
