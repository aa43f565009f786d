"""Our entries in Claude's JSON files: insertion, recognition and removal.

Pure: text in, text out. An entry is recognised by the command that it runs. So it is found again
after any change of the file around it, and without our notes.
"""

import os
import re
import shlex
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from handoff.common import json_edit

NAME = "handoffd"
PLUGIN = "handoffd@handoffd"
SERVER = ("mcpServers", NAME)
STATUS_LINE = ("statusLine",)
# The keys that Claude Code makes for a plugin, and leaves behind empty.
PLUGIN_KEYS = (("enabledPlugins",), ("extraKnownMarketplaces",))
# The possible endings of a command of ours after `handoff hook`.
_HOOK_ENDINGS = ("", "2>/dev/null || :", "2>/dev/null; exit 0")

Definition = dict[str, list[dict[str, Any]]]


class ShapeError(ValueError):
    """A value is not of the kind that Claude Code wants; the message names it."""


def hook_command(program: str) -> str:
    """Return a command that exits with 0 even if the client was uninstalled."""
    return f"{shlex.quote(program)} hook 2>/dev/null || :"


def with_command(definition: Definition, command: str) -> Definition:
    """Return the plugin's hooks with another command."""
    return {
        event: [
            {**group, "hooks": [{**hook, "command": command} for hook in group["hooks"]]}
            for group in groups
        ]
        for event, groups in definition.items()
    }


def put_hooks(text: str, wanted: Definition) -> str:
    """Add our wanted groups to each event, and take our other hooks out."""
    _check_hooks(text, wanted)
    text = take_hooks(text, wanted)
    for event, groups in wanted.items():
        for group in groups:
            if group not in (json_edit.get(text, ("hooks", event)) or []):
                text = json_edit.add(text, ("hooks", event), group)
    return text


def _check_hooks(text: str, wanted: Definition) -> None:
    hooks = json_edit.get(text, ("hooks",))
    _check(hooks, dict, "hooks")
    for event in wanted:
        _check((hooks or {}).get(event), list, f"hooks.{event}")


def _check(value: Any, kind: type, name: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise ShapeError(f"`{name}` is no {'object' if kind is dict else 'list'}")


def take_hooks(text: str, but: Definition | None = None) -> str:
    """Take our hooks out, and the groups that hold no other hooks; keep the groups in `but`."""
    hooks = json_edit.get(text, ("hooks",))
    for event, groups in _items(hooks):
        for index, group in reversed(list(_items(groups))):
            if isinstance(event, str) and group not in (but or {}).get(event, []):
                text = _take_from_group(text, ("hooks", event, index), group)
    return text


def _take_from_group(text: str, path: tuple[str | int, ...], group: Any) -> str:
    hooks = list(_items(group.get("hooks") if isinstance(group, dict) else None))
    ours = [index for index, hook in hooks if is_our_hook(hook)]
    if ours and len(ours) == len(hooks):
        return json_edit.take(text, path)
    for index in reversed(ours):
        text = json_edit.take(text, (*path, "hooks", index))
    return text


def _items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def hook_program(hook: Any) -> str:
    """Return the program of a hook that runs `handoff hook` (or the older `handoff inject`)."""
    command = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(command, str):
        return ""
    more = hook.get("args")
    words = [command, *map(str, more)] if isinstance(more, list) else _shell_words(command)
    for word, following in pairwise(words):
        if os.path.basename(word) == "handoff" and following in ("hook", "inject"):
            return word
    return ""


def _shell_words(command: str) -> list[str]:
    reader = shlex.shlex(command, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    try:
        return list(reader)
    except ValueError:
        return command.split()


def is_our_hook(hook: Any) -> bool:
    """Return True if a hook calls our program and does nothing else, as setup and plugin do."""
    if not hook_program(hook):
        return False
    command = re.sub(r"^PATH=\"[^\"]*\" ", "", hook["command"])
    program, _, ending = command.rpartition(" hook")
    return len(_words(program)) == 1 and ending.strip() in _HOOK_ENDINGS


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def server(program: str, *, code: bool) -> dict[str, Any]:
    """Return our MCP server's entry, in the form of `claude mcp add` or of Claude Desktop."""
    if code:
        words = ["mcp", "--client", "code"]
        return {"type": "stdio", "command": program, "args": words, "env": {}}
    return {"command": program, "args": ["mcp"]}


def put_server(text: str, entry: dict[str, Any]) -> str:
    _check(json_edit.get(text, SERVER[:1]), dict, SERVER[0])
    return text if server_of(text) == entry else json_edit.put(text, SERVER, entry)


def server_of(text: str) -> Any:
    return json_edit.get(text, SERVER)


def has_our_server(text: str) -> bool:
    found = server_of(text)
    if not isinstance(found, dict) or not isinstance(found.get("command"), str):
        return False
    words = found.get("args")
    return os.path.basename(found["command"]) == "handoff" and words in (
        ["mcp"],
        ["mcp", "--client", "code"],
        ["mcp", "--client", "chat"],
    )


def take_server(text: str) -> str:
    return json_edit.take(text, SERVER) if has_our_server(text) else text


def put_status_line(text: str, program: str) -> str:
    """Add our status line, beside an existing one."""
    now = json_edit.get(text, STATUS_LINE)
    command = f"{shlex.quote(program)} statusline"
    if now is None:
        return json_edit.put(text, STATUS_LINE, {"type": "command", "command": command})
    if not _is_command(now):
        raise ShapeError("`statusLine` is there, and is of no kind that ours could be shown beside")
    theirs = command_beside(now["command"])
    theirs = now["command"] if theirs is None else theirs
    if theirs:
        command += f" --beside {shlex.quote(theirs)}"
    if command == now["command"]:
        return text
    return json_edit.put(text, (*STATUS_LINE, "command"), command)


def take_status_line(text: str) -> str:
    """Restore the status line that was there before ours."""
    now = json_edit.get(text, STATUS_LINE)
    theirs = command_beside(now["command"]) if _is_command(now) else None
    if theirs is None:
        return text
    if not theirs:
        return json_edit.take(text, STATUS_LINE)
    return json_edit.put(text, (*STATUS_LINE, "command"), theirs)


def command_beside(command: str) -> str | None:
    """Return the command that our status line is shown beside.

    The result is empty if ours is shown alone, and None if the status line is not ours.
    """
    words = _words(command)
    if words[1:2] != ["statusline"] or os.path.basename(words[0]) != "handoff":
        return None
    if words[2:3] == ["--beside"] and len(words) == len(("handoff", "statusline", "--beside", "")):
        return words[3]
    return None if words[2:] else ""


def _is_command(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") == "command"
        and isinstance(value.get("command"), str)
    )


def outline(text: str) -> str:
    """Return the part of a text that is needed to take ours out: whether it had servers."""
    return "{}" if json_edit.get(text, SERVER[:1]) is None else json_edit.put("", SERVER[:1], {})


def take_all(text: str, before: str, *, plugin: bool = False) -> str:
    """Take all our entries out; the result is `before` itself if nothing else has changed."""
    new = take_server(take_status_line(without_hooks(text, before)))
    if new != text:
        new = _prune(new, before, [SERVER[:1]])
    if plugin:
        new = _prune(new, before, PLUGIN_KEYS)
    elif new == text:
        return text
    return before if before.strip() and json_edit.same(new, before) else new


def without_hooks(text: str, before: str) -> str:
    """Take our hooks out, and the containers that are empty then and were not there before."""
    new = take_hooks(text)
    events = [("hooks", event) for event, _ in _items(json_edit.get(new, ("hooks",)))]
    return text if new == text else _prune(new, before, [*events, ("hooks",)])


def _prune(text: str, before: str, places: Iterable[json_edit.Path]) -> str:
    for place in places:
        if json_edit.get(text, place) in ([], {}) and json_edit.get(before, place) is None:
            text = json_edit.take(text, place)
    return text


def is_but_for_plugin(text: str, expected: str) -> bool:
    """Return True if two texts differ only in the rest that an uninstalled plugin leaves behind."""
    return json_edit.same(_prune(text, expected, PLUGIN_KEYS), expected)


def plugin_is_enabled(text: str) -> bool:
    return json_edit.get(text, ("enabledPlugins", PLUGIN)) is True
