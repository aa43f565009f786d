"""Threads in core.db: cursors against a model, older databases, many processes, durability."""

import atexit
import contextlib
import functools
import itertools
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from handoffd.api.tools import call
from handoffd.errors import CompletedThreadError, NoThreadError, StoreError, ThreadError
from handoffd.runtime import clock
from handoffd.store import threads as module
from handoffd.store.core import CoreStore
from handoffd.store.database import LOOP_BUSY_SECONDS
from handoffd.store.thread_store import Counts, NewEntry
from handoffd.threads.service import ThreadService, pasted
from mcp_socket_client import SEED, TYPES
from tool_outputs import OUTPUTS

AT = "2026-01-01T00:00:00Z"
MIB = 1 << 20


def said(content: str = "x", client: str = "chat", once: str = "") -> NewEntry:
    return NewEntry(client, "context", content, AT, once)


@pytest.fixture
def core(tmp_path):
    store = CoreStore(str(tmp_path / "core.db"))
    yield store
    store.close()


# Cursors


@functools.cache
def template() -> str:
    """Return an empty core.db: creating one takes longer than a whole example."""
    path = f"{tempfile.mkdtemp(prefix='threads-')}/core.db"
    CoreStore(path).close()
    atexit.register(shutil.rmtree, os.path.dirname(path))
    return path


class Cursors(RuleBasedStateMachine):
    """Two clients at several threads; the model knows the entries that each has yet to see."""

    def __init__(self):
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="threads-")
        shutil.copy(template(), f"{self.directory}/core.db")
        self.open()
        # thread -> numbers of all entries; entries unseen by each client; the last one that each
        # client was shown; closed threads
        self.entries = {}
        self.unseen = {}
        self.shown = {}
        self.closed = set()

    def open(self):
        self.core = CoreStore(f"{self.directory}/core.db")
        # Thousands of commits, whose durability is not tested here.
        self.core._db.execute("PRAGMA synchronous = OFF")
        self.threads = ThreadService(self.core.threads, lambda: None)
        self.peek = ThreadService(self.core.threads, lambda: None, peek=True)

    def teardown(self):
        self.core.close()
        shutil.rmtree(self.directory)

    clients = st.sampled_from(["chat", "code"])
    choice = st.integers(0, 1000)

    def pick(self, number):
        return sorted(self.entries)[number % len(self.entries)]

    def heard(self, thread, client, seq):
        self.entries[thread].append(seq)
        self.unseen[thread]["chat" if client == "code" else "code"].append(seq)

    @rule(client=clients)
    def create(self, client):
        made = self.threads.create("t", "c", None, client)
        thread = made["handoff"]["id"]
        self.entries[thread], self.unseen[thread] = [], {"chat": [], "code": []}
        self.shown[thread] = {"chat": 0, "code": 0}
        self.heard(thread, client, made["entries"][0]["seq"])

    @precondition(lambda self: self.entries)
    @rule(number=choice, client=clients, kind=st.sampled_from(TYPES))
    def add(self, number, client, kind):
        thread = self.pick(number)
        if thread in self.closed:
            with pytest.raises(CompletedThreadError):
                self.threads.add(thread, kind, "c", client)
            return
        self.heard(thread, client, self.threads.add(thread, kind, "c", client)["entry"]["seq"])
        last = self.shown[thread][client]
        self.unseen[thread][client] = [s for s in self.unseen[thread][client] if s > last]

    @precondition(lambda self: self.entries)
    @rule(number=choice, client=clients)
    def get(self, number, client):
        thread = self.pick(number)
        self.threads.get(thread, client)
        self.shown[thread][client] = max(self.entries[thread], default=0)

    @precondition(lambda self: self.entries)
    @rule(number=choice, client=clients)
    def mark(self, number, client):
        thread = self.pick(number)
        self.threads.mark(thread, client)
        self.unseen[thread][client] = []

    @precondition(lambda self: self.entries)
    @rule(number=choice, client=clients, place=choice, off=st.integers(-1, 1))
    def mark_up_to(self, number, client, place, off):
        thread = self.pick(number)
        every = sorted(seq for numbers in self.entries.values() for seq in numbers) or [1]
        up_to = max(0, every[place % len(every)] + off)
        self.threads.mark(thread, client, up_to)
        self.unseen[thread][client] = [s for s in self.unseen[thread][client] if s > up_to]

    @precondition(lambda self: self.entries)
    @rule(number=choice)
    def close(self, number):
        thread = self.pick(number)
        self.threads.close(thread)
        self.closed.add(thread)
        self.entries[thread], self.unseen[thread] = [], {"chat": [], "code": []}

    @rule()
    def reopen(self):
        self.core.close()
        self.open()

    @invariant()
    def each_side_sees_what_is_new_to_it(self):
        for thread, numbers in self.entries.items():
            for client in ("chat", "code"):
                got = self.peek.get(thread, client)
                new = [entry["seq"] for entry in got["new_entries"]]
                assert self.unseen[thread][client] == new
                assert len(new) == got["new_count"]
                assert numbers == [entry["seq"] for entry in got["entries"]]
                assert (thread in self.closed) == (got["handoff"]["status"] == "completed")

    @invariant()
    def the_counts_agree(self):
        active = [thread for thread in self.entries if thread not in self.closed]
        unread = [sum(bool(self.unseen[t][c]) for t in active) for c in ("chat", "code")]
        assert Counts(len(active), *unread) == self.core.threads.counts()


TestCursors = Cursors.TestCase
TestCursors.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCursors.__doc__ = (
    "Whatever both sides do, new_entries are what the other said and this has not seen: neither "
    "marked, nor shown before it wrote."
)


# Databases from other programs

# As the origin creates them: with default times, and an index.
ORIGIN = (
    SEED.replace("created_at TEXT", "created_at TEXT DEFAULT (datetime('now'))")
    + "CREATE INDEX idx_handoff_entries_handoff ON handoff_entries(handoff_id);"
)
ROWS = """
INSERT INTO handoffs (id, title, project, chat_last_seen, created_at, updated_at) VALUES
    ('hof_V1StGXR8_Z5jdHi6B-myT', 'Of the usual length', 'dnd', 1,
     '2026-02-01 10:00:00', '2026-02-01 10:00:00');
INSERT INTO handoffs (id, title, chat_last_seen, code_last_seen, status) VALUES
    ('hof_1', 'Short, and all else is NULL', NULL, NULL, NULL);
INSERT INTO handoffs (id, title, status) VALUES ('hof_done', 'Completed', 'completed');
INSERT INTO handoff_entries (handoff_id, from_client, type, content, created_at) VALUES
    ('hof_V1StGXR8_Z5jdHi6B-myT', 'chat', 'context', 'Ünd so weiter', '2026-02-01 10:00:00'),
    ('hof_1', 'chat', 'note', 'a type that nobody knows', NULL),
    ('hof_1', 'code', 'question', 'q', NULL);
"""


def made(path, script: str) -> str:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(script)
        db.commit()
    return str(path)


@pytest.fixture(params=[SEED, ORIGIN], ids=["seed", "origin"])
def older(request, tmp_path):
    """A core.db from the seed's schema, or from the origin itself, with rows."""
    store = CoreStore(made(tmp_path / "core.db", request.param + ROWS))
    yield store
    store.close()


def checked(threads: ThreadService, tool: str, client: str = "chat", **arguments) -> dict:
    """Call a tool, and validate its result with the model of its output."""
    result, _ = call(threads, tool, arguments, client)
    OUTPUTS[tool].model_validate(result, strict=True)
    return result


def test_an_older_database_works_through_all_five_tools(older):
    """Threads with any id, other time formats, NULL cursors and unknown types keep working."""
    threads = ThreadService(older.threads, older.scrub)
    for thread, new in (("hof_V1StGXR8_Z5jdHi6B-myT", ["Ünd so weiter"]), ("hof_1", ["a type that nobody knows"])):  # fmt: skip
        got = checked(threads, "get_handoff", "code", id=thread)
        assert new == [entry["content"] for entry in got["new_entries"]]
        given = {"id": thread, "type": "done", "content": "c"}
        added = checked(threads, "add_to_handoff", "code", **given)
        assert added["entry"]["seq"] == added["handoff"]["code_last_seen"]
        last = checked(threads, "mark_handoff_read", "code", id=thread)["last_seen"]
        assert added["entry"]["seq"] == last
        assert 0 == checked(threads, "get_handoff", "code", id=thread)["new_count"]
        assert checked(threads, "close_handoff", id=thread)["closed"]
        assert [] == checked(threads, "get_handoff", id=thread)["entries"]
    made_here = checked(threads, "create_handoff", title="t", content="c")

    assert 6 == made_here["entries"][0]["seq"]


def test_the_rows_of_an_older_database_stay_as_they_are(older):
    """Existing rows are returned as written, with NULL cursors as 0 and no status as active."""
    first, entries = older.threads.read("hof_V1StGXR8_Z5jdHi6B-myT")
    bare, _ = older.threads.read("hof_1")
    done, _ = older.threads.read("hof_done")

    assert ("dnd", 1, 0, "active", "2026-02-01 10:00:00") == (
        first.project, first.chat_last_seen, first.code_last_seen, first.status, first.updated_at,
    )  # fmt: skip
    assert ["2026-02-01 10:00:00"] == [entry.created_at for entry in entries]
    assert (0, 0, "active") == (bare.chat_last_seen, bare.code_last_seen, bare.status)
    assert "completed" == done.status


def test_an_older_database_counts_what_it_holds(older):
    """The sizes of threads that existed before are known."""
    sizes = dict(older._db.execute("SELECT id, content_bytes FROM handoffs"))

    assert [len("Ünd so weiter".encode()), 25, 0] == list(sizes.values())


def test_unread_entries_of_an_older_database(older):
    """A NULL cursor has seen nothing."""
    older.threads.note_use("hof_1", "p")

    assert [("hof_1", 1, 2)] == older.threads.unread("p")


def test_a_migration_that_fails_changes_nothing(tmp_path):
    """A database with another table under our names is refused and left unchanged."""
    path = made(tmp_path / "core.db", "CREATE TABLE projects (x);")

    with pytest.raises(StoreError, match="table projects already exists"):
        CoreStore(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert [("x",)] == db.execute("SELECT name FROM pragma_table_info('projects')").fetchall()


# Several at once

ADDER = """
import sys
from handoffd.store.core import CoreStore
from handoffd.store.thread_store import NewEntry
path, who = sys.argv[1:]
core = CoreStore(path)
for number in range(50):
    core.threads.add("hof_x", NewEntry("code", "progress", f"{who} {number}", "t"), 1 << 20)
core.close()
"""
OPENER = """
import sys
from handoffd.store.core import CoreStore
from handoffd.store.thread_store import NewEntry
sys.stdin.read()
core = CoreStore(sys.argv[1])
core.threads.create("hof_" + sys.argv[2], "t", None, NewEntry("chat", "context", "c", "t"))
core.close()
"""


def test_several_processes_add_to_one_thread(core):
    """Each entry of each process is stored once, in order, and no process gets a lock error."""
    core.threads.create("hof_x", "t", None, said("first"))
    command = [sys.executable, "-c", ADDER, core.path]
    processes = [
        subprocess.Popen([*command, str(who)], stderr=subprocess.PIPE, text=True)
        for who in range(8)
    ]
    errors = [process.communicate()[1] for process in processes]
    _, entries = core.threads.read("hof_x")

    assert [""] * 8 == errors
    assert 401 == len({entry.seq for entry in entries}) == len(entries)
    for who in map(str, range(8)):
        numbers = [e.content.split()[1] for e in entries if e.content.split()[0] == who]
        assert list(map(str, range(50))) == numbers


def test_several_processes_make_one_database(tmp_path):
    """Processes that find no core.db at the same time create it together."""
    path = str(tmp_path / "core.db")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, path, str(number)],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(8)
    ]  # fmt: skip
    for process in processes:
        process.stdin.close()
        process.stdin = None
    errors = [process.communicate()[1] for process in processes]
    core = CoreStore(path)

    assert [""] * 8 == errors
    assert 8 == core.threads.counts().active
    core.close()


def test_who_waits_gets_its_turn(core):
    """A writer outside the event loop waits for another long writer."""
    other = CoreStore(core.path)
    core.threads.create("hof_x", "t", None, said())
    other._db.execute("BEGIN IMMEDIATE")
    waiting = threading.Event()
    added = []

    def add() -> None:
        mine = CoreStore(core.path)
        waiting.set()
        added.append(mine.threads.add("hof_x", said("late"), MIB))
        mine.close()

    thread = threading.Thread(target=add)
    thread.start()
    waiting.wait(60)
    thread.join(LOOP_BUSY_SECONDS * 1.5)
    assert [] == added
    other._db.execute("COMMIT")
    thread.join(60)
    other.close()

    assert ["late"] == [entry.content for _, entry in added]


def test_the_event_loop_does_not_wait_long(tmp_path):
    """In the event loop a lasting lock is an error that says to try again, without a change."""
    path = str(tmp_path / "core.db")
    core, other = CoreStore(path, LOOP_BUSY_SECONDS), CoreStore(path)
    core.threads.create("hof_x", "t", None, said())
    other._db.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as problem:
        core.threads.add("hof_x", said(), MIB)
    other._db.execute("ROLLBACK")

    assert "Try again." == problem.value.hint
    assert 1 == len(core.threads.read("hof_x")[1])


def test_a_database_that_stays_locked_is_not_to_be_moved_aside(tmp_path):
    """A temporary error on opening is not reported as a damaged file."""
    path = str(tmp_path / "core.db")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError) as problem:
            CoreStore(path, busy_seconds=0.1)

    assert "Try again." == problem.value.hint


# Durability


def test_durability(tmp_path):
    """core.db has WAL, synchronous FULL, foreign keys, a busy timeout and secure deletion."""
    path = str(tmp_path / "core.db")
    patient, hurried = CoreStore(path), CoreStore(path, LOOP_BUSY_SECONDS)

    def asked(store: CoreStore) -> list:
        names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete", "busy_timeout")
        return [store._db.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert ["wal", 2, 1, 1, 20_000] == asked(patient)
    assert ["wal", 2, 1, 1, 1_000] == asked(hurried)


def test_no_entry_without_its_thread(core):
    """The database itself refuses an entry that belongs to no thread."""
    with pytest.raises(sqlite3.IntegrityError):
        core._db.execute(
            "INSERT INTO handoff_entries (handoff_id, from_client, type, content)"
            " VALUES ('hof_none', 'chat', 'task', 'x')"
        )


def test_scrubbing_gives_way_to_those_who_write(core):
    """A scrub waits for readers only as long as other writers can wait for it."""
    with contextlib.closing(sqlite3.connect(core.path, isolation_level=None)) as reader:
        core.threads.create("hof_x", "t", None, said())
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM handoffs").fetchall()
        core.threads.add("hof_x", said(), MIB)
        with pytest.raises(StoreError, match="another program is reading"):
            core.scrub()

    assert (20_000,) == core._db.execute("PRAGMA busy_timeout").fetchone()
    core.scrub()


def test_scrubbing_in_vain_does_not_grow_the_log(core, tmp_path):
    """Repeated scrubs with a reader in the way do not grow the log."""
    for number in range(20):
        core.threads.create(f"hof_{number}", "t", None, said("x" * 10_000))
    with contextlib.closing(sqlite3.connect(core.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM handoffs").fetchall()
        core.threads.close("hof_0", AT, lambda whole: ("t", None))
        length = (tmp_path / "core.db-wal").stat().st_size
        for _ in range(2):
            with pytest.raises(StoreError):
                core.scrub()

    assert length == (tmp_path / "core.db-wal").stat().st_size


# Idempotency


def test_keys_of_calls_are_kept_for_a_while(core, monkeypatch):
    """Only the latest keys of calls are kept."""
    monkeypatch.setattr(module, "_CALLS_KEPT", 3)
    core.threads.create("hof_x", "t", None, said())
    numbers = [core.threads.add("hof_x", said(once=f"k{n}"), MIB)[1].seq for n in range(5)]
    again = [core.threads.add("hof_x", said(once=f"k{n}"), MIB)[1].seq for n in (4, 3, 2)]

    assert numbers[:1:-1] == again
    assert (3,) == core._db.execute("SELECT count(*) FROM thread_calls").fetchone()
    assert numbers[0] != core.threads.add("hof_x", said(once="k0"), MIB)[1].seq


def test_a_call_that_failed_is_not_remembered(core):
    """A key whose call was refused can be used again for the corrected call."""
    core.threads.create("hof_x", "t", None, said())
    with pytest.raises(ThreadError, match="full"):
        core.threads.add("hof_x", said("x" * 100, once="k"), 50)

    assert "y" == core.threads.add("hof_x", said("y", once="k"), 50)[1].content


# Rules


def test_what_is_told_when_something_changes(core):
    """Each change is announced, with the new entry if there is one."""
    told = []
    threads = ThreadService(
        core.threads, lambda: None, changed=lambda thread, entry: told.append((thread, entry))
    )
    thread = threads.create("t", "one", None, "chat")["handoff"]["id"]
    threads.add(thread, "task", "two", "chat")
    threads.get(thread, "code")
    threads.mark(thread, "code")
    threads.close(thread)

    assert ["one", "two", None, None] == [entry and entry.content for _, entry in told]
    assert ["active"] * 3 + ["completed"] == [thread.status for thread, _ in told]


def test_nothing_is_wiped_where_nothing_was_closed(core):
    """Closing a thread that does not exist is an error, and nothing is wiped."""
    wiped = []
    threads = ThreadService(core.threads, lambda: wiped.append(1))
    with pytest.raises(NoThreadError):
        threads.close("hof_none")

    assert [] == wiped


def test_a_mark_that_is_repeated_marks_nothing_more(core):
    """A repeated mark does not cover entries that came after the first one."""
    threads = ThreadService(core.threads, core.scrub)
    thread = threads.create("t", "one", None, "chat")["handoff"]["id"]
    first = threads.mark(thread, "code", once="k")
    threads.add(thread, "decision", "two", "chat")

    assert first == threads.mark(thread, "code", once="k")
    assert ["two"] == [entry["content"] for entry in threads.get(thread, "code")["new_entries"]]


def test_a_wipe_that_never_came_is_known_to_be_due(core):
    """After a kill between deletion and wipe the copy is missing, so a copy with a wipe is due."""
    words = "zebra crossing" * 20
    core.threads.create("hof_x", "t", None, said(words))
    core.back_up()
    core.threads.close("hof_x", AT, lambda whole: ("t", None))

    assert not Path(core.path + ".backup").exists()
    assert core.needs_copy()


def test_a_thread_can_be_read_where_nothing_can_be_written(core, monkeypatch):
    """If it cannot be stored what was shown, the thread is returned all the same."""
    threads = ThreadService(core.threads, lambda: None)
    thread = threads.create("t", "one", None, "chat")["handoff"]["id"]

    def full(*_given):
        raise StoreError("The disk is full.")

    monkeypatch.setattr(type(core.threads), "note_shown", full)
    assert ["one"] == [entry["content"] for entry in threads.get(thread, "code")["new_entries"]]
    monkeypatch.undo()
    threads.add(thread, "done", "two", "code")
    assert 1 == threads.get(thread, "code")["new_count"]


def test_to_read_again_writes_nothing(core):
    """A thread that is read over and over changes core.db once."""
    threads = ThreadService(core.threads, lambda: None)
    thread = threads.create("t", "one", None, "chat")["handoff"]["id"]
    threads.get(thread, "code")
    before = core._db.total_changes
    for client in ("chat", "code"):
        threads.get(thread, client)

    assert before == core._db.total_changes


def test_what_cannot_be_told_does_not_undo_what_is_done(core):
    """A stored entry is returned as stored, even if announcing it fails."""

    def fail(thread, entry) -> None:
        raise RuntimeError

    threads = ThreadService(core.threads, core.scrub, changed=fail)
    made = threads.create("t", "one", None, "chat")

    assert "one" == made["entries"][0]["content"]


def test_a_text_that_takes_too_long_is_not_looked_through_to_its_end(core, monkeypatch):
    """The search for secrets is limited in time, and a warning says if it stopped early."""
    seconds = itertools.count()
    monkeypatch.setattr(clock, "thread_cpu", lambda: float(next(seconds)))
    threads = ThreadService(core.threads, core.scrub)
    (warning,) = threads.create("t", "word " * 10_000, None, "chat")["warnings"]

    assert "not looked through to its end" in warning
    assert "warnings" not in threads.create("t", "word", None, "chat")


def test_closing_is_one_transaction(core):
    """If the step before the deletion fails, the thread is unchanged."""
    core.threads.create("hof_x", "t", None, said())

    def fail(whole) -> None:
        raise PermissionError

    with pytest.raises(PermissionError):
        core.threads.close("hof_x", AT, fail)
    thread, entries = core.threads.read("hof_x")

    assert ("active", 1) == (thread.status, len(entries))


def test_a_full_disk_is_said_and_nothing_is_half_done(core):
    """An entry without room on the disk is an error that says so; thread and cursors stay."""
    core.threads.create("hof_x", "t", None, said())
    before = core.threads.read("hof_x")
    pages = core._db.execute("PRAGMA page_count").fetchone()[0]
    core._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError) as problem:
        core.threads.add("hof_x", said("x" * 100_000, "code"), MIB)
    core._db.execute("PRAGMA max_page_count = 100000")

    assert "Free some space." == problem.value.hint
    assert before == core.threads.read("hof_x")


@pytest.mark.parametrize("text", ["`{}`", "'{}'.", " <{}>, ", "({});", "**{}**", "“{}”", "\ufeff{}\r\n"])  # fmt: skip
def test_what_is_around_a_pasted_id_goes(text):
    """An id is found within quotation marks; - and _ at its ends belong to it."""
    for found in ("hof_V1StGXR8_Z5jdHi6B-myT", "hof_-_aaaaaaaaaaaaaaaaa-_"):
        assert found == pasted(text.format(found))


@pytest.mark.parametrize("text", ["", "a b", "x/y", "hof_\x00ä", "x" * 1000, "../x", "a.b"])
def test_what_cannot_be_an_id(text):
    """An impossible id is refused without asking the store, and not repeated at length."""
    with pytest.raises(NoThreadError) as problem:
        pasted(text)

    assert len(problem.value.title) < 110
