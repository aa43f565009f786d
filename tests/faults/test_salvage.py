"""What is read of a damaged core.db: all that any file holds, and nothing that was erased."""

import contextlib
import os

import pytest

import damaged
from bridged import files_with
from damaged import core_of
from handoffd import offline_repair
from handoffd.errors import DamagedError
from handoffd.store.core import CoreStore, Setting
from handoffd.store.erasure import Forgotten
from handoffd.store.ledger import Firing
from handoffd.store.salvage import LOST_TITLE, salvage
from handoffd.store.threads import Said

MARKER = "a-marker-that-nothing-else-holds"


def test_nothing_erased_comes_back(tmp_path, record_property):
    """Closed threads and forgotten projects stay so, though a copy had them before."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    for thread in ("hof_a", "hof_b"):
        core.threads.create(thread, "t", None, Said("chat", "context", f"{thread} {MARKER}", "t"))
    for number in range(300):
        core.threads.add("hof_b", Said("chat", "done", f"entry {number} {'x' * 200}", "t"), 1 << 20)
    project = core.project_id("/p", "t")
    core.set_values(project, {"goal": Setting(MARKER, "", "t")})
    core.back_up()
    for left in ("replaced-2026", "mending-0123", "damaged.new-0123"):  # of earlier repairs
        (tmp_path / f"core.db.{left}").write_text(f"hof_a {MARKER}")
    core.threads.close("hof_a", "t", lambda whole: ("t", None))
    assert not os.path.exists(f"{path}.backup")
    core.back_up()
    core.forget(Forgotten(project, ["s1"], whole=True, until=9.0, ends={"s1": 5}), "t")
    # Killed here, before anything is wiped: no copy is left that has it.
    assert not os.path.exists(f"{path}.backup")
    core.scrub()
    core.close()
    damaged.page(tmp_path / "core.db", b"entry 100 ")
    found = CoreStore(path, check=True)

    assert found.damage
    assert ("completed", []) == (
        found.threads.read("hof_a")[0].status,
        found.threads.read("hof_a")[1],
    )
    assert {} == found.settings(project)
    assert [9.0] == [pause.ended_at for pause in found.pauses()]
    assert 301 == len(found.threads.read("hof_b")[1])
    assert [] == files_with(tmp_path, b"hof_a " + MARKER.encode())
    back = files_with(tmp_path, b"hof_a " + MARKER.encode())
    record_property("figure", f"{len(back)} files have what was erased")


def test_a_page_that_is_lost_without_a_trace(house, monkeypatch, record_property):
    """It can be read, and lacks its rows: those of the copy come back, and no copy goes for it."""
    house.state.mkdir(parents=True, mode=0o700)
    path = core_of(house)
    core = CoreStore(str(path))
    project = core.project_id("/p", "t")
    core.set_values(project, {f"field {n}": Setting("x", "", "t") for n in range(30)})
    core.back_up()
    core.close()
    damaged.stale(path, "settings")
    copy = path.with_name("core.db.backup")
    before = copy.read_bytes()
    core = CoreStore(str(path), check=True)
    assert "" == core.damage  # nobody has looked closely
    for act in (core.back_up, core.scrub):
        with pytest.raises(DamagedError):
            act()
    found = len(core.settings(project))
    core.close()
    assert (30, before) == (found, copy.read_bytes())

    monkeypatch.setattr(offline_repair, "make_state_dir", lambda: str(house.state))
    told = offline_repair.mend()["core"]
    assert {"read": 0, "copied": 30, "lost": 0, "whole": False} == told["tables"]["settings"]
    for name in (str(path), str(copy), f"{told['kept']}.backup"):
        with contextlib.closing(CoreStore(name)) as core:
            assert 30 == len(core.settings(project)), name
    copied = told["tables"]["settings"]["copied"]
    record_property("figure", f"{copied} of 30 back")


CELLS = [
    ("settings", "value", damaged.NO_JSON, "value in settings is no JSON"),
    ("settings", "set_at", damaged.NO_TEXT, "a text in it is none"),
    ("projects", "root", damaged.NO_TEXT, "a text in it is none"),
    ("handoff_entries", "content", damaged.NO_TEXT, "a text in it is none"),
]


@pytest.mark.parametrize("case", CELLS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_damage_inside_a_cell(house, monkeypatch, case, record_property):
    """A value that is none is noticed, though SQLite sees nothing wrong, and the copy has it."""
    *place, why = case
    house.state.mkdir(parents=True, mode=0o700)
    path = core_of(house)
    core = CoreStore(str(path))
    project = core.project_id("/p", "t")
    core.set_values(project, {f"field {n}": Setting("x", "", "t") for n in range(3)})
    core.threads.create("hof_x", "t", None, Said("chat", "context", "first", "t"))
    core.threads.add("hof_x", Said("chat", "done", "second", "t"), 1 << 20)
    everything = (core.projects(), core.settings(project), entries_of(core))
    core.back_up()
    core.close()
    damaged.cell(path, *place)
    with contextlib.closing(CoreStore(str(path), check=True)) as found:
        assert why == found.damage
        assert everything == (found.projects(), found.settings(project), entries_of(found))
    os.unlink(f"{path}.damaged")

    monkeypatch.setattr(offline_repair, "make_state_dir", lambda: str(house.state))
    assert why == offline_repair.look()["core"]["problem"]
    told = offline_repair.mend()["core"]["tables"][place[0]]
    assert (1, 0) == (told["copied"], told["lost"])
    with contextlib.closing(CoreStore(str(path), check=True)) as found:
        assert everything == (found.projects(), found.settings(project), entries_of(found))
        assert "" == found.damage
    record_property("figure", f"{place[0]}: {told['copied']} of 1 back")


def entries_of(core: CoreStore) -> list:
    return core.threads.read("hof_x")[1]


def test_what_a_copy_may_not_know(tmp_path, record_property):
    """Of work under way in the copy nobody knows the end: it is not done twice, and it is said."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    project = core.project_id("/p", "t")
    core.ledger.fire(Firing("pending", "manual", project, "", "t"))
    core.outbox.queue("note", project, "/p", "k", "bd-1", "body", "t")
    core.outbox.release("k")
    core.threads.create("hof_x", "t", None, Said("chat", "context", "first", "t"))
    born = core.ledger.born_at
    core.back_up()
    core.close()
    damaged.gone(tmp_path / "core.db")
    found = CoreStore(path)

    assert [] == found.ledger.pending()
    assert "core.db was damaged" in found.ledger.recent(None, 9)[0].outcome["skipped"]
    assert [1] == [letter.attempts for letter in found.outbox.due(9.0, 9)]
    assert born < found.ledger.born_at
    # A number that was given to somebody is not given to another.
    saved = salvage(path)
    assert 100_000 < saved.db.execute("SELECT max(seq) FROM sqlite_sequence").fetchone()[0]
    record_property("figure", f"{len(found.ledger.pending())} done twice")


def test_entries_without_their_thread(tmp_path, record_property):
    """Entries of a thread that nothing tells of any more are kept, under a title that says so."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    core.threads.create("hof_x", "unheard-of", None, Said("chat", "context", "first", "t"))
    core._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    core.close()
    damaged.page(tmp_path / "core.db", b"unheard-of")
    found = CoreStore(path, check=True)
    thread, entries = found.threads.read("hof_x")

    assert LOST_TITLE == thread.title
    assert ["first"] == [entry.content for entry in entries]
    record_property("figure", f"{len(entries)} of 1 kept")
