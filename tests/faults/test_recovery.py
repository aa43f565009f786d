"""A damaged core.db is replaced by all readable rows of it and of its copy, with a report."""

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import damaged_stores
from conductor_projects import run_after
from conftest import BIN, DaemonSandbox, allowed, wait_for
from damaged_stores import core_of, heard, log_of, say, talk, warnings
from failing_disk import Disk
from handoffd.errors import DamagedError, StoreError
from handoffd.offline import repair
from handoffd.store import recovery
from handoffd.store.core import CoreStore, Setting
from handoffd.store.erasure import Forgotten
from handoffd.store.ledger import Firing
from handoffd.store.schema import SCHEMA
from handoffd.store.thread_store import NewEntry
from mcp_socket_client import files_with

LONG = pytest.mark.long
MARKER = "a-marker-that-nothing-else-holds"
# Whether the entry that was added after the copy is still in the file.
KINDS = [
    (damaged_stores.entries, True),
    pytest.param((damaged_stores.garbage, False), marks=LONG),
    pytest.param((damaged_stores.header, False), marks=LONG),
    pytest.param((damaged_stores.half, None), marks=LONG),
    (damaged_stores.empty, False),
    pytest.param((damaged_stores.gone, False), marks=LONG),
]
LOOK_OFTEN = "import handoffd.app\nhandoffd.app.CORE_LOOK_SECONDS = 0.2"


def fill(core: CoreStore, number: int) -> None:
    core.threads.create("hof_x", "t", None, NewEntry("chat", "context", "first", "t"))
    for entry in range(number):
        core.threads.add(
            "hof_x", NewEntry("chat", "done", f"entry {entry} {'x' * 200}", "t"), 1 << 20
        )


def aside(sandbox: DaemonSandbox) -> list[Path]:
    return sorted(path for path in sandbox.state.glob("core.db.damaged-*Z"))


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case[0].__name__)
def test_damaged_core_is_replaced_at_the_start(live, case, record_property):
    """The rows of all files are answered, new entries are taken, the damaged file is kept."""
    spoil, later = case
    thread, entries = talk(live, 60, after="said after the copy")
    live.stop()
    path = core_of(live)
    spoil(path)
    damaged_bytes = path.read_bytes() if path.exists() else b""
    live.start()

    found = heard(live, thread)
    assert entries - 1 == len([words for words in found if "after" not in words])
    assert len(found) == len(set(found))
    if later is not None:
        assert later == ("said after the copy" in found)
    assert "result" in say(live, thread, "more")
    assert "core.db was damaged" in warnings(live)["core_damaged"]
    assert "core-damaged" in live.handoff("doctor").stdout
    assert 0o600 == path.stat().st_mode & 0o777
    if damaged_bytes:
        (kept,) = aside(live)
        assert (0o600, damaged_bytes) == (kept.stat().st_mode & 0o777, kept.read_bytes())
    live.restart()
    assert "more" == heard(live, thread)[-1]
    assert "core_damaged" in warnings(live), "until the damaged file is removed"
    for left in live.state.glob("core.db.damaged-*"):
        left.unlink()
    assert "core_damaged" not in warnings(live)
    record_property("figure", f"{spoil.__name__}: {len(found)} of {entries}")


def test_damage_while_it_runs(live, record_property):
    """If a page goes bad under the daemon, the same process goes on with every entry."""
    thread, entries = talk(live, 150, 3000, after="acknowledged")
    pid = live.call("status")["pid"]
    project = live.project()
    live.handoff("pause", str(project))  # which copies core.db
    damaged_stores.page(core_of(live), b"entry 70 ")
    began = time.monotonic()
    first = live.request("thread", action="get", id=thread)
    assert "core.db is damaged" in first["error"]["message"]
    assert "Try again." == first["error"]["data"]["hint"]
    wait_for(lambda: "result" in live.request("thread", action="get", id=thread))
    seconds = time.monotonic() - began

    words = heard(live, thread)
    assert entries == len(words) == len(set(words))
    assert "acknowledged" == words[-1]
    assert "result" in say(live, thread, "more")
    assert "core.db was damaged" in warnings(live)["core_damaged"]
    assert "paused" == live.show(project)["refused"]
    assert pid == live.call("status")["pid"]
    record_property("figure", f"{entries} of {entries} entries answered {seconds:.1f} s later")


def test_doctor_looks_at_every_page(live):
    """A damaged page that was not read yet is found by `handoff doctor`, and repaired."""
    thread, entries = talk(live, 40)
    live.restart()
    live.run_due()  # the check and the copy of a start are over
    with core_of(live).open("r+b") as stream:
        stream.seek(2 * 4096)
        stream.write(b"\xff" * 4096)
    assert "core_damaged" not in warnings(live), "or this proves nothing"

    assert "core-damaged" in live.handoff("doctor").stdout
    assert entries == len(heard(live, thread))


@LONG
def test_a_deleted_core_is_missed(sandbox):
    """The daemon finds by itself that core.db was deleted, and writes it anew with every entry."""
    sandbox.transcripts.mkdir(parents=True)
    run_after(sandbox, LOOK_OFTEN).start()
    thread, entries = talk(sandbox, 5)
    path = core_of(sandbox)
    for deleted in sandbox.state.glob("core.db*"):
        deleted.unlink()
    wait_for(path.exists, what="it is missed")

    assert 0o600 == path.stat().st_mode & 0o777
    assert "result" in say(sandbox, thread, "more")
    sandbox.restart()
    assert entries + 1 == len(heard(sandbox, thread))
    assert "core_damaged" not in warnings(sandbox)


@pytest.mark.parametrize("name", ["core.db", pytest.param("core.db-wal", marks=LONG)])
def test_a_disk_that_gives_nothing_back(sandbox, tmp_path, name, record_property):
    """If the disk cannot read core.db or its log, the daemon goes on with the copy."""
    disk = Disk(tmp_path)
    sandbox.environment |= disk.environment
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    thread, entries = talk(sandbox, 5)
    assert "result" in say(sandbox, thread, "in the log")
    sandbox.kill()
    with (sandbox.state / name).open("rb"):  # or a new file would be given its number
        disk.fail_reading(sandbox.state / name, 0)
        sandbox.start()

        assert entries <= len(heard(sandbox, thread))
        assert "core_damaged" in warnings(sandbox)
    record_property("figure", f"{entries} of {entries} entries of the copy")


def test_pause_is_kept_when_it_cannot_be_read(live, record_property):
    """A paused project stays paused by the copy; without a copy, everything is paused."""
    project = live.project()
    talk(live, 5)
    live.handoff("pause", str(project))
    live.stop()
    damaged_stores.garbage(core_of(live))
    live.session(project).prompt("Make the paused thing work")
    other = live.project("other")
    live.session(other).prompt("Make the other thing work")
    live.start()
    wait_for(lambda: live.document(other)["goal"] == "Make the other thing work")
    assert "paused" == live.show(project)["refused"]
    live.stop()
    (live.state / "core.db.backup").unlink()
    damaged_stores.garbage(core_of(live))
    live.start()
    wait_for(live.settled)

    refused = [live.show(each)["refused"] for each in (project, other)]
    assert ["paused"] * 2 == refused
    assert "everything up to now is left alone" in warnings(live)["core_damaged"]
    record_property("figure", f"{refused.count('paused')} of {len(refused)} projects stay paused")


# Without a daemon


@pytest.fixture
def wounded(sandbox, monkeypatch) -> str:
    """A damaged core.db: one page is bad, and an entry stands in its log alone."""
    sandbox.state.mkdir(parents=True, mode=0o700)
    path = str(core_of(sandbox))
    core = CoreStore(path)
    fill(core, 200)
    core.back_up()
    core._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    core.threads.add("hof_x", NewEntry("chat", "done", "in the log", "t"), 1 << 20)
    kept = {name: (sandbox.state / name).read_bytes() for name in ("core.db", "core.db-wal")}
    core.close()
    for name, data in kept.items():
        (sandbox.state / name).write_bytes(data)
    damaged_stores.page(core_of(sandbox), b"entry 100 ")
    monkeypatch.setattr(repair, "make_state_dir", lambda: str(sandbox.state))
    return path


def test_a_command_without_a_daemon_is_refused(sandbox, wounded):
    """Commands report that core.db is damaged, and name the command that repairs it."""
    done = sandbox.handoff("thread", "get", "hof_x")

    assert 1 == done.returncode
    assert "core.db is damaged" in done.stderr
    assert "handoff repair" in done.stderr
    assert "handoff repair" in sandbox.handoff("doctor").stdout


def test_repair_shows_then_mends(sandbox, wounded):
    """Without --yes nothing is changed and the exit code is 4; then every entry is back."""
    before = Path(wounded).read_bytes()
    shown = sandbox.handoff("repair")
    assert 4 == shown.returncode
    assert (
        "The rows that can be read will be saved; the rest comes from the copy of" in shown.stdout
    )
    assert "handoff repair --yes" in shown.stderr
    assert before == Path(wounded).read_bytes()
    done = sandbox.handoff("repair", "--yes")

    assert 0 == done.returncode, done.stderr
    (kept,) = aside(sandbox)
    assert f"The damaged file is kept at {kept}." in done.stdout
    assert "entry" not in done.stdout
    with contextlib.closing(CoreStore(wounded)) as core:
        assert "in the log" == core.threads.read("hof_x")[1][-1].content
    assert "There is nothing to mend" in sandbox.handoff("repair").stdout


def test_repair_json_at_a_terminal_is_one_document(sandbox, wounded):
    """With --json nothing is asked, not even at a terminal."""
    ours, theirs = os.openpty()
    words = [BIN / "handoff", "repair", "--json"]
    done = subprocess.run(
        words, env=sandbox.environment, stdin=theirs, stdout=theirs, stderr=-1, check=False
    )
    os.close(theirs)

    assert 4 == done.returncode
    assert json.loads(os.read(ours, 1 << 16))["core"]["problem"]
    os.close(ours)


def test_repair_of_whole_stores_changes_nothing(live, record_property):
    """`repair` of whole stores says so, exits with 0, and changes no byte.

    That holds with and without a daemon.
    """
    talk(live, 3)
    for running in (True, False):
        if not running:
            live.stop()
        before = {p.name: p.read_bytes() for p in live.state.iterdir() if p.is_file()}
        done = live.handoff("repair", "--yes")
        after = {p.name: p.read_bytes() for p in live.state.iterdir() if p.name in before}
        assert (0, "") == (done.returncode, done.stderr)
        assert "core.db and state.db are whole. There is nothing to mend.\n" == done.stdout
        assert running is (live.process is not None)
        for changing in ("core.db-shm", "state.db-shm", "briefs", "handoffd.log"):
            before.pop(changing, None)
            after.pop(changing, None)
        assert before == after
    record_property("figure", f"{len(before)} files as before")


def test_repair_beside_a_daemon_is_refused(live):
    """A process that cannot get the daemon's lock leaves the stores alone."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from handoffd.offline import repair; repair.mend()"],
        env=live.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert f"already running (process {live.process.pid})" in done.stderr


def mend_and_die(step: int) -> int:
    """Repair in a process that is killed before it changes the disk for the nth time."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = step

    def counted(real):
        def call(*arguments, **more):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **more)

        return call

    try:
        for name in ("replace", "unlink", "open", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        repair.mend()
    finally:
        os._exit(left <= 0)


def test_killed_at_every_step_of_a_repair(wounded, tmp_path, record_property):
    """After a kill before any change of the disk, the next repair brings back every entry."""
    state = os.path.dirname(wounded)
    shutil.copytree(state, tmp_path / "before")
    kills = 0
    while (code := mend_and_die(kills + 1)) != 0:
        assert -signal.SIGKILL == code
        kills += 1
        repair.mend()
        with contextlib.closing(CoreStore(wounded)) as core:
            words = [entry.content for entry in core.threads.read("hof_x")[1]]
        assert 202 == len(words) == len(set(words))
        assert "in the log" == words[-1]
        assert [] == [name for name in os.listdir(state) if ".mend" in name]
        shutil.rmtree(state)
        shutil.copytree(tmp_path / "before", state)

    assert 8 <= kills
    record_property("figure", f"{kills} kills, 202 of 202 entries after each")


def test_a_full_disk_changes_nothing(wounded, monkeypatch):
    """A recovery that cannot be written is refused with a remedy; the file and its log stay."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = [Path(name).read_bytes() for name in (wounded, f"{wounded}-wal")]
    with monkeypatch.context() as patch:
        patch.setattr(recovery.os, "fsync", full)
        with pytest.raises(StoreError, match="could not be mended") as refused:
            repair.mend()

    assert "Free some space" in refused.value.hint
    assert before == [Path(name).read_bytes() for name in (wounded, f"{wounded}-wal")]


def test_a_daemon_on_a_full_disk_tries_again(sandbox, tmp_path, record_property):
    """A recovery that cannot be written ends nothing; once there is room the next look does it."""
    disk = Disk(tmp_path)
    sandbox.environment |= disk.environment
    sandbox.transcripts.mkdir(parents=True)
    run_after(sandbox, LOOK_OFTEN).start()
    thread, entries = talk(sandbox, 150, 3000)
    pid = sandbox.call("status")["pid"]
    disk.fail("ENOSPC", "core.db.damaged")
    damaged_stores.page(core_of(sandbox), b"entry 70 ")
    sandbox.request("thread", action="get", id=thread)
    wait_for(lambda: "could not be mended" in warnings(sandbox).get("core_damaged", ""))
    assert 0 < disk.mend()
    wait_for(lambda: "result" in sandbox.request("thread", action="get", id=thread))

    assert entries == len(heard(sandbox, thread))
    assert pid == sandbox.call("status")["pid"]


def test_a_newer_damaged_core_is_left_alone(wounded):
    """A damaged file of a newer version is refused, and stays under its name."""
    with contextlib.closing(sqlite3.connect(wounded)) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA.newest + 1}")
    before = Path(wounded).read_bytes()

    with pytest.raises(StoreError, match="newer handoffd"):
        repair.mend()
    assert before == Path(wounded).read_bytes()


# The saved rows


def test_nothing_erased_comes_back(tmp_path, record_property):
    """Closed threads and forgotten projects stay so, although an old copy had them."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    core.threads.create("hof_a", "t", None, NewEntry("chat", "context", f"hof_a {MARKER}", "t"))
    fill(core, 300)
    project = core.project_id("/p", "t")
    core.set_values(project, {"goal": Setting(MARKER, "", "t")})
    core.back_up()
    for left in ("damaged-2026Z", "mending-0123"):  # of earlier recoveries
        (tmp_path / f"core.db.{left}").write_text(f"hof_a {MARKER}")
    core.threads.close("hof_a", "t", lambda whole: ("t", None))
    assert not os.path.exists(f"{path}.backup")
    core.back_up()
    core.forget(Forgotten(project, ["s1"], whole=True, until=9.0, ends={"s1": 5}), "t")
    # Killed here, before anything is wiped: no copy is left that has it.
    assert not os.path.exists(f"{path}.backup")
    core.scrub()
    core.close()
    damaged_stores.page(tmp_path / "core.db", b"entry 100 ")
    recovery.recover(path, recovery.find_problem(path))

    with contextlib.closing(CoreStore(path)) as found:
        thread, entries = found.threads.read("hof_a")
        assert ("completed", []) == (thread.status, entries)
        assert {} == found.settings(project)
        assert [9.0] == [pause.ended_at for pause in found.pauses()]
        assert 301 == len(found.threads.read("hof_x")[1])
    back = files_with(tmp_path, b"hof_a " + MARKER.encode())
    assert [] == back
    record_property("figure", f"{len(back)} files have what was erased")


def test_a_page_that_is_lost_without_a_trace(tmp_path, record_property):
    """A readable table that lacks rows is noticed at the next copy; the copy has the rows."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    project = core.project_id("/p", "t")
    core.set_values(project, {f"field {n}": Setting("x", "", "t") for n in range(30)})
    core.back_up()
    core.close()
    damaged_stores.stale(tmp_path / "core.db", "settings")
    before = Path(f"{path}.backup").read_bytes()
    core = CoreStore(path)
    for act in (core.back_up, core.scrub):
        with pytest.raises(DamagedError):
            act()
    assert before == Path(f"{path}.backup").read_bytes()
    told = recovery.recover(path, "the next copy")
    core.resume()
    found = core.settings(project)
    core.close()

    assert (0, 30, False) == (
        told.tables["settings"].read,
        told.tables["settings"].copied,
        told.tables["settings"].whole,
    )
    assert 30 == len(found)
    record_property("figure", f"{len(found)} of 30 back")


def test_a_text_that_is_not_utf8(tmp_path):
    """Invalid UTF-8 is noticed when it is read; after the recovery the row can be read."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    fill(core, 3)
    core.close()
    damaged_stores.cell(tmp_path / "core.db", "handoff_entries", "content", damaged_stores.NO_TEXT)
    core = CoreStore(path)
    with pytest.raises(DamagedError, match="not UTF-8"):
        core.threads.read("hof_x")
    recovery.recover(path, "a text in it is not UTF-8")
    core.resume()

    assert 4 == len(core.threads.read("hof_x")[1])
    core.close()


def test_an_emptied_page_of_pauses(tmp_path, record_property):
    """Pauses that only the copy has are kept, though SQLite finds nothing wrong with the table."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    for number in range(30):
        core.start_pause(f"project {number}", float(number), {})
    core.back_up()
    core.close()
    damaged_stores.stale(tmp_path / "core.db", "pauses")
    recovery.recover(path, "a page of it was lost")

    with contextlib.closing(CoreStore(path)) as found:
        assert 30 == len(found.pauses())
        record_property("figure", f"{len(found.pauses())} of 30 back")


def test_random_damage(tmp_path, record_property):
    """After damage to any bytes a new file is made, it opens, and its content is reported."""
    rounds = 60
    store = tmp_path / "core.db"
    core = CoreStore(str(store))
    fill(core, 60)
    project = core.project_id("/p", "t")
    core.set_values(project, {f"field {n}": Setting("x", "", "t") for n in range(30)})
    core.ledger.fire(Firing("pending", "manual", project, "", "t"))
    core.start_pause(project, 1.0, {"s1": 10})
    core._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    core.close()
    whole, found = store.read_bytes(), 0
    for seed in range(rounds):
        chance, spoiled = random.Random(seed), bytearray(whole)
        for _ in range(chance.choice((1, 8, 200))):
            spoiled[chance.randrange(len(spoiled))] ^= chance.randrange(1, 256)
        if seed % 3 == 0:  # one page in the place of another
            one, other = (chance.randrange(len(whole) // 4096) * 4096 for _ in range(2))
            spoiled[one : one + 4096] = whole[other : other + 4096]
        store.write_bytes(spoiled)
        if problem := recovery.find_problem(str(store), "integrity_check(1)"):
            found += 1
            told = recovery.recover(str(store), problem)
            assert "core.db was damaged" in told.describe()
            assert "" == recovery.find_problem(str(store), "integrity_check(1)")
            with contextlib.closing(CoreStore(str(store))) as core:
                assert core.ledger.born_at
                core.pauses()
        for left in tmp_path.iterdir():
            left.unlink()

    assert rounds // 3 < found
    record_property("figure", f"{found} damages found in {rounds}, {found} replaced")


def test_work_that_only_the_copy_knows(tmp_path, record_property):
    """Work under way in the copy is not done twice, and no number is given twice."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    project = core.project_id("/p", "t")
    core.ledger.fire(Firing("pending", "manual", project, "", "t"))
    core.outbox.queue("note", project, "/p", "k", "bd-1", "body", "t")
    core.outbox.release("k")
    fill(core, 1)
    born = core.ledger.born_at
    core.back_up()
    core.close()
    damaged_stores.gone(tmp_path / "core.db")
    recovery.recover(path, recovery.LOST)
    found = CoreStore(path)

    assert [] == found.ledger.pending()
    assert "core.db was damaged" in found.ledger.recent(None, 9)[0].outcome["skipped"]
    assert [1] == [letter.attempts for letter in found.outbox.due(9.0, 9)]
    assert born < found.ledger.born_at
    said = NewEntry("chat", "done", "more", "t")
    assert 100_000 < found.threads.add("hof_x", said, 1 << 20)[1].seq
    record_property("figure", f"{len(found.ledger.pending())} done twice")
    found.close()


def test_entries_without_their_thread(tmp_path, record_property):
    """Entries of a thread whose own row is lost are kept, under a title that says so."""
    path = str(tmp_path / "core.db")
    core = CoreStore(path)
    core.threads.create("hof_x", "unheard-of", None, NewEntry("chat", "context", "first", "t"))
    core._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    core.close()
    damaged_stores.page(tmp_path / "core.db", b"unheard-of")
    recovery.recover(path, recovery.find_problem(path))
    with contextlib.closing(CoreStore(path)) as found:
        thread, entries = found.threads.read("hof_x")

    assert recovery.LOST_TITLE == thread.title
    assert ["first"] == [entry.content for entry in entries]
    record_property("figure", f"{len(entries)} of 1 kept")


# The log and the copy


def test_a_reader_holds_nobody_up(tmp_path, record_property):
    """While another process reads, the log is not emptied, and no writer waits for it."""
    path = tmp_path / "core.db"
    core = CoreStore(str(path))  # which would wait for 20 s
    core.threads.create("hof_x", "t", None, NewEntry("chat", "context", "a first marker", "t"))
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM handoffs").fetchall()
    core.threads.add("hof_x", NewEntry("chat", "done", "more", "t"), 8 << 20)
    began = time.monotonic()
    core.shorten_log()
    seconds = time.monotonic() - began
    left = log_of(path).stat().st_size
    reader.close()
    core.shorten_log()
    core.close()

    assert seconds < allowed(5.0)
    assert 0 < left
    assert b"a first marker" in path.read_bytes()
    record_property("figure", f"given up after {seconds * 1000:.0f} ms")


@LONG
def test_the_log_is_emptied_and_the_first_entry_copied(sandbox, record_property):
    """The log is emptied every minute, and the first entry of a new store is copied at once."""
    sandbox.transcripts.mkdir(parents=True)
    run_after(sandbox, LOOK_OFTEN).start()
    path = core_of(sandbox)
    copy = path.with_name("core.db.backup")
    wait_for(copy.exists, what="the first copy")
    sandbox.call("thread", action="create", title="t", content="a first marker")
    wait_for(lambda: copy.exists() and b"a first marker" in copy.read_bytes(), what="the copy")
    wait_for(lambda: log_of(path).stat().st_size == 0, what="the log is empty")

    assert b"a first marker" in path.read_bytes()
    wait_for(lambda: time.time() - copy.stat().st_mtime > 2.5, what="no copy at every look")
    record_property("figure", "copied and out of the log at the next look (every 60 s; 0.2 s here)")
