"""The rolling copy of core.db: whole or absent, private, and without erased content."""

import asyncio
import contextlib
import math
import os
import sqlite3
import subprocess
import sys
from unittest.mock import Mock

import pytest

from handoffd.errors import StoreError
from handoffd.runtime import clock
from handoffd.store import backup
from handoffd.store.core import CoreStore
from handoffd.store.core_keeper import CoreKeeper
from handoffd.store.thread_store import NewEntry
from mcp_socket_client import files_with

DAY = clock.DAY_SECONDS
MARKER = "a-marker-that-nothing-else-holds"


@pytest.fixture
def core(tmp_path):
    store = CoreStore(str(tmp_path / "core.db"))
    store.threads.create("hof_x", "t", None, NewEntry("chat", "context", MARKER * 500, "t"))
    yield store
    store.close()


def close(core: CoreStore) -> None:
    core.threads.close("hof_x", "t", lambda whole: ("t", None))


def names(core: CoreStore) -> list[str]:
    """Return the names of the copies beside core.db, finished or not."""
    found = os.listdir(os.path.dirname(core.path))
    return sorted(name for name in found if name.startswith("core.db.backup"))


def test_the_copy_is_a_whole_database(core, tmp_path):
    """The copy opens as a core.db with the same schema and rows, and only its owner can read it."""
    core.back_up()
    copy = CoreStore(f"{core.path}.backup")

    assert core.threads.read("hof_x") == copy.threads.read("hof_x")
    assert 0o600 == (tmp_path / "core.db.backup").stat().st_mode & 0o777
    copy.close()


def test_the_copy_can_be_put_in_the_place_of_a_damaged_file(core, tmp_path):
    """A copy that is renamed to core.db continues from the time of the copy."""
    core.back_up()
    os.rename(f"{core.path}.backup", tmp_path / "again.db")
    again = CoreStore(str(tmp_path / "again.db"))
    entry = again.threads.add("hof_x", NewEntry("code", "done", "d", "t"), 1 << 20)[1]

    assert 2 == entry.seq
    again.close()


def test_how_old_the_copy_is(core):
    """A missing copy is infinitely old, and a copy from the future is as old as it is ahead."""
    assert math.inf == backup.age_seconds(core.path)
    assert core.needs_copy()
    core.back_up()
    assert not core.needs_copy()
    for moved in (-2 * DAY, 2 * DAY):
        at = clock.wall() + moved
        os.utime(f"{core.path}.backup", (at, at))
        assert core.needs_copy()


def test_a_copy_of_what_has_not_changed_lasts_a_day(core):
    """While core.db does not change, the copy is not renewed every hour."""
    core.back_up()
    core.shorten_log()
    hours = clock.wall() - 5 * 3600
    os.utime(f"{core.path}.backup", (hours, hours))
    assert core.needs_copy()
    os.utime(core.path, (hours - 1, hours - 1))

    assert not core.needs_copy()


def test_a_copy_that_is_missing_is_made_after_scrubbing(core, tmp_path):
    """A missing copy may mean that scrubbing was interrupted, so core.db is scrubbed first."""
    close(core)
    assert files_with(tmp_path, MARKER.encode())
    core.back_up()

    assert [] == files_with(tmp_path, MARKER.encode())


def test_scrubbing_makes_the_copy_anew(core, tmp_path):
    """After scrubbing no file has the erased text, not even one that a killed process left."""
    core.back_up()
    (tmp_path / "core.db.backup.new-0123").write_bytes(MARKER.encode())
    assert {"core.db.backup", "core.db.backup.new-0123"} <= set(
        files_with(tmp_path, MARKER.encode())
    )
    close(core)
    core.scrub()

    assert [] == files_with(tmp_path, MARKER.encode())
    assert ["core.db.backup"] == names(core)


def test_without_scrubbing_no_copy_stays(core, tmp_path):
    """If scrubbing fails, a copy that may have erased text is removed, finished or not."""
    core.back_up()
    (tmp_path / "core.db.backup.new-0123").write_bytes(MARKER.encode())
    close(core)
    with contextlib.closing(sqlite3.connect(core.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM handoffs").fetchall()
        with pytest.raises(StoreError, match="another program is reading"):
            core.scrub()

    assert [] == names(core)


def test_a_failure_leaves_the_old_copy(core, monkeypatch):
    """A copy is replaced by a whole one or not at all, and no partial file is left."""
    core.back_up()
    before = os.stat(f"{core.path}.backup").st_ino

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        core.back_up()

    assert before == os.stat(f"{core.path}.backup").st_ino
    assert ["core.db.backup"] == names(core)


def test_what_cannot_be_removed_is_said(core):
    """A copy with erased text that cannot be removed is named, to be removed by hand."""
    core.back_up()
    os.unlink(f"{core.path}.backup")
    os.mkdir(f"{core.path}.backup")
    with pytest.raises(StoreError, match=r"core.db.backup still has what was erased"):
        core.scrub()


def test_whose_copy_was_removed_meanwhile_begins_again(core, monkeypatch):
    """A copy is started again if another process removes unfinished copies during an erasure."""
    real, calls = os.fsync, []

    def removed(handle: int) -> None:
        real(handle)
        if not calls:
            calls.append([name for name in names(core) if ".new" in name])
            backup.drop(core.path)

    monkeypatch.setattr(backup.os, "fsync", removed)
    core.back_up()

    assert [1] == list(map(len, calls))
    assert ["core.db.backup"] == names(core)


ERASER = """
import sys
from handoffd.errors import StoreError
from handoffd.store.core import CoreStore
from handoffd.store.core_keeper import CoreKeeper
core = CoreStore(sys.argv[1])
for _ in range(10):
    try:
        core.scrub()
    except StoreError as problem:
        print(problem.title)
core.close()
"""


def test_several_processes_scrub_at_once(core):
    """Processes that scrub at the same time get at most a message that another is at work."""
    close(core)
    core.scrub()
    command = [sys.executable, "-c", ERASER, core.path]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(3)]
    said = [process.communicate() for process in processes]
    core.scrub()

    assert [""] * 3 == [errors for _, errors in said]
    assert set() == {line for lines, _ in said for line in lines.splitlines()} - {
        "Erased, but another program is reading core.db: its log still has a copy.",
        "core.db could not be copied: others do it, too.",
    }
    assert ["core.db.backup"] == names(core)
    with contextlib.closing(sqlite3.connect(f"{core.path}.backup")) as copy:
        assert (1,) == copy.execute("SELECT count(*) FROM handoffs").fetchone()


def run(core: CoreStore, problem: str = "") -> str:
    keeper = CoreKeeper(core, asyncio.Lock(), asyncio.ensure_future, Mock(), copy_problem=problem)
    asyncio.run(keeper.look())
    return keeper.copy_problem


def test_the_daemon_copies_once_an_hour(core):
    """A young copy is kept, and a copy older than an hour is renewed."""
    assert "" == run(core)
    first = os.stat(f"{core.path}.backup").st_ino
    run(core)
    assert first == os.stat(f"{core.path}.backup").st_ino
    old = clock.wall() - 3601
    os.utime(f"{core.path}.backup", (old, old))
    assert "" == run(core, "an older problem")

    assert first != os.stat(f"{core.path}.backup").st_ino


def test_a_copy_that_fails_is_a_warning(core, monkeypatch):
    """The daemon stores the problem as a warning and does not fail."""

    def fail(*_: object) -> None:
        raise StoreError("core.db could not be copied: no room.")

    monkeypatch.setattr(backup, "make", fail)

    assert "core.db could not be copied: no room." == run(core)
