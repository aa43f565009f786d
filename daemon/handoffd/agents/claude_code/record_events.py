"""Turn a record into events. Pure and tolerant: an unknown record gives none, and is counted."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from handoffd.agents.claude_code.records import (
    Block,
    Raw,
    Record,
    Shape,
    is_absolute,
    read,
    value_of,
)
from handoffd.agents.claude_code.tool_events import call_events, result_events, todo_list
from handoffd.agents.claude_code.typed_text import (
    INTERRUPTED,
    MARKED,
    MARKER,
    PASTED,
    marked,
    tag_content,
    typed_text,
    without_marked,
)
from handoffd.agents.events import (
    Aimed,
    BackedUp,
    Commanded,
    Compacted,
    Edited,
    Event,
    Injected,
    Moved,
    Notified,
    Opened,
    Prompt,
    Queued,
    Recapped,
    Said,
    Shelled,
    Stopped,
    Summarised,
    Titled,
    Unqueued,
)

CONVERSATION = frozenset({"user", "assistant", "system", "attachment", "progress"})
# The known metadata records; those without a reader below hold nothing we need.
METADATA = frozenset(
    {
        "summary", "ai-title", "custom-title", "agent-name", "agent-color", "agent-setting", "tag",
        "last-prompt", "mode", "permission-mode", "atis-latch", "queue-operation",
        "file-history-snapshot", "file-history-delta", "pr-link", "frame-link", "bridge-session",
        "relocated", "worktree-state", "cost-state", "continued-in", "history-suppression",
        "content-replacement", "fork-context-ref", "api-request-shape", "api-request-blob",
        "api-request", "tools-used", "artifact-comment-monitor", "artifact-autoreact-ledger",
        "attribution-snapshot", "speculation-accept", "task-summary", "ended-by-model",
        "isolation-latch", "dev-mods", "memory-mode", "observer-ref",
    }
)  # fmt: skip
NOTIFICATION = "<task-notification>"
_ALL = 1 << 20
KNOWN = CONVERSATION | METADATA

# Attachments that repeat the whole list, and the key of an item's text in each.
_REMINDERS = {"todo_reminder": "content", "task_reminder": "subject"}
_HOOKED = frozenset({"hook_additional_context", "hook_success", "async_hook_response"})
_NOTHING: tuple[Event, ...] = ()


def events(record: Record) -> Iterable[Event]:
    """Return the events of a record; its envelope (time, directory, branch) gives none."""
    reader = READERS.get(record.type)
    return reader(record) if reader else _NOTHING


# Records of a person


def _user(record: Record) -> Iterable[Event]:
    blocks = record.blocks
    for block in blocks:
        if block.type == "tool_result":
            return result_events(record, block) if len(blocks) == 1 else _results(record, blocks)
    if record.is_sidechain:
        return _NOTHING
    return _user_text(record, _text(record))


def _results(record: Record, blocks: list[Block]) -> Iterator[Event]:
    for block in blocks:
        if block.type == "tool_result":
            yield from result_events(record, block)
        elif block.text.startswith(INTERRUPTED):
            yield Stopped("")


def _user_text(record: Record, text: str) -> Iterator[Event]:
    by_client = record.is_compact_summary or record.is_meta
    if our_text := marked(text, MARKED if by_client else PASTED):
        yield Injected(our_text)
    if record.is_compact_summary:
        yield Summarised(without_marked(text))
    elif text.lstrip().startswith(INTERRUPTED):
        yield Stopped("")
    elif not record.is_meta and not record.team_name:
        yield from _person_or_client(record, text)


def _person_or_client(record: Record, text: str) -> Iterator[Event]:
    """Distinguish a person's words from texts that the client puts into a user record."""
    if text.startswith(NOTIFICATION):
        yield _notification(text)
        return
    if record.origin and read(_Origin, record.origin).kind != "human":
        return
    if text.lstrip().startswith(("<command-name>", "<command-message>")):
        yield from _command(text)
    elif text.startswith(("<bash-input>", "<bash-stdout>")):
        printed = f"{tag_content(text, 'bash-stdout')}\n{tag_content(text, 'bash-stderr')}"
        yield Shelled(tag_content(text, "bash-input"), printed.strip())
    elif typed := typed_text(text):
        yield Prompt(typed, None if record.parent_uuid == "" else record.parent_uuid or "")


def _notification(text: str) -> Notified:
    return Notified(
        tag_content(text, "tool-use-id"), tag_content(text, "status"), tag_content(text, "summary")
    )


def _command(text: str) -> Iterator[Event]:
    name = tag_content(text, "command-name").lstrip("/")
    if name:
        yield Commanded(name, without_marked(tag_content(text, "command-args"), PASTED))


class _Origin(Shape):
    kind: str = "human"


def _text(record: Record) -> str:
    content = record.message.content if record.message else None
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content or () if block.type == "text")


# Records of the assistant


def _assistant(record: Record) -> Iterable[Event]:
    if record.is_api_error_message:
        return _NOTHING if record.is_sidechain else (Stopped(_text(record) or "API error"),)
    found: list[Event] = []
    goes_on = record.message is not None and record.message.stop_reason == "tool_use"
    for block in record.blocks:
        if block.type == "tool_use":
            found += call_events(record, block)
        # If the assistant quotes our own words, that proves nothing about the session.
        elif block.type == "text" and not record.is_sidechain and MARKER not in block.text:
            found.append(Said(block.text, goes_on))
    return found


# Records of the client


def _system(record: Record) -> Iterator[Event]:
    if record.subtype == "compact_boundary":
        yield Compacted(read(_Compaction, record.compact_metadata).trigger)
    elif record.subtype == "away_summary" and (text := _string(record.content)):
        yield Recapped(without_marked(text))
    elif record.subtype == "local_command":
        yield from _command(_string(record.content))


class _Compaction(Shape):
    trigger: str = ""


def _string(raw: Raw) -> str:
    found = value_of(raw)
    return found if isinstance(found, str) else ""


class _Attachment(Shape, rename="camel"):
    type: str = ""
    command_mode: str = ""
    prompt: Raw = Raw(b"")
    content: Raw = Raw(b"")
    stdout: Raw = Raw(b"")
    met: bool = False
    condition: str = ""


def _attachment(record: Record) -> Iterator[Event]:
    found = read(_Attachment, record.attachment)
    if found.type in _REMINDERS:
        yield todo_list(value_of(found.content), _REMINDERS[found.type])
    elif found.type == "queued_command" and not record.is_sidechain:
        text = "\n".join(_texts(value_of(found.prompt)))
        if text.startswith(NOTIFICATION):
            yield _notification(text)
        elif found.command_mode == "prompt" and (typed := typed_text(text)):
            yield Prompt(typed)
    elif found.type == "goal_status" and found.condition:
        yield Aimed(found.condition, found.met)
    elif found.type in _HOOKED and MARKER.encode() in bytes(record.attachment):
        printed = "\n".join([*_texts(value_of(found.content)), _string(found.stdout)])
        yield Injected(marked(printed))


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    found = content if isinstance(content, list) else []
    texts = [item.get("text") if isinstance(item, dict) else item for item in found]
    return [text for text in texts if isinstance(text, str)]


def _title(record: Record) -> Iterator[Event]:
    text = record.custom_title or record.ai_title
    if text:
        yield Titled(text, bool(record.custom_title))


def _queue(record: Record) -> Iterator[Event]:
    """Return a prompt that was typed during work, or that waiting prompts were taken up."""
    if record.operation == "enqueue":
        text = _string(record.content)
        yield Queued("" if text.startswith(NOTIFICATION) else typed_text(text))
    else:
        yield Unqueued(_ALL if record.operation == "popAll" else 1)


def _pull_request(record: Record) -> Iterator[Event]:
    if record.pr_number is not None:
        yield Opened(record.pr_number, record.pr_url or "")


class _Backup(Shape, rename="camel"):
    backup_file_name: str | None = None


class _Snapshot(Shape, rename="camel"):
    message_id: str = ""
    tracked_file_backups: dict[str, _Backup] = {}  # noqa: RUF012  msgspec copies it


def _file_history(record: Record) -> Iterator[Event]:
    if record.tracking_path:
        yield Edited("", record.tracking_path, "", "")
        yield BackedUp("", ((record.tracking_path, _version(read(_Backup, record.backup))),))


def _file_snapshot(record: Record) -> Iterator[Event]:
    found = read(_Snapshot, record.snapshot)
    if found.tracked_file_backups:
        versions = tuple(
            (path, _version(backup)) for path, backup in found.tracked_file_backups.items()
        )
        yield BackedUp("" if record.is_snapshot_update else found.message_id, versions)


def _version(backup: _Backup) -> int:
    """Return the number of a kept content ("01af@v2"), 0 if the file was not there."""
    number = (backup.backup_file_name or "").rpartition("@v")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 0  # noqa: PLR2004


def _relocated(record: Record) -> Iterator[Event]:
    if is_absolute(record.relocated_cwd or ""):
        yield Moved(record.relocated_cwd or "")


class _Worktree(Shape, rename="camel"):
    worktree_path: str = ""


def _worktree(record: Record) -> Iterator[Event]:
    path = read(_Worktree, record.worktree_session).worktree_path
    if is_absolute(path):
        yield Moved(path)


READERS: dict[str, Callable[[Record], Iterable[Event]]] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "attachment": _attachment,
    "ai-title": _title,
    "custom-title": _title,
    "pr-link": _pull_request,
    "queue-operation": _queue,
    "file-history-delta": _file_history,
    "file-history-snapshot": _file_snapshot,
    "relocated": _relocated,
    "worktree-state": _worktree,
}
