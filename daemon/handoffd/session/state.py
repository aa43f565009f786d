"""The fold of a session's events, and every value with its receipt. Pure."""

import json
from dataclasses import dataclass, field, fields
from typing import Any

# Raise it when the meaning of a stored fold changes: older ones are folded anew.
FOLD_VERSION = 4
FILES_MAX = 40
TODOS_MAX = 40
QUESTIONS_MAX = 5
DECISIONS_MAX = 10
RECENT_UUIDS_MAX = 128
UUID_KEPT = 12


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where a claim comes from; its class is observed, quoted or inferred."""

    transcript: str
    uuid: str
    offset: int
    time: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Value:
    """Something we say about a session, and why."""

    text: str
    receipt: Receipt


@dataclass(slots=True)
class SessionState:
    """What is known of one session. Bounded: it does not grow with the session's age."""

    session_id: str
    cwd: str = ""
    # The root of its project: found on disk once, then kept, whatever happens to the directory.
    root: str = ""
    branch: Value | None = None
    goal: Value | None = None
    now: Value | None = None
    status: Value | None = None
    last_prompt: Value | None = None
    intention: Value | None = None
    files: list[Value] = field(default_factory=list)
    # Things to do: key, status, text with its receipt.
    todos: list[tuple[str, str, Value]] = field(default_factory=list)
    questions: list[Value] = field(default_factory=list)
    decisions: list[Value] = field(default_factory=list)
    entrypoint: str = ""
    first_time: str = ""
    last_time: str = ""
    records: int = 0
    agent_records: int = 0
    prompts: int = 0
    # Whether the assistant has said its piece on the last prompt, with nothing more announced.
    answered: bool = False
    redacted: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    recent_uuids: list[str] = field(default_factory=list)

    @property
    def headless(self) -> bool:
        """Tell a program's run (`claude -p`, an SDK) from a person's session."""
        return self.entrypoint.startswith("sdk")


def dump(state: SessionState) -> str:
    """Write a state as JSON; by hand, since it is done for every record that arrives."""
    data: dict[str, Any] = {name: getattr(state, name) for name in _PLAIN}
    for name in _VALUES:
        value = getattr(state, name)
        data[name] = _parts(value) if value else None
    for name in _LISTS:
        data[name] = [_parts(value) for value in getattr(state, name)]
    data["todos"] = [[key, status, _parts(value)] for key, status, value in state.todos]
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def load(text: str) -> SessionState:
    data: dict[str, Any] = json.loads(text)
    for name in _VALUES:
        data[name] = _value(data[name]) if data[name] else None
    for name in _LISTS:
        data[name] = [_value(item) for item in data[name]]
    data["todos"] = [(key, status, _value(parts)) for key, status, parts in data["todos"]]
    return SessionState(**data)


_VALUES = ("branch", "goal", "now", "status", "last_prompt", "intention")
_LISTS = ("files", "questions", "decisions")
_PLAIN = tuple(f.name for f in fields(SessionState) if f.name not in (*_VALUES, *_LISTS, "todos"))


def _parts(value: Value) -> list[Any]:
    receipt = value.receipt
    return [
        value.text,
        receipt.transcript,
        receipt.uuid,
        receipt.offset,
        receipt.time,
        receipt.evidence,
    ]


def _value(parts: list[Any]) -> Value:
    return Value(parts[0], Receipt(*parts[1:]))
