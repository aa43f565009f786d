"""Several sessions of one project: which one the checkpoint shows, and what it then says. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from handoffd.handoffs.checkpoint import NOT_STATED
from handoffd.session.state import Receipt, SessionState, Value
from handoffd.session.text import PATH_MAX, keep

# A lane is live for this long after its last record.
LIVE_SECONDS = 30 * 60.0
# How far back a session that only said "continue" may take its goal from.
INHERITED_SECONDS = 7 * 24 * 3600.0
FILES_SHOWN = 20
NEXT_SHOWN = 5


class SetByPerson(Protocol):
    """A value a person set (see store.core.Setting)."""

    @property
    def value(self) -> Any: ...
    @property
    def session_id(self) -> str: ...
    @property
    def set_at(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Lane:
    state: SessionState
    idle_seconds: float

    @property
    def live(self) -> bool:
        return self.idle_seconds < LIVE_SECONDS


@dataclass(slots=True)
class View:
    """What is true of a project now: the document, its receipts, and what became obsolete."""

    document: dict[str, Any]
    receipts: dict[str, Receipt] = field(default_factory=dict)
    main: Lane | None = None
    live: list[Lane] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    # What the file says besides: a person's own keys.
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def whole(self) -> dict[str, Any]:
        return {**self.extras, **self.document}


def choose(lanes: Sequence[Lane]) -> Lane | None:
    """Return the most recently active lane; a program's run never displaces a live person's."""
    started = sorted(
        (lane for lane in lanes if lane.state.prompts or lane.state.files),
        key=lambda lane: lane.idle_seconds,
    )
    persons = [lane for lane in started if not lane.state.headless]
    if persons and persons[0].live:
        return persons[0]
    return started[0] if started else None


def compose(
    root: str,
    lanes: Sequence[Lane],
    settings: Mapping[str, SetByPerson],
    branch: str | None,
    uncommitted: Sequence[str],
) -> View:
    """Make the document of a project from its lanes, its git state and what a person set."""
    main = choose(lanes)
    view = View({}, main=main, live=[lane for lane in lanes if lane.live and lane.state.prompts])
    goal = _goal(main, lanes)
    values: dict[str, Value | None] = {
        "goal": goal,
        "status": main.state.status if main else None,
        "now": main.state.now if main else None,
    }
    document: dict[str, Any] = {
        name: value.text if value else None for name, value in values.items()
    }
    document["status"] = document["status"] or "in_progress"
    document |= {"hypothesis": None, "outcome": None}
    edited = _files(root, main)
    seen = [keep(path, PATH_MAX)[0] for path in uncommitted]
    others = [path for path in seen if path and path not in edited]
    document["files"] = [*edited, *others][:FILES_SHOWN]
    known = main.state.branch.text if main and main.state.branch else None
    document["branch"] = keep(branch, PATH_MAX)[0] if branch else known
    document["session_id"] = main.state.session_id if main else None
    document |= _next(main, view)
    for name in ("questions", "decisions"):
        listed: list[Value] = getattr(main.state, name) if main else []
        if listed:
            document[name] = [value.text for value in listed]
            view.receipts |= {f"{name}.{n}": value.receipt for n, value in enumerate(listed)}
    view.receipts |= {name: value.receipt for name, value in values.items() if value}
    _apply_settings(document, view, main, settings)
    document["goal"] = document["goal"] or NOT_STATED
    document["now"] = document["now"] or NOT_STATED
    view.document = document
    return view


def _goal(main: Lane | None, lanes: Sequence[Lane]) -> Value | None:
    """Return the lane's goal, or the one it goes on with: then it is inferred, and says so."""
    if main is None or main.state.goal is not None:
        return main.state.goal if main else None
    for lane in sorted(lanes, key=lambda lane: lane.idle_seconds):
        goal = lane.state.goal
        if goal and not lane.state.headless and lane.idle_seconds < INHERITED_SECONDS:
            receipt = goal.receipt
            return Value(
                goal.text,
                Receipt(receipt.transcript, receipt.uuid, receipt.offset, receipt.time, "inferred"),
            )
    return None


def _next(main: Lane | None, view: View) -> dict[str, Any]:
    """Return what comes next: open todos, then what was announced or asked for last."""
    if main is None:
        return {}
    state = main.state
    open_todos = [
        value
        for wanted in ("in_progress", "pending")
        for _, status, value in state.todos
        if status == wanted
    ]
    values = open_todos[:NEXT_SHOWN]
    asked = None if state.answered else state.last_prompt
    for value in (state.intention, asked):
        if value and len(values) < NEXT_SHOWN and value.text not in (v.text for v in values):
            values.append(value)
    for number, value in enumerate(values):
        view.receipts[f"next.{number}"] = value.receipt
    return {"next": [value.text for value in values]} if values else {}


def _files(root: str, main: Lane | None) -> list[str]:
    inside = []
    for value in main.state.files if main else []:
        path = value.text
        if path.startswith(f"{root}/"):
            inside.append(path[len(root) + 1 :])
        elif not path.startswith("/"):
            inside.append(path)
    return inside[:FILES_SHOWN]


def _apply_settings(
    document: dict[str, Any],
    view: View,
    main: Lane | None,
    settings: Mapping[str, SetByPerson],
) -> None:
    """Let the person win, until a session states another value in so many words."""
    for name, setting in settings.items():
        if name == "files":
            if _new_session_stated_goal(main, setting):
                view.superseded.append(name)
            else:
                added = [path for path in setting.value if path not in document["files"]]
                document["files"] = document["files"] + added
        elif _superseded(name, main, setting):
            view.superseded.append(name)
            if name == "goal" and setting.value != document["goal"]:
                document["previous_goal"] = setting.value
        else:
            document[name] = setting.value
            view.receipts.pop(name, None)


def _superseded(name: str, main: Lane | None, setting: SetByPerson) -> bool:
    if name in ("now", "status"):
        # What a person types into any session later says what is going on now.
        prompt = main.state.last_prompt if main else None
        return prompt is not None and prompt.receipt.time > setting.set_at
    return _new_session_stated_goal(main, setting)


def _new_session_stated_goal(main: Lane | None, setting: SetByPerson) -> bool:
    if main is None or main.state.session_id == setting.session_id or main.state.goal is None:
        return False
    return main.state.goal.receipt.time > setting.set_at
