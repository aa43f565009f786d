"""After the work no write of the daemon makes it write or read again."""

import json
import time
from pathlib import Path

import pytest

from conductor_projects import run_after
from conftest import wait_for
from mcp_socket_client import Mcp
from proc import cpu_seconds, switches

PROJECTS = 2
# After so long without a write no delayed work is left.
SETTLED_SECONDS = 5.0
MINUTE = 60
# The log of core.db is emptied once per minute; here that must not fall into the few seconds.
LATER = "import handoffd.app\nhandoffd.app.CORE_LOOK_SECONDS = 3600"


def traffic(pid):
    """Return the number of writes and reads of a process, without those of sockets."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    counted = dict(line.split(": ") for line in lines)
    return int(counted["syscw"]), int(counted["syscr"])


def work(sandbox, number):
    """Do in a project everything that makes the daemon write into it, and end."""
    project = sandbox.project(f"shop{number}")
    session = sandbox.session(project)
    session.prompt(f"Count the lines of cart {number} correctly")
    session.edit(f"{project}/cart.py")
    wait_for(lambda: f"cart {number}" in sandbox.yaml(project))
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(path.read_text() + "mine: a word of my own\n")
    sandbox.git(project, "commit", "-q", "--allow-empty", "-m", "Count")
    session.say("All of it is counted.")
    wait_for(lambda: "mine" in sandbox.yaml(project))
    hook = {"hook_event_name": "SessionEnd", "session_id": session.id, "reason": "other"}
    sandbox.call("hook", cwd=str(project), hook=json.dumps(hook))
    return project


def settle(sandbox):
    """Wait until nothing has been written for a while."""
    seen = [(traffic(sandbox.process.pid)[0], time.monotonic())]

    def is_quiet():
        written, now = traffic(sandbox.process.pid)[0], time.monotonic()
        if written != seen[-1][0]:
            seen.append((written, now))
        return now - seen[-1][1] > SETTLED_SECONDS

    wait_for(is_quiet, 60, "nothing is written any more")


@pytest.mark.parametrize("seconds", [5, pytest.param(MINUTE, marks=pytest.mark.long)])
def test_own_writes_cause_nothing(sandbox, seconds, record_property):
    """After all sessions have ended nothing is written or learned: our own writes cause nothing."""
    sandbox.transcripts.mkdir(parents=True)
    live = run_after(sandbox, LATER if seconds < MINUTE else "").start()
    projects = [work(live, number) for number in range(PROJECTS)]
    with Mcp(live) as connection:
        connection.create("It is counted.")
    wait_for(lambda: live.call("status")["handoffs"] == PROJECTS)
    if seconds >= MINUTE:
        wait_for(lambda: (live.state / "core.db-wal").stat().st_size == 0, 90, "its log is emptied")
    settle(live)
    pid = live.process.pid
    before, stamps = live.call("status"), [_stamp(project) for project in projects]
    (wrote, read), woken, busy = traffic(pid), switches(pid), cpu_seconds(pid)

    time.sleep(seconds)

    wrote, read = traffic(pid)[0] - wrote, traffic(pid)[1] - read
    woken = sum(number - woken.get(task, 0) for task, number in switches(pid).items())
    busy = cpu_seconds(pid) - busy
    after = live.call("status")
    names = ("writes", "handoffs", "track_records", "records", "replaced", "overflows")
    assert {name: before[name] for name in names} == {name: after[name] for name in names}
    assert stamps == [_stamp(project) for project in projects]
    assert 0 == wrote
    assert woken <= seconds * 5  # the promise is one per second; a busy machine adds some
    told = f"{seconds} s: {wrote} writes, {woken / seconds:.1f} wake-ups/s, {read / seconds:.1f}"
    record_property("figure", f"{told} reads/s, processor {busy / seconds:.2%}")


def _stamp(project):
    status = (project / ".flow-guardian/handoff.yaml").stat()
    return status.st_mtime_ns, status.st_ino
