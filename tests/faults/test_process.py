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


def test_twenty_at_once(sandbox, record_property):
    """Of twenty daemons started at once one lives; all others exit, and name it."""
    began = time.monotonic()
    started = [sandbox.spawn() for _ in range(20)]
    try:
        wait_for(lambda: sum(p.poll() is not None for p in started) == 19, HANG_SECONDS)
        took = time.monotonic() - began
        living = [process for process in started if process.poll() is None]
        wait_for(sandbox.answers, HANG_SECONDS)

        assert {EXIT_ALREADY_RUNNING} == {p.poll() for p in started if p not in living}
        assert living[0].pid == sandbox.call("status")["pid"]
        assert 19 == sandbox.log.read_text().count(f"(process {living[0].pid})")
    finally:
        for process in started:
            process.terminate()
            process.wait(90)
    record_property("figure", f"1 of 20 lives, 19 left with code 7 within {took:.1f} s")


def ready_after(sandbox) -> float:
    began = time.monotonic()
    sandbox.start()
    return time.monotonic() - began


def test_started_after_a_kill(sandbox, record_property):
    """After kill -9 the next daemon answers about as soon as after an orderly end."""
    sandbox.transcripts.mkdir(parents=True)
    sandbox.session(sandbox.project()).prompt("Something to be known")
    clean, killed = [], []
    for _ in range(3):
        clean.append(ready_after(sandbox))
        sandbox.kill()
        killed.append(ready_after(sandbox))
        sandbox.stop()

    ratio = statistics.median(killed) / statistics.median(clean)
    assert ratio < 5
    record_property("figure", f"{ratio:.2f} x an orderly start (3 of each)")


def test_ended_with_a_thousand_dirty_files(sandbox, record_property):
    """SIGTERM with 1,000 unread transcripts ends it with 0 in seconds; the next one reads all."""
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    project = sandbox.project()
    sandbox.process.send_signal(signal.SIGSTOP)
    for number in range(1000):
        sandbox.session(project).prompt(f"The request with number {number}")
    began = time.monotonic()
    sandbox.process.send_signal(signal.SIGCONT)
    time.sleep(0.2)
    sandbox.process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    sandbox.process.send_signal(signal.SIGTERM)

    assert 0 == sandbox.process.wait(HANG_SECONDS)
    took = time.monotonic() - began
    sandbox.start()
    wait_for(sandbox.settled, HANG_SECONDS)
    lanes = sandbox.call("sessions", limit=1000)["sessions"]
    assert [1] * 1000 == [lane["records"] for lane in lanes]
    record_property("figure", f"ended in {took:.1f} s with two signals; 1,000 of 1,000 known after")


def test_socket_taken_by_another_program(sandbox, record_property):
    """A program that takes the socket's path keeps it; the daemon works on, and comes back."""
    sandbox.environment |= {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "400000"}
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    project = sandbox.project()
    with socket.socket(socket.AF_UNIX) as other:
        os.unlink(sandbox.socket_path)
        other.bind(sandbox.socket_path)
        other.listen()
        inode = os.lstat(sandbox.socket_path).st_ino
        wait_for(lambda: "socket_taken" in sandbox.log.read_text())
        sandbox.session(project).prompt("Nobody can ask for this now")
        wait_for(lambda: "Nobody can ask" in sandbox.yaml(project))

        assert sandbox.alive()
        assert inode == os.lstat(sandbox.socket_path).st_ino
    began = time.monotonic()
    wait_for(sandbox.answers, HANG_SECONDS)
    told = f"checkpoints went on; answered again {time.monotonic() - began:.1f} s after it left"
    record_property("figure", told + " (looks every 0.2 s here, every 30 s as a rule)")


def test_runtime_directory_deleted(sandbox, record_property):
    """A socket's directory deleted during the run is made again, private, and served."""
    sandbox.environment |= {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "400000"}
    sandbox.start()
    directory = os.path.dirname(sandbox.socket_path)
    shutil.rmtree(directory)
    began = time.monotonic()
    wait_for(lambda: os.path.exists(sandbox.socket_path) and sandbox.answers(), HANG_SECONDS)
    seconds = time.monotonic() - began
    modes = [os.stat(path).st_mode & 0o777 for path in (directory, sandbox.socket_path)]

    assert [0o700, 0o600] == modes
    told = f"directory {modes[0]:04o} and socket {modes[1]:04o}, there again after {seconds:.1f} s"
    record_property("figure", told + " (looks every 0.2 s here, every 30 s as a rule)")


def test_lock_deleted(sandbox):
    """After its file was deleted the lock is held again, against a second daemon; `down` works."""
    sandbox.environment |= {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "400000"}
    sandbox.start()
    lock = sandbox.state / "handoffd.lock"
    lock.unlink()
    assert 0 == sandbox.handoff("status").returncode
    wait_for(lambda: lock.exists() and lock.read_text() == f"{sandbox.process.pid}\n", HANG_SECONDS)

    assert EXIT_ALREADY_RUNNING == sandbox.spawn().wait(HANG_SECONDS)
    handles = Path(f"/proc/{sandbox.process.pid}/fd")
    before = len(os.listdir(handles)) if handles.exists() else 0
    for _ in range(3):
        lock.unlink()
        wait_for(lock.exists, HANG_SECONDS)
    assert not before or len(os.listdir(handles)) < before + 3, "the old ones are closed"
    lock.unlink()
    assert 0 == sandbox.handoff("down").returncode
    assert 0 == sandbox.process.wait(HANG_SECONDS)


def test_lock_out_of_reach(sandbox, record_property):
    """While the lock cannot be examined or taken again, the daemon lives on, and reports it."""
    sandbox.environment |= {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "400000"}
    sandbox.start()
    lock, away = sandbox.state / "handoffd.lock", sandbox.state.with_name("away")
    os.rename(sandbox.state, away)
    wait_for(lambda: sandbox.log.read_text().count("lock_failed") >= 3, HANG_SECONDS)
    (away / lock.name).unlink()
    (away / lock.name).mkdir()
    os.rename(away, sandbox.state)
    tries = sandbox.log.read_text().count("lock_failed")
    wait_for(lambda: sandbox.log.read_text().count("lock_failed") >= tries + 3, HANG_SECONDS)
    lock.rmdir()
    wait_for(lambda: lock.exists() and lock.read_text() == f"{sandbox.process.pid}\n", HANG_SECONDS)

    assert EXIT_ALREADY_RUNNING == sandbox.spawn().wait(HANG_SECONDS)
    assert 0 == sandbox.handoff("status").returncode
    failed = sandbox.log.read_text().count("lock_failed")
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


def test_fifty_hooks_without_a_daemon(sandbox, record_property):
    """Fifty hooks at once without a daemon all end with 0, start nothing, and none hangs."""
    began = time.monotonic()
    hooks = [
        subprocess.Popen(
            [BIN / "handoff", "hook"], env=sandbox.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=sandbox.home,
        )
        for _ in range(50)
    ]  # fmt: skip
    said = [hook.communicate(b'{"hook_event_name":"SessionStart"}', HANG_SECONDS) for hook in hooks]
    took = time.monotonic() - began

    assert {(b"", b"")} == set(said)
    assert {0} == {hook.returncode for hook in hooks}
    assert not os.path.exists(sandbox.socket_path)
    record_property("figure", f"50 of 50 with code 0, all of them in {took:.1f} s")


def test_orphans_of_a_killed_daemon(sandbox, record_property):
    """A daemon killed while git hangs leaves it behind; the next one ends git and its children."""
    fake = sandbox.home / "bin"
    fake.mkdir()
    (fake / "git").write_text(
        f"#!/bin/sh\nsleep 1000 &\necho $! $$ > {sandbox.home}/pids.new\n"
        f"mv {sandbox.home}/pids.new {sandbox.home}/pids\nwait\n"
    )
    (fake / "git").chmod(0o755)
    project = sandbox.project()
    path = sandbox.environment["PATH"]
    sandbox.environment["PATH"] = f"{fake}:{path}"
    sandbox.start()
    sandbox.session(project).prompt("A project with a hanging git")
    wait_for((sandbox.home / "pids").exists, HANG_SECONDS)
    pids = [int(pid) for pid in (sandbox.home / "pids").read_text().split()]
    programs = sandbox.state / "programs"
    wait_for(lambda: f"{pids[1]}:" in programs.read_text(), what="it is noted")
    sandbox.kill()
    left = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    sandbox.environment["PATH"] = path
    sandbox.start()

    assert pids == left, "they outlived the daemon, or this proves nothing"
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), HANG_SECONDS)
    assert '"orphans_ended"' in sandbox.log.read_text()
    record_property("figure", f"{len(left)} processes left by kill -9, 0 after the next start")


def test_a_number_that_is_anothers_by_now(sandbox, client):
    """A process that has the number of a program of ours, and is none, is left alone."""
    sandbox.state.mkdir(parents=True, mode=0o700)
    (sandbox.state / "programs").write_text(f"{client.pid}:1 {os.getpid()}:2 1:3 x:4 -1:5\n")
    sandbox.start()

    assert client.poll() is None
    assert '"orphans_ended"' not in sandbox.log.read_text()


def test_crash_loop_where_nobody_limits_it(sandbox, record_property):
    """After four failures within a minute each further start ends with 0 and the reason."""
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[checkpoint]\nwrites = 1\n")
    sandbox.environment["HANDOFFD_LIMIT_STARTS"] = "1"

    codes = [sandbox.spawn().wait(HANG_SECONDS) for _ in range(6)]
    said = sandbox.handoff("doctor").stdout

    assert [EXIT_FAILED] * 4 + [0, 0] == codes
    assert 2 == sandbox.log.read_text().count("failed again and again, and stays down")
    assert "it ended by itself at" in said
    assert "`checkpoint.writes`" in said
    record_property("figure", f"starts end with {codes}, the last with the reason")


def test_killed_again_and_again(sandbox):
    """A kill counts as a failure, too; an orderly end clears the count."""
    sandbox.environment["HANDOFFD_LIMIT_STARTS"] = "1"
    for _ in range(4):
        sandbox.start()
        sandbox.kill()
    sandbox.start()
    assert "was killed, or ended without a word" in (sandbox.state / "failures").read_text()
    sandbox.kill()

    assert 0 == sandbox.spawn().wait(HANG_SECONDS)
    del sandbox.environment["HANDOFFD_LIMIT_STARTS"]
    sandbox.start()
    sandbox.stop()
    assert not (sandbox.state / "failures").exists()
    assert not (sandbox.state / "running").exists()


@pytest.mark.parametrize("name", ["failures", "running", "programs"])
def test_strange_files_where_notes_are_kept(sandbox, name):
    """A pipe, a directory or foreign bytes in the place of our notes do not delay a start."""
    sandbox.state.mkdir(parents=True, mode=0o700)
    path = sandbox.state / name
    for make in (os.mkfifo, os.mkdir, lambda p: p.write_bytes(b"\xff\0" * 40_000)):
        make(path)
        sandbox.start()
        sandbox.kill()
        with contextlib.suppress(OSError):
            path.rmdir()
        path.unlink(missing_ok=True)
