"""Things to do: the session's list, however the client writes it down. Pure."""

from typing import Any

from handoffd.agents.claude_code.tool_events import todo_list
from handoffd.agents.events import Listed, Planned, TodoItem
from handoffd.session.state import TODOS_MAX, Receipt, SessionState, Todo, Value
from handoffd.session.text import NOW_MAX, keep

STATUSES = ("pending", "in_progress", "completed", "deleted")
_KEY_MAX = 40


def take_tasks(state: SessionState, items: list[dict[str, Any]], time: str) -> None:
    """Take the client's own task files for the whole list of things to do."""
    source = Receipt(f"{state.session_id}/tasks", "", 0, time, "observed")
    listed(state, todo_list(items, "subject"), source)


def listed(state: SessionState, event: Listed, source: Receipt) -> None:
    before = {(todo.key, todo.value.text): todo for todo in state.todos}
    state.todos = []
    for todo in event.todos[:TODOS_MAX]:
        _enter(state, todo, source)
    # What stays as it was keeps its first receipt.
    state.todos = [
        Todo(todo.key, todo.status, known.value)
        if (known := before.get((todo.key, todo.value.text)))
        else todo
        for todo in state.todos
    ]


def planned(state: SessionState, event: Planned, source: Receipt) -> None:
    _enter(state, event.todo, source)


def _enter(state: SessionState, todo: TodoItem, source: Receipt) -> None:
    """Enter a thing to do, or what became of it; what was deleted is taken out."""
    state.todos_age = 0
    said = Value(keep(todo.text, NOW_MAX), source)
    key = keep(todo.key, _KEY_MAX)
    known = next((item for item in state.todos if item.key == key), None)
    kept = [item for item in state.todos if item.key != key]
    status = todo.status if todo.status in STATUSES else known.status if known else "pending"
    value = known.value if known and not said.text else said
    if value.text and status != "deleted":
        kept.append(Todo(key, status, value))
    state.todos = sorted(kept, key=_todo_order)[-TODOS_MAX:]


def _todo_order(item: Todo) -> tuple[int, str]:
    digits = item.key.isascii() and item.key.isdigit()
    return (int(item.key), "") if digits else (1 << 30, item.key)
