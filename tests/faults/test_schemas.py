"""Databases of the first release and later are taken over; newer and older ones are refused."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from handoffd.errors import StoreError
from handoffd.store import schema as core_schema
from handoffd.store import state as state_store
from handoffd.store.core import CoreStore
from handoffd.store.database import Schema, migrate
from handoffd.store.state import open_state
from handoffd.store.thread_store import NewEntry

SCHEMAS = Path(__file__).parent / "schemas"
PROJECT = "0123456789abcdef"
KNOWN = {"core": core_schema.SCHEMA, "state": state_store.SCHEMA}


def fixtures(store: str) -> list[str]:
    return sorted(path.stem for path in SCHEMAS.glob(f"{store}-*.sql"))


def made(path: Path, name: str, more: str = "") -> str:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript((SCHEMAS / f"{name}.sql").read_text() + more)
    return str(path)


def tables(db: sqlite3.Connection) -> dict[str, list[tuple]]:
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: sorted(db.execute(f"PRAGMA table_info({name})")) for name in names}


@pytest.mark.parametrize("strange", [False, True], ids=["plain", "strange"])
@pytest.mark.parametrize("name", fixtures("core"))
def test_old_core_is_taken_over(tmp_path, name, strange, record_property):
    """Every row of an old core.db is served and can be changed, also beside unknown tables."""
    more = "".join(
        f"ALTER TABLE {table} ADD COLUMN strange TEXT;"
        for table in ("handoffs", "triggers", "pauses", "skips", "contracts")
    )
    path = made(tmp_path / "core.db", name, f"{more}CREATE TABLE strange (x);" if strange else "")
    core = CoreStore(path)

    thread, entries = core.threads.read("hof_1")
    assert ("A thread", 2, 1) == (thread.title, thread.chat_last_seen, thread.code_last_seen)
    assert ["first words", "zweite Wörter"] == [entry.content for entry in entries]
    assert 3 == core.threads.add("hof_1", NewEntry("chat", "done", "x", "t"), 1 << 20)[1].seq
    core.threads.close("hof_1", "t", lambda whole: ("t", None))
    assert "A goal that a person set" == core.settings(PROJECT)["goal"].value
    assert ({"goal": "g"}, {"goal": "g"}) == core.checkpoint(PROJECT)
    assert "/home/me/shop" == core.project_root(PROJECT)
    assert [("manual", {})] == [(f.trigger, f.outcome) for f in core.ledger.recent(None, 9)]
    assert [] == core.ledger.pending()
    assert [2.0, None] == [pause.ended_at for pause in core.pauses()]
    assert [(10, 30)] == [(skip.start, skip.end) for skip in core.skips()["s1"]]
    core.start_pause(PROJECT, 9.0, {"s9": 1})
    core.end_pauses([PROJECT], 10.0, {"s9": 2})
    left = core.contract("s1")
    assert ("/h/1.md", "w", "w", "x") == (left.path, left.written, left.intended, left.stamp)
    core.set_contract(left)
    assert [left] == core.contracts_of(PROJECT)
    assert {"/h/1.md": "x"} == core.read_marks(["/h/1.md"])
    assert ["k"] == [letter.key for letter in core.outbox.due(9.0, 9)]
    core.set_rewritten("s3", "t", None)
    known = 0 if name == "core-9" else 1
    assert known == len(core.oauth.clients())
    assert bool(known) == core.oauth.exchange("refresh", "refresh", {}, 9.0)
    marked = ["done"] if name == "core-12" else []
    assert marked == [mark.state for mark in core.item_marks.of(PROJECT)]
    core.close()
    record_property("figure", f"{len(fixtures('core'))} of {len(fixtures('core'))}")


@pytest.mark.parametrize("name", fixtures("state"))
def test_old_state_is_taken_over(tmp_path, name, record_property):
    """Every row of an old state.db is served."""
    state, rebuilt = open_state(made(tmp_path / "state.db", name), f"{tmp_path}/aside")

    assert not rebuilt
    assert [100] == [cursor.offset for cursor in state.cursors()]
    state.sweep()
    state.commit(state_store.Cursor("s2", "s2", "/t"), None)
    state.close()
    record_property("figure", f"{len(fixtures('state'))} of {len(fixtures('state'))}")


@pytest.mark.parametrize(("step", "words"), [(1, "newer handoffd"), (-1, "before the first")])
@pytest.mark.parametrize("store", ["core", "state"])
def test_an_unknown_schema_is_left_untouched(tmp_path, store, step, words, record_property):
    """A database of a newer or too old version is refused, and no byte of it is changed."""
    newest = KNOWN[store].newest
    number = newest + 1 if step > 0 else KNOWN[store].first - 1
    path = tmp_path / f"{store}.db"
    made(path, f"{store}-{newest}", f"PRAGMA user_version = {number};")
    before = path.read_bytes()
    open_it = CoreStore if store == "core" else lambda path: open_state(path, f"{path}.aside")
    with pytest.raises(StoreError, match=f"{words}.*schema {number}") as refused:
        open_it(str(path))

    assert "the file aside" in refused.value.hint
    assert before == path.read_bytes()
    assert [path.name] == [found.name for found in tmp_path.iterdir()]
    record_property("figure", f"{store}: {len(before)} of {path.stat().st_size} bytes as before")


@pytest.mark.parametrize("store", ["core", "state"])
def test_every_schema_has_its_fixture(store, record_property):
    """There is a fixture for each number, with the tables of that number: none is changed later."""
    first, create, later = KNOWN[store]
    for number in range(first, KNOWN[store].newest + 1):
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as now:
            migrate(now, "", Schema(first, create, later[: number - first]))
            with contextlib.closing(sqlite3.connect(":memory:")) as then:
                then.executescript((SCHEMAS / f"{store}-{number}.sql").read_text())
                assert tables(now) == tables(then), f"{store}-{number}"
    record_property("figure", f"{store}.db: {1 + len(later)} numbers")
