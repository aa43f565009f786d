"""Choose the session of a project that the checkpoint shows, and compose its document. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from handoffd.session import insights
from handoffd.session.fields import NOT_STATED
from handoffd.session.state import Receipt, SessionState, Value
from handoffd.session.storage import context_of
from handoffd.session.text import PATH_MAX, keep

# A lane is live for this long after its last record.
LIVE_SECONDS = 30 * 60.0
# A session that only said "continue" may inherit a goal that is at most so old.
INHERITED_SECONDS = 7 * 24 * 3600.0


class SetByPerson(Protocol):
    """A value that a person set (see store.core.Setting)."""

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
    # The session's client is known to be gone.
    ended: bool = False
    # The question that its client asks a person at this moment, and the time of asking.
    waiting: Value | None = None
    # The caller asks for the state of this lane, even if there are others.
    wanted: bool = False

    @property
    def recent(self) -> bool:
        return self.idle_seconds < LIVE_SECONDS

    @property
    def live(self) -> bool:
        return self.recent and not self.ended


@dataclass(slots=True)
class ProjectView:
    """The current state of a project: the document, its receipts, and obsolete settings."""

    document: dict[str, Any]
    receipts: dict[str, Receipt] = field(default_factory=dict)
    main: Lane | None = None
    live: list[Lane] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    # A person's own keys in the file.
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def whole(self) -> dict[str, Any]:
        return {**self.extras, **self.document}


def choose(lanes: Sequence[Lane]) -> Lane | None:
    """Return the most recently active lane; a program's run never replaces a person's recent one.

    The lane that the caller wants comes first, if it has a prompt.
    """
    for lane in lanes:
        if lane.wanted and lane.state.prompts:
            return lane
    started = sorted(
        (lane for lane in lanes if lane.state.prompts or lane.state.files),
        key=lambda lane: lane.idle_seconds,
    )
    persons = [lane for lane in started if not lane.state.headless]
    if persons and persons[0].recent:
        return _latest_work(persons)
    return _latest_work(started) if started else None


def _latest_work(lanes: Sequence[Lane]) -> Lane:
    """Return the latest lane; a lane with only a question asked in it does not replace work."""
    for lane in lanes:
        if lane.idle_seconds < INHERITED_SECONDS and not insights.is_aside(lane.state):
            return lane
    return lanes[0]


def contested(state: SessionState, lanes: Sequence[Lane]) -> list[str]:
    """Return the files that another live session has changed as well, and neither has committed.

    If one session became silent before the other began, the later one continues its work, so the
    two do not compete.
    """
    rivals = [
        lane.state
        for lane in lanes
        if lane.live
        and lane.state.session_id != state.session_id
        and lane.state.last_time > state.first_time
        and state.last_time > lane.state.first_time
    ]
    mine = _uncommitted(state)
    return [
        f"{path.removeprefix(f'{state.root}/')} (session {rival.session_id[:8]})"
        for rival in rivals
        for path in _uncommitted(rival)
        if path in mine
    ]


def _uncommitted(state: SessionState) -> list[str]:
    return [file.path for file in state.files if insights.has_uncommitted_edit(state, file)]


def compose(
    root: str,
    lanes: Sequence[Lane],
    settings: Mapping[str, SetByPerson],
    branch: str | None,
    uncommitted: Sequence[str],
) -> ProjectView:
    """Compose the document of a project from its lanes, its git state and a person's settings."""
    main = choose(lanes)
    state = main.state if main else SessionState("")
    view = ProjectView(
        {}, main=main, live=[lane for lane in lanes if lane.live and lane.state.prompts]
    )
    before = _predecessor(state, lanes)
    values: dict[str, Value | None] = {
        "goal": insights.goal(state) or _inherited(insights.goal(before), before),
        "status": _status(main),
        "now": (main and main.waiting) or _now(state, before),
        "hypothesis": insights.hypothesis(state),
        "outcome": insights.outcome(state),
        "branch": state.branch,
    }
    document: dict[str, Any] = {
        name: value.text if value else None for name, value in values.items()
    }
    document["status"] = document["status"] or "in_progress"
    edited = _files(root, state, view) or _files(root, before, view)
    seen = [keep(path, PATH_MAX) for path in uncommitted]
    others = [path for path in seen if path and path not in edited]
    document["files"] = [*edited, *others][: insights.FILES_SHOWN]
    if branch and keep(branch, PATH_MAX) != document["branch"]:
        document["branch"] = keep(branch, PATH_MAX)
        values["branch"] = None  # git states it now, and no record does
    document["session_id"] = state.session_id or None
    inherited = _lists(before)
    for name, own in _lists(state).items():
        listed = own or [_inherited_value(value, before) for value in inherited[name]]
        if listed:
            document[name] = [value.text for value in listed]
            view.receipts |= {f"{name}.{n}": value.receipt for n, value in enumerate(listed)}
    if state.previous_goal:
        values["previous_goal"] = state.previous_goal
        document["previous_goal"] = state.previous_goal.text
    waits = main is not None and main.waiting is not None
    now_parts = [] if waits else insights.now_parts(state)
    parts = {"goal": insights.goal_parts(state), "now": now_parts}
    view.receipts |= {
        f"{name}.{number}": part.receipt
        for name, found in parts.items()
        if len(found) > 1
        for number, part in enumerate(found)
    }
    view.receipts |= {name: value.receipt for name, value in values.items() if value}
    view.receipts = {name: _located(found, state) for name, found in view.receipts.items()}
    _apply_settings(document, view, main, settings)
    document["goal"] = document["goal"] or NOT_STATED
    document["now"] = document["now"] or NOT_STATED
    view.document = document
    return view


def _predecessor(state: SessionState, lanes: Sequence[Lane]) -> SessionState:
    """Return the session that a session without a goal of its own continues, or an empty one."""
    if insights.goal(state) is None and state.session_id:
        for lane in sorted(lanes, key=lambda lane: lane.idle_seconds):
            # A program's run may also continue a program's; a person's session may not.
            fits = state.headless or not lane.state.headless
            known = fits and insights.goal(lane.state)
            if known and lane.idle_seconds < INHERITED_SECONDS:
                return lane.state
    return SessionState("")


def _inherited(value: Value | None, before: SessionState) -> Value | None:
    return _inherited_value(value, before) if value else None


def _inherited_value(value: Value, before: SessionState) -> Value:
    """Return another session's value as an inferred one, since it was not said in this session."""
    return Value(value.text, _located(value.receipt, before)._replace(evidence="inferred"))


def _now(state: SessionState, before: SessionState) -> Value | None:
    """Return the current work; a session that only said "continue" inherits the last one's."""
    if before.session_id and not insights.has_begun(state):
        return _inherited(insights.now(before), before)
    return insights.now(state)


def _status(main: Lane | None) -> Value | None:
    if main and main.waiting:
        return Value("blocked", main.waiting.receipt)
    return insights.status(main.state) if main else None


def _located(receipt: Receipt, state: SessionState) -> Receipt:
    return receipt if receipt.transcript else receipt._replace(transcript=state.session_id)


def _lists(state: SessionState) -> dict[str, list[Value]]:
    return {
        "next": insights.upcoming(state),
        "questions": insights.questions(state),
        "dead_ends": insights.dead_ends(state),
        "decisions": state.decisions,
        "tests": insights.tests(state),
    }


def _files(root: str, state: SessionState, view: ProjectView) -> list[str]:
    inside: list[str] = []
    for file in insights.files(state):
        path = file.path
        if path.startswith(f"{root}/"):
            path = path[len(root) + 1 :]
        if path not in inside:
            view.receipts[f"files.{len(inside)}"] = _located(file.receipt, state)
            inside.append(path)
    return inside


def describe(state: SessionState) -> dict[str, Any]:
    """Return the facts about one session besides the fields of the document."""
    goal, now = insights.goal(state), insights.now(state)
    return {
        "session_id": state.session_id,
        "headless": state.headless,
        "goal": goal.text if goal else None,
        "now": now.text if now else None,
        "todos": [{"text": todo.value.text, "status": todo.status} for todo in state.todos],
        "commits": [value.text for value in state.commits],
        "pull_requests": [value.text for value in state.pull_requests],
        "last_human_prompt": state.last_prompt.text if state.last_prompt else None,
        "last_activity": state.last_time or None,
        "model": state.model or None,
        "context": context_of(state) or None,
        "records": state.records,
        "agent_records": state.agent_records,
        "prompts": state.prompts,
        "compactions": state.compactions,
        "unknown": dict(state.unknown),
    }


def _apply_settings(
    document: dict[str, Any],
    view: ProjectView,
    main: Lane | None,
    settings: Mapping[str, SetByPerson],
) -> None:
    """Let a person's settings win, until a session explicitly states another value."""
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
        # A later prompt of a person, in any session, is newer information about the current work.
        prompt = main.state.last_prompt if main else None
        return prompt is not None and prompt.receipt.time > setting.set_at
    return _new_session_stated_goal(main, setting)


def _new_session_stated_goal(main: Lane | None, setting: SetByPerson) -> bool:
    if main is None or main.state.session_id == setting.session_id:
        return False
    goal = insights.goal(main.state)
    return goal is not None and goal.receipt.time > setting.set_at
