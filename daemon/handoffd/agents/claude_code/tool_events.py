"""Turn the calls and results of an assistant's tools into events. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from handoffd.agents.claude_code.records import Block, Raw, Record, Shape, read, value_of
from handoffd.agents.events import (
    AgentRan,
    AgentResulted,
    Approved,
    Asked,
    Decided,
    Denied,
    Drafted,
    Edited,
    GitDone,
    Invoked,
    Listed,
    Looked,
    OutputRead,
    Planned,
    Proposed,
    Ran,
    Resulted,
    TodoItem,
    ToolEvent,
)
from handoffd.agents.test_commands import is_test_command

_EDITING = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
_AGENTS = frozenset({"Agent", "Task"})
_INVOKING = frozenset({"Skill", "SlashCommand"})
_SHELLS = frozenset({"Bash", "PowerShell"})
_EXIT_CODE = re.compile(r"\A(?:Error: )?Exit code (\d{1,3})\b\n?")
# The client keeps the output of a command in the background in a file.
_OUTPUT_FILE = re.compile(r"[/\\]tasks[/\\]([\w-]{1,64})\.output\b")
_PLAN_FILE = re.compile(r"/\.claude[^/]*/plans/[^/]+\.md\Z")
_REFUSED = ("The user doesn't want to proceed", "The user doesn't want to take this action")
_SAID = "the user said:"
# The result of a call that was never made, because another call of the same message failed.
_SIBLING = ("<tool_use_error>Sibling tool call", "Cancelled: parallel tool call")


class _Input(Shape):
    file_path: str = ""
    path: str = ""
    notebook_path: str = ""
    command: str = ""
    description: str = ""
    old_string: str = ""
    new_string: str = ""
    content: str = ""
    new_source: str = ""
    edits: Raw = Raw(b"")
    plan: str = ""
    questions: Raw = Raw(b"")
    todos: Raw = Raw(b"")
    skill: str = ""
    args: str = ""
    task_id: str = ""
    bash_id: str = ""


def call_events(record: Record, block: Block) -> Iterable[ToolEvent]:
    """Return the events of a tool call; a sub-agent's call gives only edits and test runs."""
    name = block.name
    if name in _EDITING:
        return _edit(record, block)
    if record.is_sidechain:
        return _agent_run(block) if name in _SHELLS else ()
    if name in _SHELLS:
        given = read(_Input, block.input)
        run = Ran(block.id, given.command, given.description)
        return (run, *_output_read(block.id, given.command, given.command))
    if name in _LOOKING:
        given = read(_Input, block.input)
        path = given.file_path or given.path
        return (Looked(path, block.id), *_output_read(block.id, path)) if path else ()
    if name in _AGENTS:
        return (Ran(block.id, "", read(_Input, block.input).description),)
    return _rare_call(block) if name in _RARER else ()


def _agent_run(block: Block) -> Iterable[ToolEvent]:
    command = read(_Input, block.input).command
    return (AgentRan(block.id, command),) if is_test_command(command) else ()


def _output_read(call: str, text: str, reader: str = "") -> Iterable[ToolEvent]:
    found = _OUTPUT_FILE.search(text) if ".output" in text else None
    return (OutputRead(call, found[1], reader),) if found else ()


def _invocation(given: _Input) -> Iterable[ToolEvent]:
    """Return the command that a tool invoked, by its name or as a person would type it."""
    typed, _, arguments = given.command.strip().partition(" ")
    name = (given.skill or typed).lstrip("/")
    return (Invoked(name, given.args or arguments.strip()),) if name else ()


def _edit(record: Record, block: Block) -> Iterator[ToolEvent]:
    given = read(_Input, block.input)
    path = given.file_path or given.notebook_path
    if path:
        # A sub-agent's record does not report the result of its edit.
        call = "" if record.is_sidechain else block.id
        after = given.new_string or given.content or given.new_source
        for old, new in _pairs(value_of(given.edits)) or [(given.old_string, after)]:
            yield Edited(call, path, old, new)
        if given.content and _PLAN_FILE.search(path):
            yield Drafted(given.content)


def _pairs(edits: Any) -> list[tuple[str, str]]:
    """Return the old and the new text of each of several edits of a file."""
    items = [item for item in edits if isinstance(item, dict)] if isinstance(edits, list) else []
    return [(_string(item.get("old_string")), _string(item.get("new_string"))) for item in items]


_LOOKING = frozenset({"Read", "Grep"})
_OUTPUTS = frozenset({"TaskOutput", "BashOutput"})
_RARER = (
    frozenset({"AskUserQuestion", "ExitPlanMode", "TodoWrite", "TaskUpdate"}) | _INVOKING | _OUTPUTS
)


def _rare_call(block: Block) -> Iterator[ToolEvent]:
    given = read(_Input, block.input)
    if block.name in _INVOKING:
        yield from _invocation(given)
    elif block.name in _OUTPUTS:
        yield OutputRead(block.id, given.task_id or given.bash_id)
    elif block.name == "AskUserQuestion":
        yield Asked(block.id, _questions(value_of(given.questions)))
    elif block.name == "ExitPlanMode":
        yield Proposed(block.id, given.plan)
    elif block.name == "TodoWrite":
        yield todo_list(value_of(given.todos), "content")
    elif isinstance(found := value_of(block.input), dict):
        yield Planned(_todo(found, "subject"))


def _questions(asked: Any) -> tuple[str, ...]:
    items = [item for item in asked if isinstance(item, dict)] if isinstance(asked, list) else []
    texts = [item.get("question") for item in items]
    return tuple(text for text in texts if isinstance(text, str) and text)


# Results


class _Extra(Shape, rename="camel"):
    """The fields that the client keeps of a tool's result besides its text."""

    task: Raw = Raw(b"")
    tasks: Raw = Raw(b"")
    answers: Raw = Raw(b"")
    plan: str = ""
    git_operation: Raw = Raw(b"")
    background_task_id: str = ""


# The results of reading, writing and editing begin like this. They are the longest by far, and
# give no further event.
_START_BYTES = 16
_SILENT = (b'{"type":', b'{"filePath":', b'{"file":', b'{"oldTodos":')


def result_events(record: Record, block: Block) -> Iterable[ToolEvent]:
    """Return the events of a tool's result, or of a person's refusal."""
    if record.is_sidechain:
        return (AgentResulted(block.tool_use_id, bool(block.is_error), block.content),)
    if block.is_error:
        return _failure(record, block)
    start = bytes(memoryview(record.tool_use_result)[:_START_BYTES])
    if start.startswith(_SILENT) or not start.startswith(b"{"):
        return (Resulted(block.tool_use_id, False, 0, block.content),)
    extra = read(_Extra, record.tool_use_result)
    task = extra.background_task_id
    result = Resulted(block.tool_use_id, False, 0, block.content, bool(task), task)
    return (result, *_extra_events(extra))


def _failure(record: Record, block: Block) -> Iterator[ToolEvent]:
    text = output_text(block.content)
    if text.startswith(_SIBLING):
        return
    refused = record.tool_denial_kind in ("user-rejected", "interrupted")
    if refused or text.startswith(_REFUSED):
        reason = text.partition(_SAID)[2].partition("\n\nNote:")[0].strip()
        yield Denied(block.tool_use_id, record.user_feedback or reason)
        return
    code = _EXIT_CODE.match(text)
    yield Resulted(
        block.tool_use_id,
        failed=True,
        code=int(code[1]) if code else None,
        output=block.content,
    )


def output_text(content: Raw) -> str:
    """Return the text of a tool's output."""
    found = value_of(content)
    if isinstance(found, str):
        return found
    items = found if isinstance(found, list) else []
    texts = [item.get("text") for item in items if isinstance(item, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _extra_events(extra: _Extra) -> Iterator[ToolEvent]:
    if extra.git_operation:
        yield from _git(value_of(extra.git_operation))
    if not (extra.task or extra.tasks or extra.answers or extra.plan):
        return
    task, tasks = value_of(extra.task), value_of(extra.tasks)
    if isinstance(task, dict) and isinstance(task.get("subject"), str):
        yield Planned(_todo({"status": "pending", **task}, "subject"))
    if isinstance(tasks, list):
        yield todo_list(tasks, "subject")
    answers = value_of(extra.answers)
    if isinstance(answers, dict):
        pairs = [(key, answer) for key, answer in answers.items() if isinstance(answer, str)]
        yield Decided(tuple(pairs))
    if extra.plan:
        yield Approved(extra.plan)


def _git(found: Any) -> Iterator[ToolEvent]:
    def part(name: str) -> dict[str, Any]:
        inner = found.get(name) if isinstance(found, dict) else None
        return inner if isinstance(inner, dict) else {}

    commit, push, pull = part("commit"), part("push"), part("pr")
    number = pull.get("number")
    yield GitDone(
        _string(commit.get("sha")),
        _string(commit.get("branch") or push.get("branch")),
        bool(push),
        number if isinstance(number, int) else None,
        _string(pull.get("url")),
    )


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


# Things to do


def todo_list(items: Any, text: str) -> Listed:
    """Return the event of a whole list of things to do; an item without an id gets its index."""
    found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return Listed(
        tuple(_todo({"id": str(number), **item}, text) for number, item in enumerate(found))
    )


def _todo(item: dict[str, Any], text: str) -> TodoItem:
    def part(name: str) -> str:
        value = item.get(name)
        return str(value) if isinstance(value, (str, int)) else ""

    return TodoItem(part("id") or part("taskId"), part(text), part("status"))
