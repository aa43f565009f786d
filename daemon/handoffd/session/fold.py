"""Events to session state. Pure: no clock, no disk; the same events give the same state."""

from handoffd.session.state import (
    DECISIONS_MAX,
    FILES_MAX,
    QUESTIONS_MAX,
    RECENT_UUIDS_MAX,
    TODOS_MAX,
    UUID_KEPT,
    Receipt,
    SessionState,
    Value,
)
from handoffd.session.text import (
    GOAL_MAX,
    NOW_MAX,
    PATH_MAX,
    keep,
    last_intention,
    opening,
    request,
)
from handoffd.transcript.events import (
    Asked,
    Decided,
    Edited,
    Event,
    Listed,
    Moved,
    Origin,
    Planned,
    Prompt,
    Resulted,
    Said,
    Seen,
    Stopped,
    Todo,
)
from handoffd.transcript.records import Record

# A prompt shorter than this asks to go on; it states no goal. Scripts without spaces say
# more in a character, so they are counted by character.
GOAL_WORDS_MIN = 4
GOAL_CHARACTERS_MIN = 8
UNKNOWN_KINDS_MAX = 20


def is_repeated(state: SessionState, record: Record) -> bool:
    """Tell a record that was appended again (seen after sleep, and in copied histories)."""
    uuid = record.text("uuid")[:UUID_KEPT]
    if not uuid:
        return False
    if uuid in state.recent_uuids:
        return True
    state.recent_uuids.append(uuid)
    if len(state.recent_uuids) > RECENT_UUIDS_MAX:
        del state.recent_uuids[0]
    return False


def fold(state: SessionState, event: Event, transcript: str) -> None:
    """Take one event into the state; `transcript` names the file for the receipt."""
    match event:
        case Seen():
            _seen(state, event, transcript)
        case Edited():
            _edited(state, event, transcript)
        case _ if event.origin.sidechain:
            return
        case Prompt():
            _prompt(state, event, transcript)
        case Said():
            _go_on(state, event.origin, transcript)
            _say(state, event.origin, opening(event.text), transcript)
            _intend(state, event, transcript)
        case Listed() | Planned():
            _plans(state, event, transcript)
        case Decided():
            _decide(state, event, transcript)
        case Resulted():
            state.answered = False
            _go_on(state, event.origin, transcript)
        case Asked() | Stopped():
            _stopped(state, event, transcript)
        case Moved():
            state.cwd, state.root = event.cwd, ""


def _receipt(origin: Origin, transcript: str, evidence: str) -> Receipt:
    return Receipt(transcript, origin.uuid, origin.offset, origin.time, evidence)


def _seen(state: SessionState, event: Seen, transcript: str) -> None:
    origin = event.origin
    if origin.sidechain:
        state.agent_records += 1
    else:
        state.records += 1
        _envelope(state, event, transcript)
    if not event.known and (event.kind in state.unknown or len(state.unknown) < UNKNOWN_KINDS_MAX):
        kind = event.kind[:40] or "(none)"
        state.unknown[kind] = state.unknown.get(kind, 0) + 1
    if event.conversation and origin.time > state.last_time:
        state.last_time = origin.time


def _envelope(state: SessionState, event: Seen, transcript: str) -> None:
    # The first cwd fixes the project: a `cd` in a tool call moves nothing.
    state.cwd = state.cwd or event.cwd
    state.entrypoint = state.entrypoint or event.entrypoint
    if event.conversation and not state.first_time:
        state.first_time = event.origin.time
    known = state.branch.text if state.branch else ""
    if event.branch and event.branch not in ("HEAD", known):
        text, _ = keep(event.branch, PATH_MAX)
        state.branch = Value(text, _receipt(event.origin, transcript, "observed"))


def _prompt(state: SessionState, event: Prompt, transcript: str) -> None:
    state.prompts += 1
    receipt = _receipt(event.origin, transcript, "quoted")
    text, masked = keep(request(event.text), GOAL_MAX)
    state.redacted += masked
    if not text:
        return
    state.last_prompt = Value(text, receipt)
    state.intention, state.answered = None, False
    state.questions = []  # whoever types on has dealt with them
    if state.goal is None and _is_substantial(text):
        state.goal = state.last_prompt
    state.now = Value(keep(opening(event.text) or text, NOW_MAX)[0], receipt)
    state.status = Value("in_progress", _receipt(event.origin, transcript, "observed"))


def _go_on(state: SessionState, origin: Origin, transcript: str) -> None:
    if state.status is not None and state.status.text == "blocked":
        state.status = Value("in_progress", _receipt(origin, transcript, "observed"))


def _is_substantial(text: str) -> bool:
    if len(text.split()) >= GOAL_WORDS_MIN:
        return True
    return not text.isascii() and len(text) >= GOAL_CHARACTERS_MIN


def _say(state: SessionState, origin: Origin, sentence: str, transcript: str) -> None:
    text, masked = keep(sentence, NOW_MAX)
    state.redacted += masked
    if text:
        state.now = Value(text, _receipt(origin, transcript, "quoted"))


def _intend(state: SessionState, event: Said, transcript: str) -> None:
    """Keep what the assistant last said it would do; a statement without it settles the matter."""
    text, masked = keep(last_intention(event.text), NOW_MAX)
    state.redacted += masked
    receipt = _receipt(event.origin, transcript, "quoted")
    state.intention = Value(text, receipt) if text else None
    state.answered = not text


def _decide(state: SessionState, event: Decided, transcript: str) -> None:
    """Keep what a person decided; the questions are no longer open."""
    state.questions = []
    for question, answer in event.answers:
        text = f"{question} {answer}"
        state.decisions.append(_quote(state, text, event.origin, transcript))
    del state.decisions[:-DECISIONS_MAX]


def _quote(state: SessionState, text: str, origin: Origin, transcript: str) -> Value:
    kept, masked = keep(text, NOW_MAX)
    state.redacted += masked
    return Value(kept, _receipt(origin, transcript, "quoted"))


def _plans(state: SessionState, event: Listed | Planned, transcript: str) -> None:
    if isinstance(event, Listed):
        state.todos = []
    for todo in event.todos[:TODOS_MAX] if isinstance(event, Listed) else (event.todo,):
        _plan(state, todo, event.origin, transcript)


def _plan(state: SessionState, todo: Todo, origin: Origin, transcript: str) -> None:
    """Enter a thing to do, or what became of it; what was deleted is taken out."""
    text, masked = keep(todo.text, NOW_MAX)
    state.redacted += masked
    kept = []
    known = None
    for key, status, value in state.todos:
        if key == todo.key:
            known = (status, value)
        else:
            kept.append((key, status, value))
    status = todo.status or (known[0] if known else "pending")
    said = Value(text, _receipt(origin, transcript, "quoted"))
    value = known[1] if known and not text else said
    if value.text and status != "deleted":
        kept.append((todo.key, status, value))
    state.todos = sorted(kept, key=_todo_order)[-TODOS_MAX:]


def _todo_order(item: tuple[str, str, Value]) -> tuple[int, str]:
    return (int(item[0]), "") if item[0].isdigit() else (1 << 30, item[0])


def _edited(state: SessionState, event: Edited, transcript: str) -> None:
    path, masked = keep(event.path, PATH_MAX)
    state.redacted += masked
    state.files = [value for value in state.files if value.text != path]
    state.files.insert(0, Value(path, _receipt(event.origin, transcript, "observed")))
    del state.files[FILES_MAX:]
    if not event.origin.sidechain:
        state.status = Value("in_progress", _receipt(event.origin, transcript, "observed"))


def _stopped(state: SessionState, event: Asked | Stopped, transcript: str) -> None:
    if isinstance(event, Asked) or event.error:
        state.status = Value("blocked", _receipt(event.origin, transcript, "observed"))
    state.answered = False
    if isinstance(event, Asked) and event.questions:
        state.questions = [
            _quote(state, text, event.origin, transcript)
            for text in event.questions[:QUESTIONS_MAX]
        ]
    if isinstance(event, Stopped) and event.error:
        _say(state, event.origin, f"Stopped by an error: {event.error}", transcript)
