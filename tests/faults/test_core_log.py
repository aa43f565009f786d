"""The log of core.db is damaged in its middle: what was kept after that is not lost in silence."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import damaged
from conducted import run_after
from conftest import wait_for
from damaged import core_of, heard, log_of, say, warnings
from handoffd import offline_repair
from handoffd.store.core import CoreStore
from handoffd.store.frames import find_gap
from handoffd.store.threads import Said

HEAD, FRAME = 32, 24 + damaged.PAGE
ENTRIES, ROWS = 30, 6


def spoil(path: Path, number: int, at: int = 2000, size: int = 1) -> None:
    """Turn bytes of a frame of the log over; frames are counted from 0, -1 is the last."""
    log = log_of(path)
    count = (log.stat().st_size - HEAD) // FRAME
    with log.open("r+b") as stream:
        stream.seek(HEAD + number % count * FRAME + at)
        data = stream.read(size)
        stream.seek(-len(data), os.SEEK_CUR)
        stream.write(bytes(byte ^ 0xFF for byte in data))


def frames_of(path: Path) -> int:
    return (log_of(path).stat().st_size - HEAD) // FRAME


def killed(house) -> tuple[str, list[str]]:
    """Say something to a daemon that is killed then; returns the thread, and what it has."""
    house.handoff("pause", str(house.project()))  # which has core.db copied, before anything
    thread = house.call("thread", action="create", title="t", content="first")["id"]
    for number in range(ENTRIES - 1):
        assert "result" in say(house, thread, f"entry {number} " + "x" * 300)
    words = heard(house, thread)
    house.kill()
    assert frames_of(core_of(house)) > ENTRIES, "or this proves nothing"
    return thread, words


@pytest.mark.parametrize("size", [1, pytest.param(2 * FRAME, marks=pytest.mark.long)])
def test_damage_amid_the_log(live, size, record_property):
    """Doctor and status say so, nothing is written, and repair has every entry on a good page."""
    thread, words = killed(live)
    path = core_of(live)
    number = frames_of(path) // 2
    spoil(path, number, size=size)
    log, found = log_of(path).read_bytes(), path.read_bytes()
    live.start()

    why = f"frame {number + 1} of its log is damaged"
    assert why in warnings(live)["core_damaged"]
    assert "core-damaged" in live.handoff("doctor").stdout
    answered = heard(live, thread)
    assert "error" in say(live, thread, "more")
    live.restart()
    assert why in warnings(live)["core_damaged"], "the reason is known after a restart"
    live.stop()
    assert (found, log) == (path.read_bytes(), log_of(path).read_bytes())
    told = json.loads(live.handoff("repair", "--json").stdout)["core"]
    assert why in told["problem"]
    assert number + 1 in told["log"]["damaged"]
    said = live.handoff("repair", "--yes")
    assert (0, "") == (said.returncode, said.stderr)
    assert f"could be read, {len(told['log']['damaged'])} not" in said.stdout
    live.start()
    assert "core_damaged" not in warnings(live)
    assert words == answered == heard(live, thread)
    assert "result" in say(live, thread, "more")
    figure = f"{len(words)} of {len(words)} entries, frame {number + 1} of {frames_of_log(log)} bad"
    record_property("figure", figure)


def frames_of_log(log: bytes) -> int:
    return (len(log) - HEAD) // FRAME


def test_torn_end_of_the_log_is_no_damage(live, record_property):
    """A last frame that is cut or garbled was never acknowledged: an ordinary start, no warning."""
    thread, words = killed(live)
    state = live.state.with_name("before")
    shutil.copytree(live.state, state)
    path = core_of(live)
    for tear in (
        lambda: os.truncate(log_of(path), log_of(path).stat().st_size - 1000),
        lambda: spoil(path, -1),
        lambda: spoil(path, -1, at=0, size=FRAME),
    ):
        tear()
        live.start()
        assert "core_damaged" not in warnings(live)
        assert words[:-1] == heard(live, thread)[: len(words) - 1]
        live.kill()
        shutil.rmtree(live.state)
        shutil.copytree(state, live.state)
    record_property("figure", f"3 of 3 starts, {len(words) - 1} of {len(words)} entries")


def write_log(directory: Path, rows: int) -> Path:
    """Make a core.db of which much stands in the log alone, and nobody has it open."""
    made = directory / "made/core.db"
    made.parent.mkdir()
    core = CoreStore(str(made))
    core.threads.create("hof_x", "t", None, Said("chat", "context", "first", "t"))
    core.shorten_log()
    core._db.execute("PRAGMA wal_autocheckpoint = 0")
    for number in range(rows):
        words = f"entry {number} {'x' * 300}"
        core.threads.add("hof_x", Said("chat", "done", words, "t"), 8 << 20)
    for name in ("core.db", "core.db-wal"):
        shutil.copy(made.with_name(name), directory / name)
    core.close()
    return directory / "core.db"


def test_every_frame_in_turn(tmp_path, monkeypatch, record_property):
    """Whichever frame is damaged: found, unless it is of the last transaction, and repaired."""
    path = write_log(tmp_path, ROWS)
    before = {name: (tmp_path / name).read_bytes() for name in ("core.db", "core.db-wal")}
    monkeypatch.setattr(offline_repair, "make_state_dir", lambda: str(tmp_path))
    count, whole, silent, back = frames_of(path), ROWS + 1, 0, []
    for number in range(count):
        for name, data in before.items():
            (tmp_path / name).write_bytes(data)
        spoil(path, number)
        if not find_gap(str(path)):
            silent += 1
            continue
        told = offline_repair.mend()["core"]
        core = CoreStore(str(path), check=True)
        assert "" == core.damage
        back.append(len(core.threads.read("hof_x")[1]))
        core.close()
        lost = told["tables"]["handoff_entries"]["lost"]
        assert back[-1] == whole or lost is None or lost == whole - back[-1], told
        for name in tmp_path.iterdir():
            if name.is_file():
                name.unlink()
    per_entry = count // ROWS

    assert silent <= per_entry
    assert back
    assert whole == max(back)
    assert whole - 1 <= min(back)
    record_property(
        "figure",
        f"{len(back)} of {count} frames found; {whole} of {whole} entries {back.count(whole)} times",
    )


def test_what_an_earlier_run_left_is_no_damage(tmp_path, record_property):
    """Frames behind the end: of a log begun anew, of what was rolled back, and while it grows."""
    path = tmp_path / "core.db"
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "cache_size = 4", "synchronous = FULL"):
        db.execute(f"PRAGMA {pragma}")
    db.execute("CREATE TABLE t (x)")
    looks = 0
    for turn in range(40):
        db.execute("BEGIN")
        db.executemany("INSERT INTO t VALUES (?)", [("x" * 900,)] * (turn * 7 % 200))
        looks += 1
        assert "" == find_gap(str(path))
        db.execute("ROLLBACK" if turn % 3 else "COMMIT")
        assert "" == find_gap(str(path))
        db.execute("INSERT INTO t VALUES ('small')")
        assert "" == find_gap(str(path))
        if turn % 10 == 9:
            db.execute("PRAGMA wal_checkpoint(RESTART)")
    db.close()
    record_property("figure", f"0 of {3 * looks} looks")


WRITER = """
import os, random, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for pragma in ("journal_mode = WAL", "cache_size = 16", "synchronous = OFF"):
    db.execute(f"PRAGMA {pragma}")
db.execute("CREATE TABLE t (x)")
print("writing", flush=True)
turn = 0
while True:
    turn += 1
    db.execute("BEGIN")
    rows = [(os.urandom(600),)] * random.choice((1, 2, 50, 200))
    db.executemany("INSERT INTO t VALUES (?)", rows)
    db.execute("ROLLBACK" if turn % 7 == 0 else "COMMIT")
    if turn % 50 == 0:
        db.execute("DELETE FROM t")
    if turn % 97 == 0:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
"""


@pytest.mark.long
def test_looking_while_another_writes(tmp_path, record_property):
    """What is half written, or begun anew, between two reads of ours is not taken for damage."""
    path = tmp_path / "core.db"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert b"writing\n" == process.stdout.readline()
        found = [find_gap(str(path)) for _ in range(4000)]
        process.kill()

    assert {""} == set(found)
    record_property("figure", f"0 of {len(found)} looks")


def test_a_long_log_is_looked_through_quickly(tmp_path, record_property):
    """A log of 4 MB, the longest there is as a rule, holds no start up."""
    path = write_log(tmp_path, 260)
    size = log_of(path).stat().st_size
    began = time.process_time()
    found = find_gap(str(path))
    seconds = time.process_time() - began

    assert "" == found
    assert seconds < 1.0
    record_property("figure", f"{size / 1e6:.1f} MB in {seconds * 1000:.0f} ms of processor time")


def test_a_reader_holds_nobody_up(tmp_path, record_property):
    """While somebody reads, the log is not emptied, and neither we nor a writer wait for that."""
    path = tmp_path / "core.db"
    core = CoreStore(str(path))  # which would wait for 20 s
    core.threads.create("hof_x", "t", None, Said("chat", "context", "a first marker", "t"))
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM handoffs").fetchall()
    core.threads.add("hof_x", Said("chat", "done", "more", "t"), 8 << 20)
    began = time.monotonic()
    core.shorten_log()
    seconds = time.monotonic() - began
    left = log_of(path).stat().st_size
    reader.close()
    core.shorten_log()
    core.close()

    assert seconds < 5.0
    assert 0 < left
    assert b"a first marker" in path.read_bytes()
    record_property("figure", f"given up after {seconds * 1000:.0f} ms")


@pytest.mark.long
def test_the_log_is_emptied_and_the_first_entry_copied(house, record_property):
    """Little stands in the log alone, and a new store has its copy soon after its first entry."""
    house.transcripts.mkdir(parents=True)
    run_after(house, "import handoffd.app\nhandoffd.app.CORE_LOOK_SECONDS = 0.2").start()
    path = core_of(house)
    copy = path.with_name("core.db.backup")
    wait_for(copy.exists, what="the copy of what is new")
    house.call("thread", action="create", title="t", content="a first marker")
    wait_for(lambda: copy.exists() and b"a first marker" in copy.read_bytes(), what="the copy")
    wait_for(lambda: log_of(path).stat().st_size == 0, what="the log is empty")

    assert b"a first marker" in path.read_bytes()
    wait_for(lambda: time.time() - copy.stat().st_mtime > 2.5, what="no copy is made every time")
    record_property("figure", "copied and out of the log at the next look (every 60 s; 0.2 s here)")
