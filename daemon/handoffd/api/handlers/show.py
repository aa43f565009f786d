"""show: show the current state of a project."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field

from handoff.common.paths import home
from handoffd.api import item_closing
from handoffd.api.handlers.why import excerpt
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import named_project
from handoffd.api.terminal_text import Style, age, fit, shorten_path, wrap
from handoffd.context import Context
from handoffd.projects.history import described
from handoffd.projects.lanes import Lane, describe
from handoffd.projects.registry import Project
from handoffd.runtime import clock
from handoffd.session import dropped
from handoffd.session.fields import FIELDS, LISTS, NOT_STATED
from handoffd.session.state import Receipt
from handoffd.session.text import redact_values, shorten
from handoffd.store.item_marks import ItemMark
from handoffd.store.state import Change

LOG_MAX = 40
_LOG_INDENT, _DROPPED_INDENT, _WORDS_MAX = 22, 10, 160


class ShowParams(InProject):
    receipts: bool = Field(default=False, description="show where each value comes from")
    log: bool = Field(default=False, description="show how goal, status, next and tests changed")
    dropped: bool = Field(
        default=False, description="show the items that the last compaction's summary lacks"
    )


async def handle(context: Context, params: ShowParams, _send: Send) -> MethodReply:
    project = named_project(context, params)
    refused = context.policy.refusal(project.id, project.root.path)
    if not refused:
        context.project_states.refresh(project)
    view = context.project_states.view(project)
    active = context.project_states.active(project)
    main = view.main
    data = {
        "project": project.root.path,
        "document": redact_values(view.whole),
        "idle_seconds": round(main.idle_seconds, 1) if main else None,
        "lanes": [
            *(_lane(lane, main) for lane in context.project_states.lanes(project.id)),
            *(_lane(lane, main) for lane in view.elsewhere),
        ],
        "unfinished": [lane.state.session_id for lane in view.unfinished],
        "parked": redact_values(view.parked),
        "items": item_closing.described(view),
        "stamp": item_closing.stamp_of(view),
        "receipts": {name: receipt._asdict() for name, receipt in view.receipts.items()},
        "explained": params.receipts,
        "uncommitted": redact_values(active.git.uncommitted),
        "refused": refused or None,
        "not_written": _reason(context, project),
    }
    if params.log:
        changes = context.daemon.state.changes(project.id, LOG_MAX) if project.id else []
        marks = context.core.item_marks.of(project.id)
        data["log"] = redact_values([_entry(context, change, marks) for change in changes])
        data["marks"] = [mark._asdict() for mark in marks]
    if params.dropped:
        lanes = context.project_states.lanes(project.id) if project.id else []
        lanes = sorted(lanes, key=lambda lane: lane.state.last_time, reverse=True)
        data["dropped"] = redact_values([one for lane in lanes for one in _dropped(context, lane)])
    remember = item_closing.remember(context.core, project, data["stamp"])
    printed = None if params.log or params.dropped else remember
    return MethodReply(data, project=project.root.path, printed=printed)


def _dropped(context: Context, lane: Lane) -> Iterator[dict[str, Any]]:
    """Yield the items of a session that the summary of its last compaction does not mention."""
    for kind, (text, receipt) in dropped.unsettled(lane.state):
        located = receipt._replace(transcript=receipt.transcript or lane.state.session_id)
        yield {
            "session_id": lane.state.session_id,
            "kind": kind,
            "text": text,
            "receipt": located._asdict(),
            "words": excerpt(context, located, text) or None,
        }


def _entry(context: Context, change: Change, marks: Sequence[ItemMark]) -> dict[str, Any]:
    """Return a change as data, with the words that its receipt names.

    If items only went away because a person closed them, no record is the cause.
    """
    entry = dict(described(change))
    removed = entry.get("removed", [])
    found = [m for m in marks if m.text in removed and clock.parse(m.marked_at) >= change.at]
    entry["closed"] = {mark.text: mark.state for mark in reversed(found)}
    if found and not entry["added"] and all(item in entry["closed"] for item in removed):
        age_seconds = round(max(clock.wall() - clock.parse(found[0].marked_at), 0.0), 1)
        at = found[0].marked_at
        return {**entry, "at": at, "age_seconds": age_seconds, "receipt": None, "words": None}
    receipt = entry["receipt"]
    new = [*entry.get("added", []), entry["after"]]
    words = excerpt(context, Receipt(**receipt), str(new[0])) if receipt else ""
    return {**entry, "words": words or None}


def _reason(context: Context, project: Project) -> str | None:
    return context.project_states.refusal_to_write(context.project_states.active(project)) or None


def _lane(lane: Lane, main: Lane | None) -> dict[str, Any]:
    return {
        **describe(lane.state),
        "main": main is not None and lane.state.session_id == main.state.session_id,
        "live": lane.live,
        "killed": lane.killed,
        "outdated": lane.outdated,
        "relation": lane.relation or None,
        "place": lane.place or None,
        "job": lane.job or None,
        "idle_seconds": round(lane.idle_seconds, 1),
    }


def render(data: dict[str, Any], style: Style) -> str:
    if data.get("log") is not None:
        return _render_log(data, style)
    if data.get("dropped") is not None:
        return _render_dropped(data, style)
    document = data["document"]
    lines = [style.bold(fit(shorten_path(data["project"], home()), style.columns)), ""]
    if document.get("goal") == document.get("now") == NOT_STATED and not data.get("refused"):
        return "\n".join([*lines, "Nothing is known of this project yet.", ""])
    for name in dict.fromkeys((*FIELDS, *LISTS, *document)):
        lines += _field(name, document.get(name), data, style)
    if data.get("idle_seconds") is not None:
        lines += wrap("last active", f"{age(data['idle_seconds'])} ago", style.columns, 14)
    for label, text in _beside(data):
        lines += wrap(label, text, style.columns, 14)
    if data.get("refused"):
        lines += ["", f"This project is {data['refused']}: nothing new is learned about it."]
    elif data.get("not_written"):
        lines += ["", *wrap("not written:", data["not_written"], style.columns, 13)]
    return "\n".join(lines) + "\n"


def _beside(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each line about other sessions and older items."""
    unfinished = data.get("unfinished", [])
    for lane in data.get("lanes", []):
        text = f"{lane['session_id'][:8]}: {lane['now'] or lane['goal'] or ''}"
        if lane["relation"]:
            place = lane["place"] or "background agent"
            state = lane["job"] or ("live" if lane["live"] else f"{age(lane['idle_seconds'])} ago")
            yield "elsewhere", f"{place}, {state}, {lane['session_id'][:8]}: {lane['goal'] or ''}"
        elif lane["live"] and not lane["main"]:
            yield "also live", text
        elif lane["session_id"] in unfinished:
            yield "unfinished", f"{lane['session_id'][:8]}: {lane['goal']}"
        if lane["main"] and lane["outdated"]:
            yield "note", "this session was understood by an older version, and not read since"
    for number, item in enumerate(data.get("parked", [])):
        yield "" if number else "older items", str(item)


def _render_log(data: dict[str, Any], style: Style) -> str:
    """Return the history of a project, the newest change first."""
    lines = [style.bold(fit(shorten_path(data["project"], home()), style.columns)), ""]
    if not data["log"]:
        return "\n".join([*lines, "No change is known yet.", ""])
    for entry in data["log"]:
        when = f"{age(entry['age_seconds'])} ago"
        for number, text in enumerate(_changed(entry)):
            label = f"{'' if number else when:<13} {'' if number else entry['field']:<7}"
            lines += wrap(label, text, style.columns, _LOG_INDENT)
        why = wrap("", _why(entry), style.columns, _LOG_INDENT)
        lines += [style.dim(line) for line in why]
    return "\n".join(lines) + "\n"


def _render_dropped(data: dict[str, Any], style: Style) -> str:
    """Return the items that the last compaction's summary does not mention, with their sources."""
    lines = [style.bold(fit(shorten_path(data["project"], home()), style.columns)), ""]
    if not data["dropped"]:
        compacted = any(lane.get("compactions") for lane in data.get("lanes", []))
        said = (
            "The last summary mentions every open item." if compacted else "No compaction is known."
        )
        return "\n".join([*lines, said, ""])
    session = ""
    for item in data["dropped"]:
        if item["session_id"] != session:
            session = item["session_id"]
            lines.append(f"Not in the summary of session {session[:8]}:")
        lines += wrap(f"  {item['kind']}", item["text"], style.columns, _DROPPED_INDENT)
        for text in _source(item):
            lines += [style.dim(line) for line in wrap("", text, style.columns, _DROPPED_INDENT)]
    return "\n".join(lines) + "\n"


def _source(item: dict[str, Any]) -> list[str]:
    """Return the record that an item comes from, and its words if they are not the item's."""
    receipt, words = item["receipt"], item["words"] or ""
    said = [] if not words or words == item["text"] else [f"“{shorten(words, _WORDS_MAX)}”"]
    return [*said, _place(receipt)]


def _changed(entry: dict[str, Any]) -> list[str]:
    if "added" in entry:
        removed = (f"- {item}{_mark(entry['closed'].get(item))}" for item in entry["removed"])
        return [*(f"+ {item}" for item in entry["added"]), *removed]
    before, after = entry["before"], entry["after"] or "(nothing)"
    short = str(before) if before and entry["field"] == "status" else ""
    return [f"{short} → {after}" if short else str(after)]


def _mark(state: str | None) -> str:
    words = {"done": "done", "dropped": "dropped", "untrue": "not true"}
    return f" [{words[state]}, says a person]" if state in words else ""


def _why(entry: dict[str, Any]) -> str:
    receipt = entry["receipt"]
    if receipt is None and entry["closed"]:
        return "because a person closed it"
    if receipt is None:
        return "because a person set it" if entry["after"] else "because nothing states it any more"
    session = f"session {(entry['session_id'] or '')[:8]}"
    words = shorten(entry["words"], _WORDS_MAX) if entry["words"] else ""
    return f"because: “{words}” ({session})" if words else f"because of {session}"


def _field(name: str, value: Any, data: dict[str, Any], style: Style) -> list[str]:
    """Return the lines of a value, one per item of a list, with receipts if they were requested."""
    if not value:
        return []
    explained = data.get("explained")
    label = name.replace("_", " ")
    if not isinstance(value, list) or (name not in LISTS and not explained):
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        return [*wrap(label, text, style.columns, 14), *_receipt(name, data, style)]
    lines = []
    for number, item in enumerate(value):
        text = f"{number + 1}. {item}" if name == "next" else str(item)
        lines += wrap("" if number else label, text, style.columns, 14)
        lines += _receipt(f"{name}.{number}", data, style)
    return lines


def _receipt(name: str, data: dict[str, Any], style: Style) -> list[str]:
    found = data["receipts"].get(name) if data.get("explained") else None
    if found is None:
        return []
    return [style.dim(line) for line in wrap("", _place(found), style.columns, 14)]


def _place(found: dict[str, Any]) -> str:
    return f"{found['evidence']} {found['time']}, record {found['uuid']}, byte {found['offset']}"


METHOD = Method("show", ShowParams, handle, render, (*FIELDS, *LISTS))
