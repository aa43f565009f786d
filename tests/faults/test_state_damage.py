"""A damaged state.db is moved aside, the daemon is up, and the transcripts restore it."""

import asyncio
import os
from types import SimpleNamespace

import pytest

import damaged_stores
from conftest import wait_for
from damaged_stores import warnings
from failing_disk import Disk
from handoffd.errors import StoreError
from handoffd.ingest import state_rebuild
from handoffd.ingest.state_rebuild import StateRebuild
from handoffd.store.state import StateStore, StoredEnd, move_aside

LONG = pytest.mark.long
KINDS = [
    damaged_stores.page,
    pytest.param(damaged_stores.directory, marks=LONG),
    pytest.param(damaged_stores.garbage, marks=LONG),
    pytest.param(damaged_stores.header, marks=LONG),
    pytest.param(damaged_stores.half, marks=LONG),
    pytest.param(damaged_stores.empty, marks=LONG),
]
SESSIONS = 40
END = StoredEnd(1.0, "killed")


def known(sandbox) -> dict[str, tuple]:
    """Return the known facts of every session."""
    found = sandbox.call("sessions", limit=1000)["sessions"]
    return {item["session_id"]: (item["project"], item["records"], item["goal"]) for item in found}


def work(sandbox) -> dict[str, tuple]:
    """Let sessions work in two projects; return the known facts of them."""
    for name in ("shop", "mill"):
        project = sandbox.project(name)
        for number in range(SESSIONS // 2):
            session = sandbox.session(project)
            session.prompt(f"Make part {number} of the {name} work")
            session.say("It works now. " + "x" * 500)
    wait_for(lambda: len(known(sandbox)) == SESSIONS and sandbox.settled())
    return known(sandbox)


@pytest.mark.parametrize("damage", KINDS)
def test_damaged_state_is_rebuilt_equal(live, damage, record_property):
    """After any damage to state.db there is a warning, and the same state is built again.

    Nothing is deleted.
    """
    before = work(live)
    live.stop()
    path = live.state / "state.db"
    damage(path)
    found = path.read_bytes() if path.is_file() else None
    log = path.with_name("state.db-wal")
    log = log.read_bytes() if log.exists() else b""
    live.start()
    wait_for(lambda: known(live) == before and live.settled())

    assert "state_damaged" in live.log.read_text()
    wait_for(lambda: "state_rebuilt" not in warnings(live), what="all is read, and that is said")
    assert "state_rebuilt" not in live.handoff("doctor").stdout
    aside = [name for name in live.state.glob("state.db.damaged-*") if name.name.endswith("Z")]
    assert 1 == len(aside)
    assert found == (aside[0].read_bytes() if found is not None else None)
    kept = aside[0].with_name(f"{aside[0].name}-wal")
    assert log == (kept.read_bytes() if kept.exists() else b"")
    live.restart()
    assert "state_rebuilt" not in warnings(live)
    assert before == known(live)
    record_property("figure", f"{SESSIONS} of {SESSIONS} sessions equal")


CELLS = [
    ("cursors", "path", damaged_stores.NO_TEXT, True),
    ("sessions", "fold", damaged_stores.NO_JSON, False),
    ("sessions", "fold", """'{"records": []}'""", False),
]


def test_damage_inside_cells(live, record_property):
    """With invalid values the daemon starts, and reads the real ones from the transcripts."""
    before = work(live)
    for *place, rebuilt in CELLS:
        live.stop()
        damaged_stores.cell(live.state / "state.db", *place)
        live.log.write_text("")
        live.start()
        wait_for(lambda: known(live) == before and live.settled())
        assert rebuilt is ("state_damaged" in live.log.read_text()), place
    record_property("figure", f"{len(CELLS)} of {len(CELLS)} starts, {SESSIONS} sessions equal")


def test_damage_while_it_runs(live, record_property):
    """If pages go bad under the daemon, the same process moves the file aside and reads anew."""
    before = work(live)
    live.restart()
    pid = live.call("status")["pid"]
    path = live.state / "state.db"
    with path.open("r+b") as stream:
        for number in range(1, path.stat().st_size // damaged_stores.PAGE):
            stream.seek(number * damaged_stores.PAGE)
            stream.write(os.urandom(damaged_stores.PAGE))
    live.session(live.home / "code/shop").prompt("Make one thing more work")
    said = wait_for(lambda: warnings(live).get("state_rebuilt"))
    assert "is being rebuilt" in said
    wait_for(lambda: len(known(live)) == SESSIONS + 1 and live.settled())
    wait_for(lambda: "state_rebuilt" not in warnings(live))

    assert before.items() <= known(live).items()
    assert pid == live.call("status")["pid"]
    record_property("figure", f"{SESSIONS} of {SESSIONS} sessions equal, same process")


def test_unreadable_while_it_runs_and_at_the_start(sandbox, tmp_path, record_property):
    """A state.db that the disk cannot read is moved aside and rebuilt, without a crash."""
    disk = Disk(tmp_path)
    sandbox.environment |= disk.environment
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    before = work(sandbox)
    sandbox.restart()
    pid, path = sandbox.process.pid, sandbox.state / "state.db"
    disk.fail_reading(path)
    sandbox.session(sandbox.home / "code/shop").prompt("Make one thing more work")
    wait_for(lambda: len(list(sandbox.state.glob("state.db.damaged-*Z"))) == 1)
    failed = disk.mend()
    wait_for(lambda: len(known(sandbox)) == SESSIONS + 1 and sandbox.settled())
    assert before.items() <= known(sandbox).items()
    assert (True, pid) == (failed > 0, sandbox.call("status")["pid"])
    before = known(sandbox)
    sandbox.stop()
    disk.fail_reading(path)
    sandbox.start()
    wait_for(lambda: known(sandbox) == before and sandbox.settled())

    assert "loop_failed" not in sandbox.log.read_text()
    record_property("figure", f"{len(before)} of {len(before)} sessions equal, twice")


def test_no_new_one_can_be_made(tmp_path, monkeypatch, record_property):
    """On a full disk a client is told so, and the file is made when there is room again."""
    path = str(tmp_path / "state.db")
    store = StateStore(path)
    made = asyncio.Event()
    transcript_reader = SimpleNamespace(problem="", entries={}, start_anew=lambda _: made.set())
    replacement = StateRebuild(store, transcript_reader, asyncio.ensure_future, lambda: True)
    real, tries = os.open, []

    def full(name, *rest, **more):
        if name == path and len(tries) < 3:
            tries.append(name)
            raise OSError(28, "No space left on device")
        return real(name, *rest, **more)

    async def rebuild() -> None:
        store._report_damage("malformed")
        replacement.begin()
        assert "No space left" in transcript_reader.problem
        for ask in (lambda: list(store.cursors()), lambda: store.set_ended("s", END)):
            with pytest.raises(StoreError, match="no new one can be made"):
                ask()
        async with asyncio.timeout(30):
            await made.wait()

    monkeypatch.setattr(state_rebuild, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(os, "open", full)
    asyncio.run(rebuild())
    store.set_ended("s", END)

    assert {"s": END} == store.ended(0.0)
    assert ("", 3) == (transcript_reader.problem, len(tries))
    assert 1 == len([name for name in os.listdir(tmp_path) if name.endswith("Z")])
    store.close()
    record_property("figure", f"made after {len(tries)} tries in vain")


def test_few_damaged_files_are_kept(tmp_path, record_property):
    """After any number of damages the last three damaged files stay beside state.db."""
    path = tmp_path / "state.db"
    for number in range(20):
        path.write_text(str(number))
        if number % 2:
            (tmp_path / "state.db-wal").write_text(str(number))
        if number == 7:
            path.unlink()
            path.mkdir()
        move_aside(str(path), f"{path}.damaged-2026-11-17T0000{number:02}Z")
    found = sorted(name.name for name in tmp_path.iterdir())

    kept = [(tmp_path / name).read_text() for name in found if name.endswith("Z")]
    assert ["17", "18", "19"] == kept
    assert 3 + 2 == len(found)
    record_property("figure", f"{number + 1} times: {len(kept)} kept")
