"""One daemon, also if it is started, ended, cut off, orphaned, or fails for good."""

import contextlib
import errno
import os
import shutil
import signal
import socket
import statistics
import subprocess
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from conftest import BIN, wait_for
from handoff.common.errors import EXIT_ALREADY_RUNNING, EXIT_FAILED
from handoffd.runtime.lock import lock_instance

HANG_SECONDS = 60


def test_twenty_at_once(house, record_property):
    """Of twenty daemons started at once one lives; all others exit, and name it."""
    began = time.monotonic()
    started = [house.spawn() for _ in range(20)]
    try:
        wait_for(lambda: sum(p.poll() is not None for p in started) == 19, HANG_SECONDS)
        took = time.monotonic() - began
        living = [process for process in started if process.poll() is None]
        wait_for(house.answers, HANG_SECONDS)

        assert {EXIT_ALREADY_RUNNING} == {p.poll() for p in started if p not in living}
        assert living[0].pid == house.call("status")["pid"]
        assert 19 == house.log.read_text().count(f"(process {living[0].pid})")
    finally:
        for process in started:
            process.terminate()
            process.wait(90)
    record_property("figure", f"1 of 20 lives, 19 left with code 7 within {took:.1f} s")


def ready_after(house) -> float:
    began = time.monotonic()
    house.start()
    return time.monotonic() - began


def test_started_after_a_kill(house, record_property):
    """After kill -9 the next daemon answers about as soon as after an orderly end."""
    house.transcripts.mkdir(parents=True)
    house.session(house.project()).prompt("Something to be known")
    clean, killed = [], []
    for _ in range(3):
        clean.append(ready_after(house))
        house.kill()
        killed.append(ready_after(house))
        house.stop()

    ratio = statistics.median(killed) / statistics.median(clean)
    assert ratio < 5
    record_property("figure", f"{ratio:.2f} x an orderly start (3 of each)")


def test_ended_with_a_thousand_dirty_files(house, record_property):
    """SIGTERM with 1,000 unread transcripts ends it with 0 in seconds; the next one reads all."""
    house.transcripts.mkdir(parents=True)
    house.start()
    project = house.project()
    house.process.send_signal(signal.SIGSTOP)
    for number in range(1000):
        house.session(project).prompt(f"The request with number {number}")
    began = time.monotonic()
    house.process.send_signal(signal.SIGCONT)
    time.sleep(0.2)
    house.process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    house.process.send_signal(signal.SIGTERM)

    assert 0 == house.process.wait(HANG_SECONDS)
    took = time.monotonic() - began
    house.start()
    wait_for(house.settled, HANG_SECONDS)
    lanes = house.call("sessions", limit=1000)["sessions"]
    assert [1] * 1000 == [lane["records"] for lane in lanes]
    record_property("figure", f"ended in {took:.1f} s with two signals; 1,000 of 1,000 known after")


def test_socket_taken_by_another_program(house, record_property):
    """A program that takes the socket's path keeps it; the daemon works on, and comes back."""
    house.environment |= {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "400000"}
    house.transcripts.mkdir(parents=True)
    house.start()
    project = house.project()
    with socket.socket(socket.AF_UNIX) as other:
        os.unlink(house.socket_path)
        other.bind(house.socket_path)
        other.listen()
        inode = os.lstat(house.socket_path).st_ino
        wait_for(lambda: "socket_taken" in house.log.read_text())
        house.session(project).prompt("Nobody can ask for this now")
        wait_for(lambda: "Nobody can ask" in house.yaml(project))

        assert house.alive()
        assert inode == os.lstat(house.socket_path).st_ino
    began = time.monotonic()
    wait_for(house.answers, HANG_SECONDS)
    told = f"checkpoints went on; answered again {time.monotonic() - began:.1f} s after it left"
    record_property("figure", told + " (looks every 0.2 s here, every 30 s as a rule)")


def test_runtime_directory_deleted(house, record_property):
    """A socket's directory deleted during the run is made again, private, and served."""
    house.environment |= {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "400000"}
    house.start()
    directory = os.path.dirname(house.socket_path)
    shutil.rmtree(directory)
    began = time.monotonic()
    wait_for(lambda: os.path.exists(house.socket_path) and house.answers(), HANG_SECONDS)
    seconds = time.monotonic() - began
    modes = [os.stat(path).st_mode & 0o777 for path in (directory, house.socket_path)]

    assert [0o700, 0o600] == modes
    told = f"directory {modes[0]:04o} and socket {modes[1]:04o}, there again after {seconds:.1f} s"
    record_property("figure", told + " (looks every 0.2 s here, every 30 s as a rule)")


def test_lock_deleted(house):
    """After its file was deleted the lock is held again, against a second daemon; `down` works."""
    house.environment |= {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "400000"}
    house.start()
    lock = house.state / "handoffd.lock"
    lock.unlink()
    assert 0 == house.handoff("status").returncode
    wait_for(lambda: lock.exists() and lock.read_text() == f"{house.process.pid}\n", HANG_SECONDS)

    assert EXIT_ALREADY_RUNNING == house.spawn().wait(HANG_SECONDS)
    handles = Path(f"/proc/{house.process.pid}/fd")
    before = len(os.listdir(handles)) if handles.exists() else 0
    for _ in range(3):
        lock.unlink()
        wait_for(lock.exists, HANG_SECONDS)
    assert not before or len(os.listdir(handles)) < before + 3, "the old ones are closed"
    lock.unlink()
    assert 0 == house.handoff("down").returncode
    assert 0 == house.process.wait(HANG_SECONDS)


def test_lock_out_of_reach(house, record_property):
    """While the lock cannot be examined or taken again, the daemon lives on, and reports it."""
    house.environment |= {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "400000"}
    house.start()
    lock, away = house.state / "handoffd.lock", house.state.with_name("away")
    os.rename(house.state, away)
    wait_for(lambda: house.log.read_text().count("lock_failed") >= 3, HANG_SECONDS)
    (away / lock.name).unlink()
    (away / lock.name).mkdir()
    os.rename(away, house.state)
    tries = house.log.read_text().count("lock_failed")
    wait_for(lambda: house.log.read_text().count("lock_failed") >= tries + 3, HANG_SECONDS)
    lock.rmdir()
    wait_for(lambda: lock.exists() and lock.read_text() == f"{house.process.pid}\n", HANG_SECONDS)

    assert EXIT_ALREADY_RUNNING == house.spawn().wait(HANG_SECONDS)
    assert 0 == house.handoff("status").returncode
    failed = house.log.read_text().count("lock_failed")
    record_property("figure", f"{failed} looks in vain, held again")


def test_lock_that_cannot_be_written(tmp_path, monkeypatch):
    """A lock that was taken, and could not be written on a full disk, is free for the next try."""
    path = str(tmp_path / "lock")
    with monkeypatch.context() as full:
        full.setattr(
            "handoffd.runtime.lock.os.write", Mock(side_effect=OSError(errno.ENOSPC, "full"))
        )
        with pytest.raises(OSError, match="full"):
            lock_instance(path)
    os.close(lock_instance(path))


def test_fifty_hooks_without_a_daemon(house, record_property):
    """Fifty hooks at once without a daemon all end with 0, start nothing, and none hangs."""
    began = time.monotonic()
    hooks = [
        subprocess.Popen(
            [BIN / "handoff", "hook"], env=house.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=house.home,
        )
        for _ in range(50)
    ]  # fmt: skip
    said = [hook.communicate(b'{"hook_event_name":"SessionStart"}', HANG_SECONDS) for hook in hooks]
    took = time.monotonic() - began

    assert {(b"", b"")} == set(said)
    assert {0} == {hook.returncode for hook in hooks}
    assert not os.path.exists(house.socket_path)
    record_property("figure", f"50 of 50 with code 0, all of them in {took:.1f} s")


def test_orphans_of_a_killed_daemon(house, record_property):
    """A daemon killed while git hangs leaves it behind; the next one ends git and its children."""
    fake = house.home / "bin"
    fake.mkdir()
    (fake / "git").write_text(
        f"#!/bin/sh\nsleep 1000 &\necho $! $$ > {house.home}/pids.new\n"
        f"mv {house.home}/pids.new {house.home}/pids\nwait\n"
    )
    (fake / "git").chmod(0o755)
    project = house.project()
    path = house.environment["PATH"]
    house.environment["PATH"] = f"{fake}:{path}"
    house.start()
    house.session(project).prompt("A project with a hanging git")
    wait_for((house.home / "pids").exists, HANG_SECONDS)
    house.kill()
    pids = [int(pid) for pid in (house.home / "pids").read_text().split()]
    left = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    house.environment["PATH"] = path
    house.start()

    assert pids == left, "they outlived the daemon, or this proves nothing"
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), HANG_SECONDS)
    assert '"orphans_ended"' in house.log.read_text()
    record_property("figure", f"{len(left)} processes left by kill -9, 0 after the next start")


def test_a_number_that_is_anothers_by_now(house, client):
    """A process that has the number of a program of ours, and is none, is left alone."""
    house.state.mkdir(parents=True, mode=0o700)
    (house.state / "programs").write_text(f"{client.pid}:1 {os.getpid()}:2 1:3 x:4 -1:5\n")
    house.start()

    assert client.poll() is None
    assert '"orphans_ended"' not in house.log.read_text()


def test_crash_loop_where_nobody_limits_it(house, record_property):
    """After four failures within a minute each further start ends with 0 and the reason."""
    config = house.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[checkpoint]\nwrites = 1\n")
    house.environment["HANDOFFD_LIMIT_STARTS"] = "1"

    codes = [house.spawn().wait(HANG_SECONDS) for _ in range(6)]
    said = house.handoff("doctor").stdout

    assert [EXIT_FAILED] * 4 + [0, 0] == codes
    assert 2 == house.log.read_text().count("failed again and again, and stays down")
    assert "it ended by itself at" in said
    assert "`checkpoint.writes`" in said
    record_property("figure", f"starts end with {codes}, the last with the reason")


def test_killed_again_and_again(house):
    """A kill counts as a failure, too; an orderly end clears the count."""
    house.environment["HANDOFFD_LIMIT_STARTS"] = "1"
    for _ in range(4):
        house.start()
        house.kill()
    house.start()
    assert "was killed, or ended without a word" in (house.state / "failures").read_text()
    house.kill()

    assert 0 == house.spawn().wait(HANG_SECONDS)
    del house.environment["HANDOFFD_LIMIT_STARTS"]
    house.start()
    house.stop()
    assert not (house.state / "failures").exists()
    assert not (house.state / "running").exists()


@pytest.mark.parametrize("name", ["failures", "running", "programs"])
def test_strange_files_where_notes_are_kept(house, name):
    """A pipe, a directory or foreign bytes in the place of our notes do not delay a start."""
    house.state.mkdir(parents=True, mode=0o700)
    path = house.state / name
    for make in (os.mkfifo, os.mkdir, lambda p: p.write_bytes(b"\xff\0" * 40_000)):
        make(path)
        house.start()
        house.kill()
        with contextlib.suppress(OSError):
            path.rmdir()
        path.unlink(missing_ok=True)
