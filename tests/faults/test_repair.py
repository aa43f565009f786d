"""handoff repair: what can be read of core.db is saved, and it may be killed anywhen."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import damaged
from conftest import BIN, wait_for
from damaged import core_of, heard, say, talk, warnings
from handoffd import offline_repair
from handoffd.api import threads
from handoffd.config import Config
from handoffd.errors import DamagedError
from handoffd.parts import Parts
from handoffd.store import damage
from handoffd.store.core import CoreStore
from handoffd.store.threads import Said

LONG = pytest.mark.long
# How much is left of what was said after the copy was made: what is in no file is lost.
KINDS = [
    (damaged.entries, 1),
    pytest.param((damaged.garbage, 0), marks=LONG),
    pytest.param((damaged.header, 0), marks=LONG),
    pytest.param((damaged.half, None), marks=LONG),
    pytest.param((damaged.empty, 0), marks=LONG),
    pytest.param((damaged.gone, 0), marks=LONG),
    pytest.param((damaged.log, 1), marks=LONG),
]


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case[0].__name__)
def test_damaged_core_is_mended(live, case, record_property):
    """Shown first, then done; the daemon steps aside and is back, with all that any file held."""
    spoil, later = case
    thread, entries = talk(live, 60, after="said after the copy")
    live.stop()
    path = core_of(live)
    spoil(path)
    live.start()
    live.environment["HANDOFFD_SOCKET"] = live.socket_path
    shown = live.handoff("repair", "--json")
    assert 4 == shown.returncode
    assert "handoff repair --yes" in shown.stderr
    assert "core_damaged" in warnings(live)
    done = live.handoff("repair", "--yes", "--json")
    live.process.wait(10)
    live.process = None

    assert 0 == done.returncode, done.stderr
    told = json.loads(done.stdout)["core"]
    assert json.loads(shown.stdout)["core"]["tables"] == told["tables"]
    kept = os.stat(told["kept"])
    assert 0o600 == kept.st_mode & 0o777
    assert 0o600 == path.stat().st_mode & 0o777
    wait_for(live.answers)
    found = heard(live, thread)
    if later is not None:
        assert later == ("said after the copy" in found)
    assert entries - 1 == len([words for words in found if "after" not in words])
    assert "core_damaged" not in warnings(live)
    assert "result" in say(live, thread, "more")
    assert "There is nothing to mend" in live.handoff("repair").stdout
    live.handoff("down")
    figure = f"{spoil.__name__}: {len(found)} of {entries}"
    record_property("figure", figure)


def test_repair_of_whole_stores_changes_nothing(live, record_property):
    """With a daemon and without: it says so, exits with 0, and no byte of any file is changed."""
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
    size = sum(map(len, before.values()))
    record_property("figure", f"{size} bytes in {len(before)} files as before")


def test_json_at_a_terminal_is_one_document(house):
    """Whoever asks for JSON is not asked back, at a terminal either: what is shown is all."""
    house.state.mkdir(parents=True, mode=0o700)
    CoreStore(str(core_of(house))).close()
    damaged.garbage(core_of(house))
    ours, theirs = os.openpty()
    words = [BIN / "handoff", "repair", "--json"]
    done = subprocess.run(
        words,
        env=house.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(theirs)

    assert 4 == done.returncode
    assert json.loads(os.read(ours, 1 << 16))["core"]
    os.close(ours)


@pytest.fixture
def wounded(house) -> tuple[str, str]:
    """A damaged core.db, of which one page is gone and something stands in its log alone."""
    house.state.mkdir(parents=True, mode=0o700)
    path = str(core_of(house))
    core = CoreStore(path)
    core.threads.create("hof_x", "t", None, Said("chat", "context", "first", "t"))
    for number in range(200):
        core.threads.add("hof_x", Said("chat", "done", f"entry {number} {'x' * 200}", "t"), 1 << 20)
    core.back_up()
    core._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    core.threads.add("hof_x", Said("chat", "done", "in the log", "t"), 1 << 20)
    kept = {name: (house.state / name).read_bytes() for name in ("core.db", "core.db-wal")}
    core.close()
    for name, data in kept.items():
        (house.state / name).write_bytes(data)
    damaged.page(core_of(house), b"entry 100 ")
    return path, str(house.state)


def mend_and_die(step: int) -> int:
    """Mend in a process that is killed before it changes the disk for the nth time."""
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
        for name in ("replace", "link", "unlink", "open", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        offline_repair.mend()
    finally:
        os._exit(left <= 0)


def test_killed_at_every_step_of_a_repair(wounded, tmp_path, monkeypatch, record_property):
    """Killed before any call that changes the disk: the next repair ends it, with every entry."""
    path, state = wounded
    monkeypatch.setattr(offline_repair, "make_state_dir", lambda: state)
    shutil.copytree(state, tmp_path / "before")
    kills = 0
    while (code := mend_and_die(kills + 1)) != 0:
        assert -signal.SIGKILL == code
        kills += 1
        offline_repair.mend()
        core = CoreStore(path, check=True)
        assert "" == core.damage
        words = [entry.content for entry in core.threads.read("hof_x")[1]]
        core.close()
        assert 202 == len(words) == len(set(words))
        assert "in the log" == words[-1]
        strays = {name for name in os.listdir(state) if "mend" in name or "damaged.new" in name}
        assert set() == strays
        shutil.rmtree(state)
        shutil.copytree(tmp_path / "before", state)

    assert 10 <= kills
    record_property("figure", f"{kills} kills, 202 of 202 entries after each")


KEEPER = "import sys; from handoffd.store.damage import keep_aside; keep_aside(sys.argv[1])"


def test_several_keep_one_copy(tmp_path, record_property):
    """However many notice the damage at once: one copy of the file and its log, byte by byte."""
    rounds = 4
    for number in range(rounds):
        path = tmp_path / f"{number}/core.db"
        path.parent.mkdir()
        found = {name: os.urandom(1 << 20) * 24 for name in ("core.db", "core.db-wal")}
        for name, data in found.items():
            path.with_name(name).write_bytes(data)
        command = [sys.executable, "-c", KEEPER, str(path)]
        processes = [subprocess.Popen(command) for _ in range(3)]
        assert [0] * 3 == [process.wait(60) for process in processes]

        kept = {name: path.with_name(name.replace("db", "db.damaged")) for name in found}
        assert all(found[name] == kept[name].read_bytes() for name in found)
        assert 4 == len(os.listdir(path.parent))
    record_property("figure", f"{rounds} rounds of 3, 0 torn")


def test_damage_that_cannot_be_copied(wounded, monkeypatch, record_property):
    """On a full disk everybody knows of it all the same: nothing is closed, wiped or written."""
    path, state = wounded

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = bytes_of(path)
    with monkeypatch.context() as patch:
        patch.setattr(damage.os, "fsync", full)
        core = CoreStore(path, check=True)
    assert "no space left" in core.damage
    size = os.stat(f"{path}.damaged").st_size
    other = CoreStore(path)
    os.unlink(f"{path}.damaged")  # as if not even that could be left
    parts = SimpleNamespace(core=core, config=Config(), wiping=asyncio.Lock())
    for refused in (
        threads.act(parts, lambda found: found, closing=True),
        Parts.wipe_core(parts),
    ):
        with pytest.raises(DamagedError):
            asyncio.run(refused)

    assert (0, True) == (size, bool(other.damage))
    assert before == bytes_of(path)
    monkeypatch.setattr(offline_repair, "make_state_dir", lambda: state)
    damage.mark(path, "no room")
    kept = offline_repair.mend()["core"]["kept"]
    assert before["core.db"] == Path(kept).read_bytes()
    record_property("figure", f"{sum(map(len, before.values()))} bytes as before")


def bytes_of(path: str) -> dict[str, bytes]:
    return {Path(name).name: Path(name).read_bytes() for name in (path, f"{path}-wal")}


def test_a_running_daemon_is_not_repaired_under(live):
    """Whoever cannot get the daemon's lock leaves the stores alone."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from handoffd import offline_repair; offline_repair.mend()"],
        env=live.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert f"already running (process {live.process.pid})" in done.stderr
