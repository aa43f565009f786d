"""Texts made to be slow take time in proportion, and delay other clients only for a moment."""

import os
import threading
import time
from pathlib import Path

import pytest

from handoffd.redaction.redact import redact
from mcp_socket_client import Mcp

ENTRY = 256 << 10
# Texts that come close to many kinds of secrets, again and again.
UNITS = (
    "token=", "key", "cookie: a=", "-a.", "eyJ", "eyJa.eyJ", "-----BEGIN", "-----BEGIN PRIVATE KEY-----",
    "pass=' ", "key=key=", "://a:b@", "e\u0301", "aA0", " ", "re_", "webhook/", "secret\n", "mysql -p",
)  # fmt: skip
SMALL, LARGE = 8 << 10, 128 << 10


def seconds(unit: str, size: int) -> float:
    text = unit * (size // len(unit))
    began = time.process_time()
    redact(text)
    return time.process_time() - began


@pytest.mark.timeout(300)
@pytest.mark.parametrize("units", [UNITS[:2], pytest.param(UNITS, marks=pytest.mark.long)], ids=len)
def test_masking_takes_time_in_proportion(units, record_property):
    """Sixteen times the text takes about sixteen times as long, for each near miss of a secret."""
    worst, slowest = 0.0, 0.0
    for unit in units:
        small = min(seconds(unit, SMALL) for _ in range(3))
        large = seconds(unit, LARGE)
        # A measurement of no time at all proves nothing.
        worst = max(worst, large / max(small, 0.002))
        slowest = max(slowest, large)

    assert worst < 40
    figure = f"{len(units)} kinds: 16 x the text takes {worst:.0f} x the time; 128 KiB in {slowest:.1f} s"
    record_property("figure", figure)


def called(mcp: Mcp, name: str, **arguments: str) -> dict:
    result = mcp.result("tools/call", {"name": name, "arguments": arguments})
    assert not result["isError"], result
    return result["structuredContent"]


def processor_seconds(sandbox) -> float:
    """Return the daemon's processor time, which does not include the load of others."""
    fields = Path(f"/proc/{sandbox.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Listener(threading.Thread):
    """Sends a small request all the time, and notes the time of each answer."""

    def __init__(self, sandbox):
        super().__init__()
        self.sandbox, self.longest, self.done = sandbox, 0.0, threading.Event()

    def run(self):
        while not self.done.is_set():
            began = time.monotonic()
            self.sandbox.request("status", timeout=60)
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(0.01)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("units", [UNITS[:2], pytest.param(UNITS, marks=pytest.mark.long)], ids=len)
def test_hostile_words_hold_others_up_for_a_moment(live, units, record_property):
    """An entry of the largest size is added, read and shown; others are answered after a moment.

    That may be longer than a hook waits.
    """
    project = live.project()
    worked, others = 0.0, 0.0
    for unit in units:
        text = (unit * ENTRY)[: ENTRY // len(unit[-1].encode())].rstrip() or "x" * ENTRY
        half = text[: ENTRY // 2]
        with Listener(live) as listener, Mcp(live, "code", project) as mcp:
            before = processor_seconds(live)
            made = called(mcp, "create_handoff", title="t", content=half)
            thread = made["handoff"]["id"]
            called(mcp, "add_to_handoff", id=thread, type="task", content=half)
            worked = max(worked, (processor_seconds(live) - before) / 2)
            assert 2 == len(called(mcp, "get_handoff", id=thread)["entries"])
            shown = {"render": {"columns": 80, "colour": False, "json": False}}
            assert "result" in live.request("thread", action="get", id=thread, timeout=60, **shown)
            said = live.request("close", cwd=str(project), done=[text[:60_000]], timeout=60)
        assert "result" in said, said
        others = max(others, listener.longest)

    # It is some tenths of a second where the machine has nothing else to do.
    assert others < 3
    figure = (
        f"a call takes {worked * 1000:.0f} ms of CPU, others wait {others * 1000:.0f} ms at most"
    )
    record_property("figure", f"{len(units)} kinds: {figure}")
