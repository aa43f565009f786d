"""Choose the session of a project that the checkpoint shows, and compose its document. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from handoffd.runtime import clock
from handoffd.session import insights
from handoffd.session.fields import NOT_STATED
from handoffd.session.items import PERSON, Item, item_of
from handoffd.session.state import Receipt, SessionState, Value
from handoffd.session.storage import context_of
from handoffd.session.text import PATH_MAX, keep

# A lane is live for this long after its last record.
LIVE_SECONDS = 30 * 60.0
# A session that only said "continue" may inherit a goal that is at most so old.
INHERITED_SECONDS = 7 * 24 * 3600.0
# An open item that nobody touched for so long is parked: it is counted, and not told.
PARKED_SECONDS = 14 * 24 * 3600.0
PARKABLE = ("next", "questions")
UNFINISHED_MAX = 3


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
    # Its client was seen to be killed; and the seconds since its end, if that was seen.
    killed: bool = False
    ended_seconds: float | None = None
    # An older version of handoffd understood its transcript, which was not read anew.
    outdated: bool = False
    # A lane of another project that belongs to this one: how, and its path.
    relation: str = ""
    place: str = ""
    # The state of its background agent, as its client says.
    job: str = ""
    # The open items of its project that a person closed.
    closed: insights.Closed = ()

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
    # Other sessions of the project whose work is not finished, the latest first.
    unfinished: list[Lane] = field(default_factory=list)
    # Sessions in other work trees, in packages of this project, or in the project around it.
    elsewhere: list[Lane] = field(default_factory=list)
    # The open items, as `next` in the document has them.
    items: list[Item] = field(default_factory=list)
    # Open items that nobody touched for two weeks.
    parked: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    # A person's own keys in the file.
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def whole(self) -> dict[str, Any]:
        return {**self.extras, **self.document}


def choose(lanes: Sequence[Lane]) -> Lane | None:
    """Return the lane that worked last; a program's run never replaces a person's recent one.

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
    """Return the lane that worked last; only asking something does not replace work.

    A lane in which more than a question was asked replaces work that is done.
    """
    recent = [lane for lane in lanes if lane.idle_seconds < INHERITED_SECONDS]
    asked = next((lane for lane in recent if not insights.is_aside(lane.state)), lanes[0])
    working = [(seconds, n) for n, lane in enumerate(recent) if (seconds := _unworked(lane)) >= 0]
    if not working:
        return asked
    best = recent[min(working)[1]]
    return asked if asked.idle_seconds < best.idle_seconds and _is_completed(best) else best


def _unworked(lane: Lane) -> float:
    """Return the seconds since a lane last worked, or a negative number if it never did.

    In a session that is running, a request counts as work: its deeds are still to come.
    """
    state, times = lane.state, []
    if has_worked(state):
        times.append(state.worked_time or state.last_time)
    asked = state.last_prompt if lane.live and not insights.is_aside(state) else None
    if asked and not asked.text.endswith(("?", "？")):
        times.append(asked.receipt.time)
    if not times:
        return -1.0
    return lane.idle_seconds + max(clock.parse(state.last_time) - clock.parse(max(times)), 0.0)


def has_worked(state: SessionState) -> bool:
    """Return True if a session did something besides reading and talking."""
    return bool(
        state.edited_at or state.worked_time or state.commits or state.todos or state.checks
    )


def _is_completed(lane: Lane) -> bool:
    found = insights.status(lane.state, lane.closed)
    return found is not None and found.text == "completed"


def contested(state: SessionState, lanes: Sequence[Lane], *, silent_too: bool = False) -> list[str]:
    """Return the files that another live session has changed as well, and neither has committed.

    If one session became silent before the other began, the later one mostly continues its work,
    and the two do not compete: such a session counts only if the caller wants `silent_too`.
    """
    rivals = [
        lane.state
        for lane in lanes
        if lane.live
        and lane.state.session_id != state.session_id
        and (silent_too or _overlap(lane.state, state))
    ]
    mine = _uncommitted(state)
    return [
        f"{path.removeprefix(f'{state.root}/')} (session {rival.session_id[:8]})"
        for rival in rivals
        for path in _uncommitted(rival)
        if path in mine
    ]


def _overlap(one: SessionState, other: SessionState) -> bool:
    return one.last_time > other.first_time and other.last_time > one.first_time


def edited_files(state: SessionState) -> list[str]:
    """Return the files that a session has changed and not committed, the latest first."""
    files = [file for file in state.files if insights.has_uncommitted_edit(state, file)]
    files.sort(key=lambda file: -file.edited_at)
    return [file.path.removeprefix(f"{state.root}/") for file in files]


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
    closed = main.closed if main else ()
    inherited = _lists(before, closed)
    view.items = insights.open_items(state, closed) or insights.open_items(before, closed)
    # A person may have committed the changes meanwhile.
    for name, own in _lists(state, closed, clean=branch is not None and not uncommitted).items():
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
    view.unfinished = _unfinished(view, lanes)
    return view


def park(view: ProjectView, before: str) -> None:
    """Take the open items out of the document that nobody touched since a time."""
    for name in PARKABLE:
        items: list[str] = view.document.get(name, [])
        receipts = [view.receipts.get(f"{name}.{n}") for n in range(len(items))]
        old = [n for n, found in enumerate(receipts) if found and "" < found.time < before]
        if not old:
            continue
        view.parked += [items[n] for n in old]
        left = [n for n in range(len(items)) if n not in old]
        for n in range(len(items)):
            view.receipts.pop(f"{name}.{n}", None)
        view.receipts |= {
            f"{name}.{place}": found for place, n in enumerate(left) if (found := receipts[n])
        }
        view.document[name] = [items[n] for n in left]
        if name == "next":
            view.items = [view.items[n] for n in left]
        if not left:
            del view.document[name]


def _unfinished(view: ProjectView, lanes: Sequence[Lane]) -> list[Lane]:
    """Return the other lanes of persons that have left work undone, one per goal."""
    shown = {_plain(view.document["goal"])}
    found = []
    for lane in sorted(lanes, key=lambda lane: lane.idle_seconds):
        goal = insights.goal(lane.state)
        skipped = lane is view.main or lane.live or lane.state.headless
        if skipped or goal is None or lane.idle_seconds > PARKED_SECONDS:
            continue
        if has_worked(lane.state) and not _is_completed(lane) and _plain(goal.text) not in shown:
            shown.add(_plain(goal.text))
            found.append(lane)
    return found[:UNFINISHED_MAX]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .")


def _predecessor(state: SessionState, lanes: Sequence[Lane]) -> SessionState:
    """Return the session that a session without a goal of its own continues, or an empty one."""
    if insights.goal(state) is not None or not state.session_id:
        return SessionState("")
    known = [
        lane
        for lane in lanes
        if lane.idle_seconds < INHERITED_SECONDS
        and insights.goal(lane.state)
        # A person's session continues a program's only if that did some work.
        and (state.headless or not lane.state.headless or has_worked(lane.state))
    ]
    found = choose([replace(lane, wanted=False) for lane in known])
    return found.state if found else SessionState("")


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
    return insights.status(main.state, main.closed) if main else None


def _located(receipt: Receipt, state: SessionState) -> Receipt:
    return receipt if receipt.transcript else receipt._replace(transcript=state.session_id)


def _lists(
    state: SessionState, closed: insights.Closed, *, clean: bool = False
) -> dict[str, list[Value]]:
    asked = insights.questions(state, closed) or insights.offers(state, closed, clean=clean)
    return {
        "next": insights.upcoming(state, closed),
        "questions": asked,
        "dead_ends": insights.dead_ends(state),
        "rules": state.rules,
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
            kept = (part for part in view.receipts if part.partition(".")[0] != name)
            view.receipts = {part: view.receipts[part] for part in kept}
            if name == "next":
                view.items = [_persons(text, setting) for text in map(str, setting.value)]


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


def _persons(text: str, setting: SetByPerson) -> Item:
    """Return the item of a line that a person wrote."""
    receipt = Receipt("", setting.set_at, 0, setting.set_at, "quoted")
    return item_of(PERSON, "", Value(text, receipt))
