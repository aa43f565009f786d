"""thread: a conversation between Chat and Code, for people; the rules are those of the tools."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from pydantic import Field, field_validator

from handoffd.api import tools
from handoffd.api.mcp import ONCE_MAX
from handoffd.api.method import Directory, Method, MethodReply, Params, Send
from handoffd.api.terminal_text import Style
from handoffd.api.thread_calls import act as with_threads
from handoffd.api.thread_calls import note_use, threads
from handoffd.context import Context
from handoffd.errors import CompletedThreadError, NoThreadError, ThreadError
from handoffd.threads.service import ThreadService, pasted
from handoffd.threads.thread_text import mend

Data = dict[str, Any]

_TOOLS = {
    "create": "create_handoff",
    "get": "get_handoff",
    "add": "add_to_handoff",
    "read": "mark_handoff_read",
    "close": "close_handoff",
}
_TEXTS = ("id", "title", "content", "project", "type")
_ARGUMENTS = {*_TEXTS, "up_to"}
_OTHER = {"chat": "Claude Code", "code": "Claude Chat"}


class ThreadParams(Params):
    action: Literal["create", "get", "add", "read", "close", "watch"] = Field(
        description="what a tool does, or `watch`"
    )
    cwd: Directory = Field(default="/", description="the caller's directory")
    as_client: tools.Client = Field(default="chat", description="the side it speaks for")
    id: str | None = Field(default=None, description="the thread")
    title: str | None = Field(default=None, description="of a new thread")
    content: str | None = Field(default=None, description="what is said")
    project: str | None = Field(default=None, description="a tag; informational only")
    type: str | None = Field(default=None, description="of an entry")
    up_to: int | None = Field(default=None, description="the last entry that was read")
    once: str = Field(
        default="", description="a key by which a repeated call is done once", max_length=ONCE_MAX
    )
    after: int = Field(default=0, description="leave out the entries up to this one")
    new: bool = Field(default=False, description="show only what is new")
    peek: bool = Field(default=False, description="`get` does not count as shown to that side")

    @field_validator(*_TEXTS, mode="before")
    @classmethod
    def _mended(cls, value: Any) -> Any:
        """Accept texts that are not UTF-8, as the tools do."""
        return mend(value) if isinstance(value, str) else value


async def handle(context: Context, params: ThreadParams, send: Send) -> MethodReply:
    if params.action == "watch":
        return _watch(threads(context), params, send)
    do = partial(act, params=params, used=partial(note_use, context, params.cwd))
    return MethodReply(await with_threads(context, do, closing=params.action == "close"))


def _watch(open_threads: ThreadService, params: ThreadParams, send: Send) -> MethodReply:
    looked = params.model_copy(update={"action": "get", "peek": True})
    found = act(open_threads, looked, lambda _used: None)
    watched = found["result"]["handoff"]["id"]

    def tell(change: Data) -> None:
        if change.get("thread") == watched:
            send({"jsonrpc": "2.0", "method": "change", "params": change})

    return MethodReply({"action": "watch", "watching": watched}, watcher=tell)


def act(open_threads: ThreadService, params: ThreadParams, used: Callable[[str], None]) -> Data:
    """Do the requested action; `used` gets the id of a thread that was used as code."""
    arguments = params.model_dump(include=_ARGUMENTS, exclude_none=True)
    name = _TOOLS[params.action]
    if params.peek:
        open_threads = replace(open_threads, peek=True)
    try:
        result, client = tools.call(open_threads, name, arguments, params.as_client, params.once)
    except ThreadError as problem:
        raise ThreadError(problem.title, problem.hint or _remedy(problem)) from None
    if thread_id := tools.used_as_code(result, client, arguments):
        used(thread_id)
    if params.action == "get":
        for name in ("entries", "new_entries"):
            result[name] = [entry for entry in result[name] if entry["seq"] > params.after]
    thread_id = pasted(params.id) if params.id else result["handoff"]["id"]
    shown = {"id": thread_id, "client": client, "after": params.after, "new": params.new}
    return {"action": params.action, **shown, "result": result}


def _remedy(problem: ThreadError) -> str:
    if isinstance(problem, NoThreadError):
        return "Paste the whole id, as it was shown where the thread was created (hof_…)."
    if isinstance(problem, CompletedThreadError):
        return "Create another one: handoff thread create TITLE"
    return "See: handoff thread --help"


def render(data: Data, style: Style) -> str:
    if data["action"] == "watch":
        return f"Watching {data['watching']}\n"
    lines = _RENDERED[data["action"]](data, style)
    lines += [f"warning: {text}" for text in data["result"].get("warnings", ())]
    return "".join(f"{line}\n" for line in lines)


def _created(data: Data, style: Style) -> list[str]:
    other, thread_id = _OTHER[data["client"]], data["id"]
    hint = f'Paste this id into {other}, as in "Pick up handoff {thread_id}".'
    return [style.bold(thread_id), hint]


def _added(data: Data, _style: Style) -> list[str]:
    entry, thread = data["result"]["entry"], data["result"]["handoff"]
    lines = [f"Added {entry['seq']} to {data['id']}, as {entry['type']} from {data['client']}."]
    if thread[f"{data['client']}_last_seen"] < entry["seq"]:
        lines.append(f"Something is unread: handoff thread get {_named(data)} --new")
    return lines


def _read(data: Data, _style: Style) -> list[str]:
    return [f"Read up to {data['result']['last_seen']}, as {data['client']}."]


def _closed(data: Data, _style: Style) -> list[str]:
    title = data["result"]["title"]
    lines = [f"Closed {data['id']} ({title}). Its entries are deleted for good."]
    if copy := data["result"].get("archive"):
        lines.append(f"A copy, secrets masked, is yours to keep or to delete: {copy}")
    return lines


def _got(data: Data, style: Style) -> list[str]:
    result = data["result"]
    new = {entry["seq"] for entry in result["new_entries"]}
    shown = result["new_entries"] if data["new"] else result["entries"]
    entries = [line for entry in shown for line in _entry(entry, entry["seq"] in new, style)]
    if data["after"]:
        return entries
    lines = [*_head(data, style), *entries]
    if data["new"] and not shown and result["entries"]:
        lines += ["", "Nothing new."]
    if new:
        mark = f"handoff thread read {_named(data)} --up-to {max(new)}"
        lines += ["", style.dim(f"When you have acted on them: {mark}")]
    return lines


def _head(data: Data, style: Style) -> list[str]:
    result, thread = data["result"], data["result"]["handoff"]
    facts = [thread["id"], thread["status"]]
    if thread["project"]:
        facts.append(f"project {thread['project']}")
    if thread["status"] == "completed":
        facts.append("its entries are deleted")
    else:
        known = len(result["entries"])
        unread = f"{result['new_count']} unread by {data['client']}"
        facts.append(f"{known} {'entry' if known == 1 else 'entries'}, {unread}")
    return [style.bold(thread["title"]), " · ".join(facts)]


def _entry(entry: Data, new: bool, style: Style) -> list[str]:
    facts = [str(entry[name]) for name in ("seq", "from_client", "type", "created_at")]
    head = " · ".join([*facts, *(["unread"] if new else [])])
    content = entry["content"].strip("\n").split("\n")
    return [
        "",
        style.bold(head) if new else head,
        *(f"    {line}".rstrip() for line in content),
    ]


def _named(data: Data) -> str:
    return f"{data['id']} --as code" if data["client"] == "code" else str(data["id"])


_RENDERED: dict[str, Callable[[Data, Style], list[str]]] = {
    "create": _created,
    "get": _got,
    "add": _added,
    "read": _read,
    "close": _closed,
}

METHOD = Method("thread", ThreadParams, handle, render, ("content",))
