"""A large core.db is rewritten when a thread is closed: only the closing client waits."""

import secrets
import threading
import time

from bridged import files_with
from conftest import House, wait_for
from handoffd.store.core import CoreStore
from handoffd.store.threads import NewEntry

THREADS, ENTRIES, ENTRY_BYTES = 13, 20, 200_000


def answers_during(house: House, method: str, **params: str) -> tuple[dict, list[float]]:
    """Return the answer of a slow call, and the waiting times of others meanwhile."""
    answered: list[float] = []
    found: list[dict] = []
    calling = threading.Thread(target=lambda: found.append(house.request(method, 60, **params)))
    calling.start()
    while calling.is_alive():
        asked = time.monotonic()
        house.call("show", cwd=str(house.home))
        answered.append(time.monotonic() - asked)
        time.sleep(0.005)
    calling.join()
    return found[0], answered


def test_answers_while_a_large_store_is_wiped(house, record_property):
    """A thread of 4 MB in a core.db of 50 MB is wiped to the last byte, and others are answered."""
    house.transcripts.mkdir(parents=True)
    house.state.mkdir(parents=True, mode=0o700)
    core = CoreStore(str(house.state / "core.db"))
    for number in range(THREADS):
        marker = f"words of {number}, "
        core.threads.create(f"hof_{number}", "t", None, NewEntry("chat", "context", marker, "t"))
        for _ in range(ENTRIES):
            said = NewEntry("chat", "done", marker + secrets.token_hex(ENTRY_BYTES // 2), "t")
            core.threads.add(f"hof_{number}", said, 8 << 20)
    core.close()
    size = (house.state / "core.db").stat().st_size
    house.start()
    wait_for((house.state / "core.db.backup").exists)
    assert {"core.db", "core.db.backup"} <= set(files_with(house.state, b"words of 7, "))
    for method in ("pause", "unpause"):  # the copy is made at once
        before = (house.state / "core.db.backup").stat().st_ino
        assert 5 <= len(answers_during(house, method)[1]), method
        assert before != (house.state / "core.db.backup").stat().st_ino
    began = time.monotonic()
    closed, answered = answers_during(house, "thread", action="close", id="hof_7")
    seconds = time.monotonic() - began

    assert [] == files_with(house.state, b"words of 7, ")
    assert "warnings" not in closed["result"]["data"]["result"], closed
    assert 5 <= len(answered)
    longest = max(answered)
    figure = f"{size >> 20} MB wiped in {seconds:.2f} s, longest answer {longest * 1000:.0f} ms"
    record_property("figure", figure)
