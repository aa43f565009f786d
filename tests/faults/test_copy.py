"""The rolling copy of core.db: after a kill during the copying there is a whole copy."""

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import time
from unittest.mock import Mock

import damaged_stores
from handoffd.runtime import clock
from handoffd.store.core import CoreStore
from handoffd.store.core_keeper import CoreKeeper
from handoffd.store.thread_store import NewEntry

KILLS = 40
DAY = clock.DAY_SECONDS
ENTRIES = 200


def test_killed_while_it_copies(tmp_path, record_property):
    """After kill -9 at any moment there is exactly one copy, whole and closed to other users."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    core.threads.create("hof_x", "t", None, NewEntry("chat", "context", "first", "t"))
    for number in range(ENTRIES - 1):
        core.threads.add("hof_x", NewEntry("chat", "done", f"{number} " + "x" * 8000, "t"), 8 << 20)
    core.back_up()
    core.close()
    chance = random.Random(7)
    copies = set()
    for _ in range(KILLS):
        child = os.fork()
        if not child:
            copying = CoreStore(path)
            while True:
                copying.back_up()
        time.sleep(chance.uniform(0.0, 0.08))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = os.stat(f"{path}.backup")
        copies.add(found.st_ino)
        assert 0o600 == found.st_mode & 0o777
        with contextlib.closing(sqlite3.connect(f"file:{path}.backup?mode=ro", uri=True)) as copy:
            assert ("ok",) == copy.execute("PRAGMA integrity_check").fetchone()
            assert (ENTRIES,) == copy.execute("SELECT count(*) FROM handoff_entries").fetchone()
    core = CoreStore(path)
    core.back_up()
    core.close()

    assert 1 < len(copies)
    assert {"core.db.backup"} == {n for n in os.listdir(tmp_path) if "backup" in n}
    record_property("figure", f"{KILLS} kills, {KILLS} whole copies")


def test_damaged_file_is_not_copied(tmp_path, record_property):
    """A damaged core.db is not copied: it is repaired from the copy instead."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    core.threads.create("hof_x", "t", None, NewEntry("chat", "context", "first", "t"))
    for number in range(ENTRIES):
        core.threads.add(
            "hof_x", NewEntry("chat", "done", f"entry {number} " + "x" * 900, "t"), 8 << 20
        )
    core.back_up()
    old = clock.wall() - 2 * DAY
    os.utime(f"{path}.backup", (old, old))
    before = os.stat(f"{path}.backup")
    core._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damaged_stores.entries(tmp_path / "core.db")

    async def look() -> None:
        keeper = CoreKeeper(core, asyncio.Lock(), asyncio.ensure_future, Mock())
        await keeper.look()
        await keeper.wait()

    asyncio.run(look())

    assert before.st_ino == os.stat(f"{path}.backup").st_ino
    assert ENTRIES + 1 == len(core.threads.read("hof_x")[1])
    core.close()
    record_property("figure", f"{ENTRIES + 1} of {ENTRIES + 1} entries")
