"""Every parameter of every method and tool of the registry, with values that are never valid."""

import contextlib
import json
import os
import time
from itertools import product
from pathlib import Path

import pytest

from conftest import allowed, paths_below
from handoffd.api import registry
from handoffd.api.tools import TOOLS
from mcp_socket_client import Mcp
from raw_socket import answer, opened

MIB = 1 << 20
DEEP = 900
TEXTS = {
    "up": "../" * 40 + "etc/passwd",
    "up encoded": "..%2f..%2f%2e%2e/etc",
    "absolute": "/etc/passwd",
    "dots": "..",
    "nul": "/tmp/a\x00b",
    "long": "/" + "a/" * 400_000,
    "long name": "/" + "a" * 900_000,
    "half a character": "/\ud800\udfff\udc80",
    "backwards": "/\u202egpj.exe",
    "fractions": "/\uff0e\uff0e\u2215etc",
    "combining": "/e" + "\u0301" * 3000,
    "controls": "/a\x1b]0;x\x07\r\nb\x7f\x9b31m",
    "newline": "/a\n- b: c\n## Done\n",
    "shell": "/$(touch /tmp/x)`id`;&|'\"",
    "option": "--upload-pack=touch /tmp/x",
    "tilde": "~root/../x",
    "empty": "",
    "spaces": " \t ",
    "json": '{"a":' * 2000,
    "secrets": "token=" * 40_000,
}
VALUES = {
    "null": "null",
    "true": "true",
    "zero": "0",
    "negative": "-1",
    "large": "9" * 4000,
    "too large": "9" * 5000,
    "real": "1e308",
    "too real": "1e999",
    "no number": "NaN",
    "endless": "-Infinity",
    "list": "[]",
    "nested": "[" * DEEP + "]" * DEEP,
    "object": '{"a":{"b":[1,null]}}',
    "list of all": json.dumps([[], {}, None, "x" * 1000, -1] * 20),
    "many": json.dumps(["x"] * 5000),
    **{name: json.dumps(text) for name, text in TEXTS.items()},
}
FEW = ("up", "nul", "long", "half a character", "too large", "no number", "nested", "newline")
# These methods end the daemon, or change the data that all the others ask about.
APART = {"down"}


def frames(method: str, names: list[str], given: dict, kinds=VALUES) -> list[tuple[str, bytes]]:
    """Return a request for each value in each parameter, and for each value in place of them all."""
    found = []
    for kind, value in ((kind, VALUES[kind]) for kind in kinds):
        whole = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{value}}}'
        found.append((f"{method} {kind}", whole))
        for name in names:
            params = {**given, name: "@"}
            text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            found.append((f"{method} {name} {kind}", text.replace('"@"', value)))
        found.append((f"{method} unknown {kind}", whole.replace(value, f'{{"zzz":{value}}}')))
    return [(name, text.encode() + b"\n") for name, text in found if len(text) < MIB]


def snapshot(*roots: Path) -> dict[str, tuple[int, int]]:
    """Return every file below some directories, with its size and time."""
    found = {}
    for path in paths_below(*roots):
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(path)
            found[str(path)] = status.st_size, status.st_mtime_ns
    return found


def asked(sandbox, requests: list[tuple[str, bytes]]) -> tuple[list[tuple[str, dict]], float]:
    """Return the answer to each request, and the time of the slowest."""
    found, slowest = [], 0.0
    connection, lines, context = None, None, None
    for name, data in requests:
        if connection is None:
            context = opened(sandbox)
            connection, lines = context.__enter__()
        began = time.monotonic()
        connection.sendall(data)
        while "method" in (reply := answer(lines)):
            pass  # a step that is told of
        slowest = max(slowest, time.monotonic() - began)
        found.append((name, reply))
        if " watch" in name or name.startswith(("watch", "mcp", "thread")):
            context.__exit__(None, None, None)
            connection = None
    if connection is not None:
        context.__exit__(None, None, None)
    return found, slowest


def judged(replies: list[tuple[str, dict]]) -> None:
    """Assert one well-formed answer per request, and no internal error."""
    for name, reply in replies:
        assert ("result" in reply) != ("error" in reply), (name, str(reply)[:300])
        error = reply.get("error", {})
        assert -32603 != error.get("code"), (name, error)
        assert "Traceback" not in json.dumps(reply), name
        assert "Error(" not in str(error.get("message", "")), (name, error)


@pytest.fixture
def project(live):
    """A project with data to ask about, and other files that could be lost."""
    found = live.project()
    (live.home / "outside").mkdir()
    (live.home / "outside/file").write_text("theirs")
    session = live.session(found)
    session.prompt("Add a discount code field to the checkout page")
    session.edit(str(found / "a.py"))
    session.say("The field is there.")
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kinds", [FEW, pytest.param([*VALUES], marks=pytest.mark.long)], ids=len)
def test_every_method(live, project, kinds, record_property):
    """Hostile values get an answer in time; no file outside changes, no internal error occurs."""
    outside = snapshot(live.home / "outside", Path("/etc"))
    count, slowest = 0, 0.0
    for method in registry.NAMES:
        if method in APART:
            continue
        fields = list(registry.method(method).params.model_fields)
        given = {"cwd": str(project)} if "cwd" in fields else {}
        replies, took = asked(live, frames(method, fields, given, kinds))
        judged(replies)
        count, slowest = count + len(replies), max(slowest, took)
        assert "result" in live.request("status"), method
    log = live.log.read_text()

    assert outside == snapshot(live.home / "outside", Path("/etc"))
    assert "request_failed" not in log
    assert "Traceback" not in log
    assert not Path("/tmp/x").exists()
    assert slowest < allowed(10)
    record_property("figure", f"{count} requests, 0 internal errors, slowest {slowest:.2f} s")


EVENTS = ("SessionStart", "UserPromptSubmit", "Notification", "Stop", "PreCompact", "SessionEnd")
HOOK_FIELDS = ("hook_event_name", "session_id", "cwd", "transcript_path", "source", "prompt",
               "notification_type", "tool_input", "agent_id", "reason")  # fmt: skip


def hooked(project: Path) -> list[tuple[str, bytes]]:
    """Return a request for each value in each field of a hook's JSON, which is a text in ours."""
    found = []
    for method, events in (("hook", EVENTS), ("inject", EVENTS[:1]), ("statusline", EVENTS[:1])):
        for event, field, kind in product(events, HOOK_FIELDS, VALUES):
            given = {"hook_event_name": event, "session_id": "s-1", "cwd": str(project)}
            hook = json.dumps({**given, field: "@"}).replace('"@"', VALUES[kind])
            params = {"cwd": str(project), "hook": hook}
            text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            found.append((f"{method} {event} {field} {kind}", text.encode() + b"\n"))
    return [(name, data) for name, data in found if len(data) < MIB]


def test_every_field_of_a_hook(live, project, record_property):
    """The same holds for a hook of Claude Code: JSON in a text, with escapes of its own."""
    replies, slowest = asked(live, hooked(project))

    judged(replies)
    assert {"result"} == {"result" if "result" in reply else str(reply) for _, reply in replies}
    assert "result" in live.request("status")
    log = live.log.read_text()
    assert "request_failed" not in log
    assert "Traceback" not in log
    assert slowest < allowed(10)
    record_property("figure", f"{len(replies)} requests, 0 errors, slowest {slowest:.2f} s")


def test_every_tool(live, project, record_property):
    """The same holds for each argument of each MCP tool."""
    with Mcp(live, "code", project) as mcp:
        made = mcp.result(
            "tools/call", {"name": "create_handoff", "arguments": {"title": "t", "content": "c"}}
        )
    thread = made["structuredContent"]["handoff"]["id"]
    requests = []
    for name, tool in TOOLS.items():
        fields = list(tool.arguments.model_fields)
        valid = {"id": thread, "title": "t", "content": "c", "type": "task"}
        given = {field: valid[field] for field in fields if field in valid}
        for kind, value in VALUES.items():
            for field in (*fields, "zzz"):
                text = json.dumps({"name": name, "arguments": {**given, field: "@"}})
                requests.append((f"{name} {field} {kind}", text.replace('"@"', value)))
            requests.append((f"{name} {kind}", f'{{"name":"{name}","arguments":{value}}}'))
            requests.append((f"name {kind}", f'{{"name":{value},"arguments":{{}}}}'))
    wrapped = [
        (name, f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{text}}}\n'.encode())
        for name, text in requests
    ]
    sent = [(name, data) for name, data in wrapped if len(data) < MIB and "close" not in name]
    replies, slowest = asked(live, sent)

    judged(replies)
    assert "request_failed" not in live.log.read_text()
    assert slowest < allowed(10)
    record_property("figure", f"{len(sent)} calls, 0 internal errors, slowest {slowest:.2f} s")
