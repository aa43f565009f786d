"""The rolling copy of core.db: killed while it is made anew, a whole one is there."""

import contextlib
import os
import random
import signal
import sqlite3
import time

from handoffd.store.core import CoreStore
from handoffd.store.threads import Said

KILLS = 40
ENTRIES = 200


def test_killed_while_it_copies(tmp_path, record_property):
    """kill -9 at any moment: the copy is there, whole, for nobody else, and the only one."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    core.threads.create("hof_x", "t", None, Said("chat", "context", "first", "t"))
    for number in range(ENTRIES - 1):
        core.threads.add("hof_x", Said("chat", "done", f"{number} " + "x" * 8000, "t"), 8 << 20)
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
