"""What a record means to us. Pure, tolerant: an unknown record is no event, and is counted."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from handoffd.transcript.records import Record

CONVERSATION = frozenset({"user", "assistant", "system", "attachment", "progress"})
# Metadata records that we know and need not look into.
METADATA = frozenset(
    {
        "summary", "ai-title", "custom-title", "agent-name", "agent-color", "agent-setting", "tag",
        "last-prompt", "mode", "permission-mode", "atis-latch", "queue-operation",
        "file-history-snapshot", "file-history-delta", "pr-link", "frame-link", "bridge-session",
        "relocated", "worktree-state", "cost-state", "continued-in", "history-suppression",
        "content-replacement", "fork-context-ref", "api-request-shape", "api-request-blob",
        "api-request", "tools-used",
    }
)  # fmt: skip

# Everything we print into a session is marked; what carries the mark is never evidence again.
MARKER = "<handoffd-context"
_MARKED = re.compile(r"<handoffd-context\b.*?(?:</handoffd-context>|\Z)", re.DOTALL)

# User records that no person typed, by how they begin.
_NOT_TYPED = re.compile(
    r"\s*(?:<(?:local-command-(?:stdout|stderr|caveat)|command-(?:name|message)|bash-(?:input|stdout)"
    r"|task-notification|system-reminder|teammate-message|user-memory-input|session-start-hook"
    r"|tick|goal)\b|\[Request interrupted by user|Caveat: The messages below"
    r"|This session is being continued)"
)
_IDE_TAGS = ("ide_opened_file", "ide_selection")
_EDIT_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
# Attachments that repeat the whole list, and where they keep the text of an item.
_REMINDERS = {"todo_reminder": "content", "task_reminder": "subject"}
_ASKING_TOOLS = frozenset({"AskUserQuestion", "ExitPlanMode"})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an event comes from: enough to write a receipt."""

    offset: int
    uuid: str
    time: str
    sidechain: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """A record was read: the facts of its envelope."""

    origin: Origin
    kind: str
    known: bool
    cwd: str
    branch: str
    entrypoint: str
    conversation: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """A person typed this."""

    origin: Origin
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """The assistant said this."""

    origin: Origin
    text: str


@dataclass(frozen=True, slots=True)
class Edited:
    """A file was written or edited by a tool."""

    origin: Origin
    path: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The session waits for a person, who may have been asked something."""

    origin: Origin
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decided:
    """A person answered questions."""

    origin: Origin
    answers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Resulted:
    """A tool gave its result, or a person an answer: the session goes on."""

    origin: Origin


@dataclass(frozen=True, slots=True)
class Todo:
    """One item of a list of things to do."""

    key: str
    text: str
    status: str


@dataclass(frozen=True, slots=True)
class Listed:
    """The whole list of things to do, as it is now."""

    origin: Origin
    todos: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """One thing to do was added or changed; an empty text or status leaves it as it is."""

    origin: Origin
    todo: Todo


@dataclass(frozen=True, slots=True)
class Stopped:
    """The work was stopped by the person or by an error of the service."""

    origin: Origin
    error: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The session itself now lives in another directory."""

    origin: Origin
    cwd: str


Event = (
    Seen | Prompt | Said | Edited | Asked | Resulted | Listed | Planned | Decided | Stopped | Moved
)


def events(record: Record) -> Iterator[Event]:
    """Yield what a record means, its envelope first."""
    kind = record.text("type")
    origin = Origin(
        record.offset, record.text("uuid"), record.text("timestamp"), record.flag("isSidechain")
    )
    yield Seen(
        origin,
        kind,
        kind in CONVERSATION or kind in METADATA,
        record.cwd,
        record.text("gitBranch"),
        record.text("entrypoint"),
        kind in CONVERSATION,
    )
    reader = _READERS.get(kind)
    if reader is not None:
        yield from reader(record, origin)


def _user(record: Record, origin: Origin) -> Iterator[Event]:
    content = record.mapping("message").get("content")
    text = "\n".join(_texts(content))
    if text.lstrip().startswith("[Request interrupted by user"):
        yield Stopped(origin, "")
        return
    if _has_result(content):
        yield Resulted(origin)
        yield from _task_result(record, origin)
    typed = typed_text(record, text, content)
    if typed:
        yield Prompt(origin, typed)


def typed_text(record: Record, text: str, content: Any) -> str:
    """Return what a person typed in a user record, or an empty string."""
    if any(record.flag(key) for key in ("isMeta", "isCompactSummary", "isSidechain")):
        return ""
    if record.data.get("teamName") or record.mapping("origin").get("kind", "human") != "human":
        return ""
    if _has_result(content):
        return ""
    text = without_marked(_without_editor(text)).strip()
    return "" if _NOT_TYPED.match(text) else text


def _has_result(content: Any) -> bool:
    return isinstance(content, list) and any(_kind(block) == "tool_result" for block in content)


def without_marked(text: str) -> str:
    """Take out what we injected ourselves."""
    return _MARKED.sub("", text) if MARKER in text else text


def _without_editor(text: str) -> str:
    """Take out what an editor put beside the words; by search, since a regex may take its time."""
    for tag in _IDE_TAGS:
        kept, position = [], 0
        while (start := text.find(f"<{tag}>", position)) >= 0:
            end = text.find(f"</{tag}>", start)
            if end < 0:
                break
            kept.append(text[position:start])
            position = end + len(tag) + 3
        text = "".join([*kept, text[position:]])
    return text


def _assistant(record: Record, origin: Origin) -> Iterator[Event]:
    message = record.mapping("message")
    if record.flag("isApiErrorMessage"):
        yield Stopped(origin, "\n".join(_texts(message.get("content"))) or "API error")
        return
    content = message.get("content")
    for block in content if isinstance(content, list) else []:
        kind = _kind(block)
        if kind == "text" and isinstance(block.get("text"), str):
            # A quotation of our own words proves nothing about the session.
            if MARKER not in block["text"] and block["text"].strip():
                yield Said(origin, block["text"])
        elif kind == "tool_use":
            yield from _tool_use(block, origin)


def _tool_use(block: dict[str, Any], origin: Origin) -> Iterator[Event]:
    name, given = block.get("name"), block.get("input")
    if name in _ASKING_TOOLS:
        yield Asked(origin, _questions(given))
    if name == "TodoWrite" and isinstance(given, dict):
        yield Listed(origin, _todos(given.get("todos"), "content"))
    if name == "TaskUpdate" and isinstance(given, dict):
        yield Planned(origin, _todo(given, "subject"))
    if name in _EDIT_TOOLS and isinstance(given, dict):
        path = given.get("file_path") or given.get("notebook_path")
        if isinstance(path, str) and path:
            yield Edited(origin, path)


def _questions(given: Any) -> tuple[str, ...]:
    asked = given.get("questions") if isinstance(given, dict) else None
    texts = (
        [item.get("question") for item in asked if isinstance(item, dict)]
        if isinstance(asked, list)
        else []
    )
    return tuple(text for text in texts if isinstance(text, str) and text)


def _task_result(record: Record, origin: Origin) -> Iterator[Event]:
    """Read what TaskCreate answered (only the answer has the id), and what a person did."""
    task = record.mapping("toolUseResult").get("task")
    if isinstance(task, dict) and isinstance(task.get("subject"), str):
        yield Planned(origin, _todo({"status": "pending", **task}, "subject"))
    answers = record.mapping("toolUseResult").get("answers")
    if isinstance(answers, dict):
        pairs = [
            (question, answer) for question, answer in answers.items() if isinstance(answer, str)
        ]
        yield Decided(origin, tuple(pairs))


def _todos(items: Any, text: str) -> tuple[Todo, ...]:
    found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return tuple(_todo({"id": str(number), **item}, text) for number, item in enumerate(found))


def _todo(item: dict[str, Any], text: str) -> Todo:
    def read(name: str) -> str:
        value = item.get(name)
        return str(value) if isinstance(value, (str, int)) else ""

    return Todo(read("id") or read("taskId"), read(text), read("status"))


def _attachment(record: Record, origin: Origin) -> Iterator[Event]:
    attachment = record.mapping("attachment")
    reminder = _REMINDERS.get(str(attachment.get("type")))
    if reminder is not None:
        yield Listed(origin, _todos(attachment.get("content"), reminder))
    if attachment.get("type") == "queued_command" and attachment.get("commandMode") == "prompt":
        prompt = attachment.get("prompt")
        text = "\n".join(_texts(prompt)) if not isinstance(prompt, str) else prompt
        text = without_marked(text).strip()
        if text and not origin.sidechain and not _NOT_TYPED.match(text):
            yield Prompt(origin, text)


def _relocated(record: Record, origin: Origin) -> Iterator[Event]:
    path = record.text("relocatedCwd")
    if path.startswith("/") and "\0" not in path:
        yield Moved(origin, path)


def _worktree(record: Record, origin: Origin) -> Iterator[Event]:
    path = record.mapping("worktreeSession").get("worktreePath")
    if isinstance(path, str) and path.startswith("/") and "\0" not in path:
        yield Moved(origin, path)


_READERS = {
    "user": _user,
    "assistant": _assistant,
    "attachment": _attachment,
    "relocated": _relocated,
    "worktree-state": _worktree,
}


def _kind(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [
        block["text"]
        for block in content
        if _kind(block) == "text" and isinstance(block.get("text"), str)
    ]
