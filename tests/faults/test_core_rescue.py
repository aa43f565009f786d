"""core.db goes bad, or away, under the daemon: what is left of it is read beside the loop."""

import os
import secrets
import time

import pytest

import damaged
import proc
from conducted import run_after
from conftest import House, wait_for
from damaged import core_of, heard, log_of, say, talk, warnings
from faulty import Disk
from handoffd.store.core import CoreStore
from handoffd.store.threads import Said

ENTRIES, ENTRY_BYTES = 1000, 50_000


def fill(house: House) -> None:
    """Make a core.db with entries, ten in a thread."""
    house.state.mkdir(parents=True, mode=0o700)
    core = CoreStore(str(core_of(house)))
    for number in range(ENTRIES):
        said = Said("chat", "done", f"entry {number} {secrets.token_hex(ENTRY_BYTES // 2)}", "t")
        thread = f"hof_{number // 10}"
        if number % 10:
            core.threads.add(thread, said, 8 << 20)
        else:
            core.threads.create(thread, "t", None, said)
    core.close()


@pytest.mark.long
def test_answers_while_a_damaged_store_is_read(house, record_property):
    """Nobody else waits for it, it takes little memory, and every entry is answered again."""
    house.transcripts.mkdir(parents=True)
    fill(house)
    size = core_of(house).stat().st_size
    house.start()
    wait_for((house.state / "core.db.backup").exists, 30)
    house.restart()  # nothing of it is in memory
    pid = house.process.pid
    damaged.page(core_of(house), b"entry 30 ")
    before, most, longest = proc.memory_bytes(pid)[0], 0, 0.0
    began = time.monotonic()
    assert "error" in house.request("thread", action="get", id="hof_3")
    while True:
        asked = time.monotonic()
        house.call("show", cwd=str(house.home))
        longest = max(longest, time.monotonic() - asked)
        most = max(most, proc.memory_bytes(pid)[0])
        if "result" in house.request("thread", action="get", id="hof_3"):
            break
        assert time.monotonic() - began < 60
        time.sleep(0.005)
    seconds = time.monotonic() - began

    for number in range(ENTRIES // 10):
        assert 10 == len(heard(house, f"hof_{number}")), number
    assert "handoff repair" in warnings(house)["core_damaged"]
    assert pid == house.call("status")["pid"]
    assert longest < 5.0
    record_property(
        "figure",
        f"{size >> 20} MB read in {seconds:.1f} s, longest answer {longest * 1000:.0f} ms,"
        f" {(most - before) / 1e6:+.0f} MB of memory",
    )


@pytest.mark.parametrize(
    ("name", "offset"), [("core.db", 0), ("core.db-wal", 0), ("core.db-wal", 10_000)]
)
def test_unreadable_core_is_served_from_its_copy(house, tmp_path, name, offset, record_property):
    """The disk gives it, or its log from some byte on, not back: the daemon has the copy."""
    disk = Disk(tmp_path)
    house.environment |= disk.environment
    house.transcripts.mkdir(parents=True)
    house.start()
    thread, entries = talk(house, 5)
    assert "result" in say(house, thread, "in the log")
    house.kill()
    assert offset < (house.state / name).stat().st_size
    disk.fail_reading(house.state / name, offset)
    house.start()

    assert "handoff repair" in warnings(house)["core_damaged"]
    assert entries <= len(heard(house, thread))
    assert "error" in say(house, thread, "more")
    house.stop()
    assert 0 < disk.mend()
    assert 0 == house.handoff("repair", "--yes").returncode
    house.start()
    assert "core_damaged" not in warnings(house)
    assert entries + 1 == len(heard(house, thread)), "the disk has it back"
    record_property("figure", f"{entries} of {entries} entries while it fails, then all")


def empty(path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("lose", [empty, pytest.param(os.unlink, marks=pytest.mark.long)])
@pytest.mark.parametrize("notice", ["doctor", "stop"])
def test_what_is_in_the_log_of_a_lost_core(live, lose, notice, record_property):
    """core.db is emptied or deleted under the daemon: the log stays, and repair has all of that."""
    thread, entries = live.call("thread", action="create", title="t", content="first")["id"], 21
    for number in range(entries - 1):
        assert "result" in say(live, thread, f"in the log {number}")
    path = core_of(live)
    log = log_of(path).read_bytes()
    lose(path)

    if notice == "doctor":
        assert "core-damaged" in live.handoff("doctor").stdout
        assert entries == len(heard(live, thread))
        assert log == log_of(path).read_bytes()
        assert log == path.with_name("core.db.damaged-wal").read_bytes()
    live.restart()
    assert "handoff repair" in warnings(live)["core_damaged"]
    assert entries == len(heard(live, thread))
    live.stop()
    assert 0 == live.handoff("repair", "--yes").returncode
    live.start()
    assert "core_damaged" not in warnings(live)
    assert entries == len(heard(live, thread))
    record_property("figure", f"{entries} of {entries} entries")


@pytest.mark.long
def test_a_deleted_core_is_missed(house):
    """Nobody asks, and nothing stands in its log: the daemon itself finds that core.db is gone."""
    house.transcripts.mkdir(parents=True)
    run_after(house, "import handoffd.app\nhandoffd.app.CORE_LOOK_SECONDS = 0.2").start()
    thread, entries = talk(house, 5)
    path = core_of(house)
    wait_for(lambda: not log_of(path).stat().st_size, what="the log is empty")
    path.unlink()
    wait_for(lambda: "core_damaged" in warnings(house), what="it is missed")

    assert entries == len(heard(house, thread))
    assert "error" in say(house, thread, "more")


SLOW = """
import time, handoffd.store.salvage
handoffd.store.salvage.salvage = lambda _path: time.sleep(120)
"""


OFTEN = "import handoffd.app\nhandoffd.app.CORE_LOOK_SECONDS = handoffd.app.COPY_SECONDS = 0.2\n"


@pytest.mark.long
@pytest.mark.parametrize("often", ["", OFTEN], ids=["asked", "copied"])
def test_stop_amid_a_rescue(house, often, record_property):
    """A stop does not wait until all is read; nothing is lost by that, and the next start has it."""
    house.transcripts.mkdir(parents=True)
    run_after(house, SLOW + often).start()
    thread, entries = talk(house, 150, 3000)
    path = core_of(house)
    damaged.page(path, b"entry 70 ")
    assert often or "error" in house.request("thread", action="get", id=thread)
    kept = path.with_name("core.db.damaged")
    wait_for(lambda: kept.exists() and kept.stat().st_size, what="the copy")
    found = path.read_bytes()
    began = time.monotonic()
    code = house.stop()
    seconds = time.monotonic() - began
    del house.spawn  # as it is
    house.start()

    assert (0, found, found) == (code, path.read_bytes(), kept.read_bytes())
    assert seconds < 20
    assert entries == len(heard(house, thread))
    record_property("figure", f"ended {seconds:.1f} s later, {entries} of {entries} entries")
