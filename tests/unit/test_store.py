"""Databases: schema, pragmas, projects, settings, pauses, cursors and locks."""

import sqlite3
import subprocess
import sys

import pytest

from handoffd.store.core import EVERYTHING, CoreStore, Setting
from handoffd.store.cursor import Cursor
from handoffd.store.state import StateStore, StoredSession
from mcp_socket_client import SEED

ROWS = """
INSERT INTO handoffs (id, title) VALUES ('hof_1', 'A thread');
INSERT INTO handoff_entries (handoff_id, from_client, type, content) VALUES ('hof_1', 'chat', 'context', 'x');
"""


def test_a_database_of_the_seeds_schema_opens(tmp_path):
    """A core.db of the specification's schema is taken over with its rows."""
    path = str(tmp_path / "core.db")
    with sqlite3.connect(path) as made:
        made.executescript(SEED + ROWS)
    made.close()
    store = CoreStore(path)
    store.project_id("/p", "now")
    store.close()
    with sqlite3.connect(path) as again:
        rows = again.execute(
            "SELECT title, content FROM handoffs JOIN handoff_entries ON handoff_id = id"
        ).fetchall()
    again.close()

    assert [("A thread", "x")] == rows


def test_columns_of_the_seed(tmp_path):
    """Our core.db has the seed's two tables with the seed's columns, and our columns after them."""
    path = str(tmp_path / "core.db")
    CoreStore(path).close()
    ours, theirs = sqlite3.connect(path), sqlite3.connect(":memory:")
    theirs.executescript(SEED + ROWS)
    for table in ("handoffs", "handoff_entries"):
        question = f"PRAGMA table_info({table})"
        columns = theirs.execute(question).fetchall()
        assert columns == ours.execute(question).fetchall()[: len(columns)]


def test_pragmas(tmp_path):
    """Both stores use WAL; core.db has foreign keys and FULL, because it cannot be rebuilt."""
    core, state = CoreStore(str(tmp_path / "c")), StateStore(str(tmp_path / "s"))

    def ask(store, name):
        return store._db.execute(f"PRAGMA {name}").fetchone()[0]

    assert ["wal", "wal"] == [ask(store, "journal_mode") for store in (core, state)]
    assert [2, 1] == [ask(store, "synchronous") for store in (core, state)]
    assert 1 == ask(core, "foreign_keys")


def test_project_ids_are_stable(tmp_path):
    """A root always has the same id."""
    core = CoreStore(str(tmp_path / "core.db"))

    assert core.project_id("/p", "t") == core.project_id("/p", "u") != core.project_id("/q", "t")
    assert "/p" == core.project_root(core.project_id("/p", "t"))


def test_settings(tmp_path):
    """A value that a person set is returned unchanged, and can be dropped."""
    core = CoreStore(str(tmp_path / "core.db"))
    project = core.project_id("/p", "t")
    setting = Setting(["a", "ü"], "s", "t")
    core.set_values(project, {"files": setting, "goal": Setting("g", "", "t")})
    core.drop_values(project, ["goal"])

    assert {"files": setting} == core.settings(project)


def test_pauses_and_skips(tmp_path):
    """A pause opens a silent range per transcript, and its end closes those that grew."""
    core = CoreStore(str(tmp_path / "core.db"))
    core.start_pause(EVERYTHING, 1.0, {"a": 10, "b": 0})
    core.end_pauses([EVERYTHING], 2.0, {"a": 30, "b": 0})

    assert [(10, 30)] == [(skip.start, skip.end) for skip in core.skips()["a"]]
    assert "b" not in core.skips()
    assert [2.0] == [pause.ended_at for pause in core.pauses()]


def test_cursor_and_fold_are_one_transaction(tmp_path):
    """Cursor and fold are stored together: a failure between them leaves the old pair."""
    store = StateStore(str(tmp_path / "s"))
    session = StoredSession("s", "p", 1.0, False, 1, "one")
    store.commit(Cursor("t", "s", "/t", offset=5), session)
    with pytest.raises(sqlite3.Error):
        store.commit(Cursor("t", "s", "/t", offset=9), StoredSession("s", "p", 1.0, False, 1, None))

    assert [5] == [cursor.offset for cursor in store.cursors()]
    assert "one" == store.session("s").fold


def test_a_second_connection_keeps_strangers_out(tmp_path):
    """Opening and closing a store again drops no lock: another process leaves the log alone."""
    path = str(tmp_path / "core.db")
    first = CoreStore(path)
    first.project_id("/p", "t")
    CoreStore(path).close()
    read = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT 1').fetchone())"
    subprocess.run([sys.executable, "-c", read, path], check=True, capture_output=True)

    assert (tmp_path / "core.db-wal").exists()
    assert first.project_id("/p", None)
    assert first.project_id("/q", "t")


def test_a_store_is_a_file(tmp_path):
    """A link in place of the store is not followed."""
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "core.db").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="symbolic"):
        CoreStore(str(tmp_path / "core.db"))


def test_cursors_share_their_directory():
    """A cursor returns its path, and cursors of one directory share one string for it."""
    one, other = (Cursor(name, name, f"/home/ann/p/{name}.jsonl") for name in ("a", "b"))
    agent = Cursor("a/agent-1", "a", "/home/ann/p/a/subagents/agent-1.jsonl")

    assert one._place is other._place
    assert ("/home/ann/p/a.jsonl", "/home/ann/p/b.jsonl") == (one.path, other.path)
    assert "/home/ann/p/a/subagents/agent-1.jsonl" == agent.path
    one.path = "/elsewhere/a.jsonl"
    assert "/elsewhere/a.jsonl" == one.path
