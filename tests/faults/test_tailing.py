"""A transcript that is cut, rewritten, replaced or moved is recognised as such, every time."""

import os
import random
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from conftest import DaemonSandbox, Session, wait_for
from handoffd.ingest.tailer import Comparison, Replaced, Tail
from handoffd.store.cursor import Cursor

CHANCE = random.Random(22)


def lines(count: int) -> bytes:
    """Return lines of which no two are the same."""
    made = (CHANCE.randbytes(CHANCE.randrange(10, 400)).hex() for _ in range(count))
    return b"".join(b'{"uuid":"%s"}\n' % text.encode() for text in made)


def tail_of(path: Path, *, restarted: bool) -> Tail:
    """Return a reader that has read a file to its end, or another that goes on from there."""
    tail = Tail(Cursor("t", "s", str(path)))
    while tail.read().more:
        pass
    return Tail(tail.cursor) if restarted else tail


def cut(path: Path, old: bytes) -> None:
    os.truncate(path, 0)


def cut_and_grown(path: Path, old: bytes) -> None:
    """Cut the file to nothing, then write past the old place, as another writer of the inode."""
    with path.open("r+b") as stream:
        stream.truncate(0)
        stream.write(lines(1))
        while stream.tell() <= len(old):
            stream.write(lines(1))


def cut_in_the_middle(path: Path, old: bytes) -> None:
    """Remove some lines at the end, and write others, as a rewind would."""
    whole = old.splitlines(keepends=True)
    kept = b"".join(whole[: CHANCE.randrange(len(whole))])
    with path.open("r+b") as stream:
        stream.truncate(len(kept))
        stream.seek(len(kept))
        while stream.tell() <= len(old):
            stream.write(lines(1))


def rewritten(path: Path, old: bytes) -> None:
    """Change one byte of the first kilobyte or of the last 64, in a file of equal size."""
    place = CHANCE.choice([CHANCE.randrange(min(len(old), 1024)), -CHANCE.randrange(1, 65)])
    other = bytearray(old)
    other[place] ^= 1
    with path.open("r+b") as stream:
        stream.write(other)


def changed_inside(path: Path, old: bytes) -> None:
    """Change one byte anywhere, in a file of equal size."""
    other = bytearray(old)
    other[CHANCE.randrange(len(old))] ^= 1
    with path.open("r+b") as stream:
        stream.write(other)


@pytest.mark.parametrize("change", [cut, cut_and_grown, cut_in_the_middle, rewritten])
def test_changed_in_place(tmp_path, change, record_property):
    """A file that was cut or rewritten is recognised 100 times of 100, also after a restart."""
    path = tmp_path / "t.jsonl"
    recognised = 0
    for number in range(100):
        old = lines(CHANCE.randrange(1, 60))
        path.write_bytes(old)
        tail = tail_of(path, restarted=bool(number % 2))
        inode = path.stat().st_ino
        change(path, old)
        assert inode == path.stat().st_ino
        try:
            tail.read()
        except Replaced:
            recognised += 1

    assert 100 == recognised
    record_property("figure", f"{change.__name__.replace('_', ' ')}: {recognised} of 100")


def differs(cursor: Cursor) -> bool:
    """Compare all bytes that were read with the file's present bytes."""
    comparison = Comparison(cursor)
    try:
        while comparison.compare_slice():
            pass
    except Replaced:
        return True
    return False


def test_compared_as_a_whole(tmp_path, record_property):
    """A whole comparison finds a byte changed anywhere; an unchanged file is left alone."""
    path = tmp_path / "t.jsonl"
    recognised = mistaken = 0
    for number in range(100):
        old = lines(CHANCE.randrange(1, 1600))
        path.write_bytes(old)
        tail = tail_of(path, restarted=bool(number % 2))
        with path.open("ab") as stream:
            stream.write(lines(2)[:-9])  # and it is read on from where it was
        tail.read()
        mistaken += differs(tail.cursor)
        changed_inside(path, path.read_bytes()[: tail.cursor.offset])
        recognised += differs(tail.cursor)

    assert (100, 0) == (recognised, mistaken)
    record_property("figure", f"{recognised} of 100, {mistaken} of 100 for nothing")


def compared(sandbox: DaemonSandbox, session: Session) -> int:
    """Return the time of a transcript when it was last read or compared."""
    with closing(sqlite3.connect(sandbox.state / "state.db")) as db:
        query = "SELECT mtime_ns FROM cursors WHERE transcript = ?"
        return db.execute(query, (session.id,)).fetchone()[0]


@pytest.mark.parametrize("restarted", [False, True])
def test_rewritten_in_the_middle(live, restarted, record_property):
    """A word replaced by one as long, far from both ends, is read; a touch alone costs nothing."""
    project = live.project()
    session = live.session(project)
    session.raw(b"".join(session.line("system", content="x" * 900) for _ in range(40)))
    session.prompt("Build the front gate of the house")
    session.raw(b"".join(session.line("system", content="x" * 900) for _ in range(40)))
    wait_for(lambda: live.call("status")["records"] == 81)
    with session.path.open("r+b") as stream:
        stream.write(b"{")  # the byte that is there already
    wait_for(lambda: compared(live, session) == session.path.stat().st_mtime_ns)
    if restarted:
        live.stop()
    old = session.path.read_bytes()
    with session.path.open("r+b") as stream:
        stream.write(old.replace(b"front gate", b"other gate"))
    if restarted:
        live.start()
    wait_for(lambda: live.document(project)["goal"] == "Build the other gate of the house")

    assert 1 == live.call("status")["replaced"]
    record_property("figure", "restarted: read anew" if restarted else "read anew, once")


def test_deleted_transcripts_are_let_go(live, record_property):
    """Memory keeps nothing of deleted transcripts; one that comes back is not counted twice."""
    project, count = live.project(), 60
    sessions = [live.session(project) for _ in range(count)]
    for session in sessions:
        session.prompt("Make one of many parts of it")
    wait_for(lambda: live.call("status")["records"] == count)
    kept, away = sessions[0], live.home / "away"
    away.mkdir()
    for session in sessions[1:]:
        os.rename(session.path, away / session.path.name)
    live.process.send_signal(signal.SIGHUP)  # or it would take until the next rescan
    wait_for(lambda: live.call("status")["transcripts"] == 1)
    gone = count - live.call("status")["transcripts"]
    known = live.call("status")["sessions"]
    back = sessions[7]
    os.rename(away / back.path.name, back.path)
    back.say("It is back again.")
    kept.say("It was there all the time.")
    wait_for(lambda: live.call("status")["records"] == count + 2)
    status = live.call("status")

    assert (count, count) == (known, status["sessions"])
    twice = status["skipped"]["repeated_records"]
    assert (2, 0) == (status["transcripts"], twice)
    told = f"{gone} of {count - 1} let go, {known} sessions known, {twice} records twice"
    record_property("figure", told)


@pytest.mark.long
def test_forgotten_while_it_was_gone(live):
    """A session forgotten while its transcript is away stays unknown when that comes back."""
    project = live.project()
    session = live.session(project)
    session.prompt("Nobody shall know of this")
    wait_for(lambda: live.call("status")["records"] == 1)
    away = live.home / "away.jsonl"
    os.rename(session.path, away)
    wait_for(lambda: live.call("status")["transcripts"] == 0)
    assert 0 == live.handoff("forget", session.id, "--yes").returncode
    os.rename(away, session.path)
    wait_for(lambda: live.call("status")["transcripts"] == 1)
    wait_for(live.settled)

    assert 0 == live.call("status")["sessions"]
    assert 1 == live.call("status")["records"]


def test_unfinished_line_is_taken_back(tmp_path, record_property):
    """Half a line of any length that is cut off and written anew is never glued to the new one."""
    path = tmp_path / "t.jsonl"
    wrong = 0
    for number in range(100):
        old, half = lines(CHANCE.randrange(3)), lines(1)[:-5]
        path.write_bytes(old + half)
        tail = tail_of(path, restarted=False)
        new = lines(CHANCE.randrange(1, 4))
        os.truncate(path, len(old))
        with path.open("ab") as stream:
            stream.write(new[: len(half)] if number % 2 else new)
        first = tail.read()
        with path.open("ab") as stream:
            stream.write(new[len(half) :] if number % 2 else b"")
        second = tail.read()
        found = b"".join(line + b"\n" for taken in (first, second) for _, line in taken.lines)
        wrong += found != new

    assert 0 == wrong
    record_property("figure", f"{wrong} of 100 glued")


def test_inode_given_to_another(tmp_path, record_property):
    """A file deleted and made again, with the old one's inode, is new 50 times of 50."""
    path = tmp_path / "t.jsonl"
    recognised, reused, tries = 0, 0, 0
    while reused < 50 and tries < 1000:
        tries += 1
        path.write_bytes(lines(20))
        tail = tail_of(path, restarted=bool(tries % 2))
        inode = path.stat().st_ino
        path.unlink()
        path.write_bytes(lines(30))
        try:
            tail.read()
        except Replaced:
            recognised += 1
        reused += inode == path.stat().st_ino

    assert tries == recognised
    record_property("figure", f"{recognised} of {tries} recognised, {reused} with the same inode")


def test_replaced_and_renamed(live, record_property):
    """Replaced by rename, a transcript is folded anew; renamed itself, it keeps its cursor."""
    project = live.project()
    session = live.session(project)

    def goal() -> str:
        return live.document(project)["goal"]

    for number in range(20):
        other = session.path.with_suffix(".new")
        text = f"Build the door with number {number} now"
        other.write_bytes(session.line("user", message={"content": text}) * (1 + number % 3))
        os.replace(other, session.path)
        wait_for(lambda wanted=text: goal() == wanted)
    replaced, records = (live.call("status")[name] for name in ("replaced", "records"))
    for number in range(10):
        elsewhere = live.transcripts / f"-elsewhere-{number}"
        elsewhere.mkdir()
        os.rename(session.path, elsewhere / session.path.name)
        session.path = elsewhere / session.path.name
        session.say(f"It has moved {number} times.")
        wait_for(lambda n=number: live.call("status")["records"] == records + n + 1)

    assert (19, 20) == (replaced, records)
    after = live.call("status")
    assert (19, 30) == (after["replaced"], after["records"])
    told = (
        f"{replaced} of 19 replacements seen; after {number + 1} renames {after['records']} records"
    )
    record_property("figure", f"{told} of 30")
