"""triggers: list the latest triggers with causes and records, and the unsent letters."""

from typing import Any

from pydantic import Field

from handoff.common.paths import home
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style, age, shorten_path
from handoffd.context import Context
from handoffd.runtime import clock
from handoffd.store.core import CoreStore
from handoffd.store.ledger import Firing


class TriggersParams(InProject):
    all: bool = Field(default=False, description="of every project")
    limit: int = Field(default=20, ge=1, le=1000)
    retry: bool = Field(default=False, description="try again to send what was given up")
    drop: bool = Field(
        default=False, description="give up what is pending, and forget what was given up"
    )


async def handle(context: Context, params: TriggersParams, _send: Send) -> MethodReply:
    tidy(context.core, params)
    project = None if params.all else named_project(context, params)
    return MethodReply(listed(context.core, project.id if project else None, params.limit))


def tidy(core: CoreStore, params: TriggersParams) -> None:
    """Retry or drop the records and letters that could not be written or sent."""
    if params.drop:
        core.outbox.drop_dead()
        core.ledger.drop_pending()
    elif params.retry:
        core.outbox.retry_dead()


def listed(core: CoreStore, project_id: str | None, limit: int) -> dict[str, Any]:
    """Return the triggers that fired, the newest first, and the unsent letters."""
    now = clock.wall()
    found = core.ledger.recent(project_id, limit)
    letters = [letter for letter in core.outbox.unsent() if project_id in (None, letter.project_id)]
    return {
        "triggers": [_described(core, firing, now) for firing in found],
        "letters": [
            {
                "kind": letter.kind,
                "target": letter.target,
                "record": letter.key,
                "attempts": letter.attempts,
                "problem": letter.problem,
                "given_up": letter.dead,
            }
            for letter in letters
        ],
    }


def _described(core: CoreStore, firing: Firing, now: float) -> dict[str, Any]:
    outcome = firing.outcome
    return {
        "trigger": firing.trigger,
        "project": core.project_root(firing.project_id) or "",
        "session_id": firing.session_id or None,
        "bead": firing.bead or None,
        "fired_at": firing.fired_at,
        "age_seconds": round(now - clock.parse(firing.fired_at)),
        "cause": firing.cause,
        "receipt": firing.receipt,
        "pending": outcome is None,
        "file": firing.request.get("name", ""),
        "outcome": dict(outcome or {}),
    }


def render(data: dict[str, Any], _style: Style) -> str:
    lines: list[str] = []
    for item in data["triggers"]:
        where = shorten_path(item["project"], home())
        lines.append(f"{item['trigger']}, {age(item['age_seconds'])} ago, {where}")
        lines.append(f"    why: {item['receipt'] or item['cause']}")
        lines.append(f"    {_outcome(item)}")
    for letter in data["letters"]:
        state = "given up" if letter["given_up"] else "waits"
        lines.append(f"{letter['kind']} to {letter['target']} {state}: {letter['problem']}")
        lines.append(f"    about: {letter['record']}")
    return "\n".join(lines or ["Nothing has fired yet."]) + "\n"


def _outcome(item: dict[str, Any]) -> str:
    if item["pending"] and item["file"]:
        return f"began {item['file']}; what is missing is tried again"
    if item["pending"]:
        return "wrote nothing yet: it is being made, or tried again"
    found = item["outcome"]
    if found.get("covered_by"):
        return f"left out: {found['covered_by']} came at the same time"
    written = [found[name] for name in ("file", "contract") if found.get(name)]
    names = ", ".join(shorten_path(path, home()) for path in written)
    told = [f"wrote {names}"] if names else []
    told += [f"left out the record: {found['skipped']}"] if found.get("skipped") else []
    return "; ".join(told) or "wrote nothing"


METHOD = Method("triggers", TriggersParams, handle, render)
