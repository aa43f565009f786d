"""A large core.db is written anew when a thread is closed: nobody waits for it but who closes."""

import secrets
import threading
import time

from bridged import files_with
from conftest import wait_for
from handoffd.store.core import CoreStore
from handoffd.store.threads import Said

THREADS, ENTRIES, ENTRY_BYTES = 13, 20, 200_000


def test_answers_while_a_large_store_is_wiped(house, record_property):
    """A thread of 4 MB in a core.db of 50 MB is wiped to the last byte, and others are answered."""
    house.transcripts.mkdir(parents=True)
    house.state.mkdir(parents=True, mode=0o700)
    core = CoreStore(str(house.state / "core.db"))
    for number in range(THREADS):
        marker = f"words of {number}, "
        core.threads.create(f"hof_{number}", "t", None, Said("chat", "context", marker, "t"))
        for _ in range(ENTRIES):
            said = Said("chat", "done", marker + secrets.token_hex(ENTRY_BYTES // 2), "t")
            core.threads.add(f"hof_{number}", said, 8 << 20)
    core.close()
    size = (house.state / "core.db").stat().st_size
    house.start()
    wait_for((house.state / "core.db.backup").exists, 30)
    assert {"core.db", "core.db.backup"} <= set(files_with(house.state, b"words of 7, "))
    answered: list[float] = []
    closed: list[dict] = []
    closing = threading.Thread(
        target=lambda: closed.append(house.request("thread", 60, action="close", id="hof_7"))
    )
    began = time.monotonic()
    closing.start()
    while closing.is_alive():
        asked = time.monotonic()
        house.call("show", cwd=str(house.home))
        answered.append(time.monotonic() - asked)
        time.sleep(0.005)
    closing.join()
    seconds = time.monotonic() - began

    assert [] == files_with(house.state, b"words of 7, ")
    assert "warnings" not in closed[0]["result"]["data"]["result"], closed
    assert 5 <= len(answered)
    longest = max(answered)
    figure = f"{size >> 20} MB wiped in {seconds:.2f} s, longest answer {longest * 1000:.0f} ms"
    record_property("figure", figure)
