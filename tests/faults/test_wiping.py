"""A large core.db is rewritten when a thread is closed: only the closing client waits."""

import secrets
import threading
import time

from conftest import DaemonSandbox, wait_for
from handoffd.store.core import CoreStore
from handoffd.store.thread_store import NewEntry
from mcp_socket_client import files_with

THREADS, ENTRIES, ENTRY_BYTES = 13, 20, 200_000


def answers_during(sandbox: DaemonSandbox, method: str, **params: str) -> tuple[dict, list[float]]:
    """Return the answer of a slow call, and the waiting times of others meanwhile."""
    answered: list[float] = []
    found: list[dict] = []
    calling = threading.Thread(target=lambda: found.append(sandbox.request(method, 60, **params)))
    calling.start()
    while calling.is_alive():
        asked = time.monotonic()
        sandbox.call("show", cwd=str(sandbox.home))
        answered.append(time.monotonic() - asked)
        time.sleep(0.005)
    calling.join()
    return found[0], answered


def test_answers_while_a_large_store_is_wiped(sandbox, record_property):
    """A thread of 4 MB in a core.db of 50 MB is wiped to the last byte, and others are answered."""
    sandbox.transcripts.mkdir(parents=True)
    sandbox.state.mkdir(parents=True, mode=0o700)
    core = CoreStore(str(sandbox.state / "core.db"))
    for number in range(THREADS):
        marker = f"words of {number}, "
        core.threads.create(f"hof_{number}", "t", None, NewEntry("chat", "context", marker, "t"))
        for _ in range(ENTRIES):
            said = NewEntry("chat", "done", marker + secrets.token_hex(ENTRY_BYTES // 2), "t")
            core.threads.add(f"hof_{number}", said, 8 << 20)
    core.close()
    size = (sandbox.state / "core.db").stat().st_size
    sandbox.start()
    wait_for((sandbox.state / "core.db.backup").exists)
    assert {"core.db", "core.db.backup"} <= set(files_with(sandbox.state, b"words of 7, "))
    for method in ("pause", "unpause"):  # the copy is made at once
        before = (sandbox.state / "core.db.backup").stat().st_ino
        assert 5 <= len(answers_during(sandbox, method)[1]), method
        assert before != (sandbox.state / "core.db.backup").stat().st_ino
    began = time.monotonic()
    closed, answered = answers_during(sandbox, "thread", action="close", id="hof_7")
    seconds = time.monotonic() - began

    assert [] == files_with(sandbox.state, b"words of 7, ")
    assert "warnings" not in closed["result"]["data"]["result"], closed
    assert 5 <= len(answered)
    longest = max(answered)
    figure = f"{size >> 20} MB wiped in {seconds:.2f} s, longest answer {longest * 1000:.0f} ms"
    record_property("figure", figure)
