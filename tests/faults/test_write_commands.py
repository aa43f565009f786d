"""A disk that refuses writes: of commands in their own process, and of the log."""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import conductor_projects
from conftest import BIN, DaemonSandbox, contents_below, files_below, wait_for
from failing_disk import ERRORS, FILLING, Disk

PR_CAPBSET_DROP = 24
REMEDY = re.compile("space|read-only|yours|failing|handoff doctor")
SETUP = ("setup", "--yes", "--without", "service", "--without", "mcp")
# The written file: the path that fails, and the command that writes it.
COMMANDS = {
    "handoff.yaml": ("/.flow-guardian/", ("save", "-m", "again")),
    "handoff": ("/.claude/handoffs/", ("close", "--done", "it")),
    "track record": ("/conductor/", ("create",)),
    "core.db": ("/core.db", ("thread", "create", "a title")),
    "token": ("http-token", ("token", "rotate")),
    "settings.json": ("/settings.json", SETUP),
    "setup's own notes": ("/setup/", SETUP),
    "slash commands": ("/.claude/commands", SETUP),
    "start": ("/state/handoffd/", ("up",)),
}


def some(every, *quick):
    """Leave all but the quick ones to `make faults`."""
    return [pytest.param(x, marks=() if x in quick else pytest.mark.long) for x in every]


@pytest.fixture
def broken(sandbox, tmp_path) -> tuple[DaemonSandbox, Disk]:
    """A HOME without a daemon in which everything was written once."""
    disk = Disk(tmp_path)
    sandbox.environment |= disk.environment
    sandbox.transcripts.mkdir(parents=True)
    (sandbox.home / ".claude/settings.json").write_text('{"model": "opus"}\n')
    return sandbox, disk


def is_ours(path: Path) -> bool:
    """Return True for a lasting file: no lock, no database and no file of start-up errors."""
    return not path.name.startswith((".handoff", "core.db", "up.", "lock", "handoffd."))


def world(sandbox) -> dict[str, bytes]:
    return {str(p): text for p, text in contents_below(sandbox.home).items() if is_ours(p)}


@pytest.mark.parametrize("kind", some(COMMANDS, "token", "settings.json", "start"))
def test_a_command_whose_disk_refuses(broken, kind, record_property):
    """A command that cannot write gives the reason and a remedy, and changes nothing.

    It works once the disk does.
    """
    sandbox, disk = broken
    part, words = COMMANDS[kind]
    project = sandbox.project()
    conductor_projects.track(project)
    if words is not SETUP and kind != "start":
        assert 0 == sandbox.handoff(*words, cwd=project, input="x").returncode
    for error in ERRORS:
        before = world(sandbox)
        disk.fail(error, part)
        done = sandbox.handoff(*words, cwd=project, input="x")
        assert disk.mend(), "the fault was met"
        assert 1 == done.returncode, (error, done)
        assert REMEDY.search(done.stdout + done.stderr), (error, done.stderr)
        assert "Traceback" not in done.stderr
        assert before == world(sandbox), error
    done = sandbox.handoff(*words, cwd=project, input="x")
    sandbox.handoff("down")
    assert 0 == done.returncode, done.stderr
    assert [] == [p for p in files_below(sandbox.home) if p.name.endswith("handoffd-tmp")]
    record_property("figure", f"{kind}: 4 of 4")


@pytest.mark.parametrize("error", some(ERRORS, "ENOSPC", "EACCES"))
def test_a_log_that_cannot_be_written(broken, error, record_property):
    """Without its log the daemon works and says so; the log goes on when it can."""
    sandbox, disk = broken
    project = sandbox.project()
    log = sandbox.state / "handoffd.log"
    if error not in FILLING:  # an open file is written all the same
        disk.fail(error, "handoffd.log")
    assert 0 == sandbox.handoff("up").returncode
    disk.fail(error, "handoffd.log")
    try:
        sandbox.session(project).prompt("Work while nothing can be logged")
        wait_for(lambda: "nothing can be logged" in sandbox.yaml(project))
        pid = sandbox.call("status")["pid"]
        os.kill(pid, signal.SIGHUP)  # which is logged
        codes = lambda: [w["code"] for w in sandbox.request("status")["result"]["warnings"]]  # noqa: E731
        wait_for(lambda: ["log_failed"] == codes(), what="it is said")
        disk.mend()
        since = time.monotonic()
        os.kill(pid, signal.SIGHUP)
        wait_for(lambda: log.exists() and "config_reloaded" in log.read_text(), what="it logs")
        assert [] == codes()
    finally:
        sandbox.handoff("down")
    record_property("figure", f"{error}: back after {time.monotonic() - since:.1f} s")


# Two small disks where the project and our state are; transcripts are on another one.
DISKS = """
for place in code .local; do
    mkdir -p "$HOME/$place" && mount -t tmpfs -o size=2m,mode=700 disk "$HOME/$place" || exit
done
mkdir -p "$HOME/code/shop" && touch "$HOME/code/shop/pyproject.toml" "$1/ready" && exec sleep 300
"""


@pytest.fixture
def small_disks(sandbox, tmp_path):
    """The process id of a program in the disks' mount namespace."""
    if os.geteuid() or shutil.which("nsenter") is None:
        pytest.skip("mounts a disk of its own, which only root may do: run the tests as root")
    words = ["unshare", "-m", "sh", "-c", DISKS, "sh", str(tmp_path)]
    holder = subprocess.Popen(words, env=sandbox.environment)
    wait_for((tmp_path / "ready").exists, what="there are small disks")
    yield holder.pid
    sandbox.kill()
    holder.kill()
    holder.wait()


@pytest.mark.parametrize("fault", some(["full", "read-only"], "full"))
def test_a_real_disk(sandbox, small_disks, fault, record_property):
    """On a really full or read-only disk no file is torn, and the fault is reported.

    The daemon recovers.
    """
    inside = ["nsenter", "-t", str(small_disks), "-m"]
    project = sandbox.home / "code/shop"
    # As it is seen from in there.
    seen = Path(f"/proc/{small_disks}/root{project}")
    run = partial(subprocess.run, env=sandbox.environment, cwd="/", text=True)
    sandbox.transcripts.mkdir(parents=True)
    with sandbox.log.open("ab") as stream:
        words = [*inside, sys.executable, "-P", "-m", "handoffd", "run"]
        sandbox.process = subprocess.Popen(
            words, env=sandbox.environment, cwd="/", stdout=stream, stderr=stream
        )
    wait_for(sandbox.answers)
    session = sandbox.session(project)
    session.prompt("Begin with the first of the two")
    wait_for(lambda: "first of the two" in sandbox.yaml(seen))
    before = sandbox.yaml(seen)
    ballast = [seen / "ballast", seen.parents[1] / ".local/ballast"]
    if fault == "full":
        for path in ballast:
            fill(path)
    else:
        run([*inside, "mount", "-o", "remount,ro", str(project.parent)], check=True)
    session.prompt("And now for the second of the two")
    wait_for(lambda: "_failed" in str(sandbox.request("status")["result"]["warnings"]), what="said")
    save = f'cd "{project}" && exec "{BIN}/handoff" save --hypothesis x'
    saved = run([*inside, "sh", "-c", save], capture_output=True, check=False)
    assert (1, before) == (saved.returncode, sandbox.yaml(seen))
    assert REMEDY.search(saved.stderr)
    sandbox.alive()
    if fault == "full":
        for path in ballast:
            path.unlink()
    else:
        run([*inside, "mount", "-o", "remount,rw", str(project.parent)], check=True)
    since = time.monotonic()
    wait_for(lambda: "second of the two" in sandbox.yaml(seen), 65, "it recovers by itself")
    record_property("figure", f"really {fault}: back after {time.monotonic() - since:.1f} s")


def fill(path):
    with path.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(b"x" * 4096)


def give_up_power():
    """Drop every capability, so that the next program obeys permissions even as root."""
    libc = ctypes.CDLL(None)
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.long
def test_a_directory_of_another_user(sandbox, record_property):
    """Another user's directory is left alone and reported.

    It is retried slowly, and written in the end.
    """
    if os.geteuid():
        pytest.skip(
            "gives a directory to another user, which only root may do: run the tests as root"
        )
    project = sandbox.project(git=False)
    (project / "pyproject.toml").touch()
    directory = project / ".flow-guardian"
    directory.mkdir(mode=0o700)
    kept = directory / "handoff.yaml"
    kept.write_text("goal: kept\nstatus: in_progress\nnow: kept\n")
    sandbox.transcripts.mkdir(parents=True)
    sandbox.session(project).prompt("Begin with the first of the two")
    os.chown(directory, 65534, 65534)
    sandbox.process = sandbox.spawn(preexec_fn=give_up_power)
    wait_for(sandbox.answers)
    wait_for(lambda: "write_failed" in str(sandbox.request("status")["result"]["warnings"]))
    tried = sandbox.log.read_text().count("write_failed")
    time.sleep(10)
    tries = sandbox.log.read_text().count("write_failed") - tried
    assert "goal: kept" in kept.read_text()
    assert 1 <= tries <= 4, "again after 1, 2, 4 and 8 seconds"
    os.chown(directory, 0, 0)
    since = time.monotonic()
    wait_for(lambda: "first of the two" in kept.read_text(), 65, "it recovers by itself")
    record_property("figure", f"{tries} tries in 10 s; back after {time.monotonic() - since:.1f} s")
