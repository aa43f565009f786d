"""Random frames on many connections of a real daemon."""

import json
import random
import time

import pytest

from handoffd.api import registry
from handoffd.api.tools import TOOLS
from raw_socket import STATUS, answer, opened, resident_kib, send

ODD = (
    None, True, 0, -1, 1 << 70, 1.5, float("nan"), "", "x", "\x00", "../..", "\ud800", [], {}, [[]],
    {"a": None}, "status", "tools/call", "2.0", ["status"], {"cwd": "/"}, "hof_" + "0" * 21,
)  # fmt: skip
CONNECTIONS = 8


def request(chance: random.Random) -> bytes:
    """Return a line that is a request, almost one, or none; with an id, if any."""
    kind = chance.random()
    if kind < 0.15:
        return chance.randbytes(chance.randrange(1, 300)).replace(b"\n", b" ")
    # Methods that end the daemon, or go on answering, have tests of their own.
    methods = [name for name in registry.NAMES if name not in ("down", "watch", "mcp", "forget")]
    method = chance.choice([*methods, "tools/call", "initialize", "ping", "no such", 7, None])
    params: dict = {"cwd": "/nowhere/at/all"}
    if method == "tools/call":
        params = {"name": chance.choice(list(TOOLS)), "arguments": {"id": "hof_x", "content": "c"}}
    elif method in registry.NAMES and chance.random() < 0.7:
        fields = list(registry.method(str(method)).params.model_fields)
        params |= {name: chance.choice(ODD) for name in chance.sample(fields, min(2, len(fields)))}
    frame = {"jsonrpc": "2.0", "id": chance.randrange(1000), "method": method, "params": params}
    if params.get("action") == "watch":
        params["action"] = "get"
    for _ in range(chance.choice((0, 0, 1, 2))):
        frame[chance.choice((*frame, "zzz"))] = chance.choice(ODD)
    line = json.dumps(frame, ensure_ascii=chance.random() < 0.8).encode("utf-8", "replace")
    if kind < 0.4:
        place = chance.randrange(len(line))
        line = line[:place] + chance.randbytes(chance.choice((0, 1, 3))) + line[place + 1 :]
    return line.replace(b"\n", b" ")


def wants_answer(line: bytes) -> bool:
    """Return True if an answer is due: to every frame but a notification."""
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        return True
    if not isinstance(frame, dict) or not isinstance(frame.get("method"), str):
        return True
    return "id" in frame


def is_well_formed(reply: dict) -> bool:
    if "method" in reply:
        return reply["method"] in ("progress", "change")
    error = reply.get("error")
    whole = error is None or (isinstance(error["code"], int) and isinstance(error["message"], str))
    return (
        reply["jsonrpc"] == "2.0" and "id" in reply and ("result" in reply) != bool(error) and whole
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [3000, pytest.param(100_000, marks=pytest.mark.long)])
def test_random_frames(live, count, record_property):
    """No frame ends the daemon or goes unanswered, and every answer follows the protocol."""
    chance = random.Random(38)
    began, before, answered, internal = time.monotonic(), resident_kib(live), 0, []
    for _ in range(count // (CONNECTIONS * 25)):
        lines_sent = [[request(chance) for _ in range(25)] for _ in range(CONNECTIONS)]
        contexts = [opened(live) for _ in range(CONNECTIONS)]
        connections = [context.__enter__() for context in contexts]
        for (connection, _), lines in zip(connections, lines_sent, strict=True):
            send(connection, b"\n".join(lines) + b"\n")
        for (connection, stream), lines in zip(connections, lines_sent, strict=True):
            due = sum(map(wants_answer, lines))
            send(connection, STATUS.replace(b'"id":1', b'"id":"last"'))
            while (reply := answer(stream)).get("id") != "last":
                assert reply, "hung up"
                assert is_well_formed(reply), reply
                internal += [reply] if reply.get("error", {}).get("code") == -32603 else []
                due -= "method" not in reply
            assert 0 == due
            answered += len(lines)
        for context in contexts:
            context.__exit__(None, None, None)
    grown = (resident_kib(live) - before) / 1024

    assert [] == internal[:3]
    assert "Traceback" not in live.log.read_text()
    assert live.alive()
    took = time.monotonic() - began
    record_property(
        "figure", f"{answered:,} frames in {took:.0f} s, 0 crashes, memory +{grown:.0f} MB"
    )
