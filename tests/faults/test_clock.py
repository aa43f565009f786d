"""A machine that slept, a clock that was set: all due work is done once, and in order."""

import glob
import os
import sys
import time
import uuid
from datetime import UTC, datetime

import pytest
import yaml

from conftest import DaemonSandbox, Session, allowed, timestamp, wait_for
from daemon_costs import processor_seconds

HOUR, DAY = 3600.0, 24 * 3600.0
LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), "")
# The time since the start of the machine goes on while it sleeps, and is not set with the clock.
SITE = """
import os, select, time

real = time.clock_gettime

def clock_gettime(clock):
    with open(os.environ["SLEPT_FILE"]) as stream:
        return real(clock) + (float(stream.read() or 0) if clock == time.CLOCK_BOOTTIME else 0.0)

time.clock_gettime = clock_gettime
# libfaketime makes an absolute time of it, of the wrong clock.
time.sleep = lambda seconds: select.select([], [], [], seconds)
"""

pytestmark = [
    pytest.mark.skipif(
        not LIBRARY and not os.environ.get("CI"),
        reason="libfaketime is missing: install it (Debian: apt-get install faketime)",
    ),
    pytest.mark.skipif(
        sys.platform != "linux",
        reason="sets the clock by libfaketime, which these tests use on Linux only",
    ),
]


class Clock:
    """The clock of a daemon: it can be set, and its machine can sleep."""

    def __init__(self, sandbox: DaemonSandbox):
        self.offset = self.slept = 0.0
        self._wall, self._boot = (sandbox.home.parent / name for name in ("wall", "boot"))
        self._tell()
        site = sandbox.home.parent / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE)
        sandbox.environment |= {
            "LD_PRELOAD": LIBRARY,
            "FAKETIME_TIMESTAMP_FILE": str(self._wall),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            "SLEPT_FILE": str(self._boot),
            "PYTHONPATH": str(site),
            # So that it looks at the clock every second, and not twice a minute.
            "WATCHDOG_USEC": "2000000",
        }

    def _tell(self) -> None:
        for path, text in ((self._wall, f"{self.offset:+f}"), (self._boot, f"{self.slept}")):
            path.with_suffix(".new").write_text(text)
            os.replace(path.with_suffix(".new"), path)

    def set(self, seconds: float) -> None:
        self.offset += seconds
        self._tell()

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.set(seconds)

    def now(self) -> str:
        return timestamp(-self.offset)


@pytest.fixture
def clock(sandbox) -> Clock:
    """The clock of the daemon that a test starts."""
    return Clock(sandbox)


def work(session: Session, clock: Clock, text: str) -> None:
    """Do work that deserves a handoff; each record names the one before it, as the client's do."""

    def chained() -> dict:
        before = getattr(session, "last", None)
        session.last = str(uuid.uuid4())
        return {"timestamp": clock.now(), "parentUuid": before, "uuid": session.last}

    session.prompt(f"Rework the tax: {text}", **chained())
    session.edit(f"{session.cwd}/tax.py", **chained())
    session.say(f"It is done: {text}.", **chained())
    os.utime(session.path, (time.time() + clock.offset,) * 2)


def idle(sandbox: DaemonSandbox) -> int:
    return sum(item["trigger"] == "idle" for item in sandbox.call("triggers", all=True)["triggers"])


def some_looks(sandbox: DaemonSandbox) -> str:
    """Wait for two rescans, neither late nor in a storm; return their duration and their cost."""
    pid = sandbox.process.pid
    before, used, began = (
        sandbox.call("status")["rescans"],
        processor_seconds(pid),
        time.monotonic(),
    )
    wait_for(lambda: time.sleep(0.2) or sandbox.call("status")["rescans"] >= before + 2, 60)
    took = time.monotonic() - began
    share = (processor_seconds(pid) - used) / took
    assert took > 2.5, "a storm"
    return f"2 rescans in {took:.1f} s, {share:.1%} of a core"


def begin(sandbox: DaemonSandbox, clock: Clock) -> Session:
    """Start a daemon under this clock, with a session at work."""
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    session = sandbox.session(sandbox.project())
    work(session, clock, "first part")
    wait_for(lambda: sandbox.call("status")["records"] == 3)
    return session


@pytest.mark.long
def test_two_hours_asleep(sandbox, clock, record_property):
    """After two hours of sleep the session is idle once; the hours count as one silence."""
    session = begin(sandbox, clock)
    clock.sleep(2 * HOUR)
    began = time.monotonic()
    wait_for(lambda: idle(sandbox) and sandbox.call("status")["handoffs"], 60)
    woke = time.monotonic() - began
    work(session, clock, "second part")
    wait_for(lambda: sandbox.call("status")["records"] == 6)
    looks = some_looks(sandbox)
    assert 1 == idle(sandbox), "it was just heard"
    clock.sleep(2 * HOUR)
    wait_for(lambda: idle(sandbox) == 2, 60)

    assert woke < allowed(30)
    record_property("figure", f"idle once, {woke:.1f} s after each sleep; then {looks}")


@pytest.mark.parametrize("days", [-1, pytest.param(1, marks=pytest.mark.long)])
def test_clock_is_set(sandbox, clock, days, record_property):
    """With the clock set by a day everything goes on, in the order in which it happened."""
    session = begin(sandbox, clock)
    project = session.cwd
    thread = sandbox.call("thread", action="create", title="Tax", content="before")["id"]
    clock.set(days * DAY)
    looks = some_looks(sandbox)
    sandbox.call(
        "thread", action="add", id=thread, as_client="code", type="question", content="after"
    )
    work(session, clock, "second part")
    wait_for(lambda: "second part" in sandbox.document(project)["now"])
    assert 6 == sandbox.call("status")["records"]
    other = Session(session.path.parent, project)
    work(other, clock, "by another session")
    wait_for(lambda: other.id == sandbox.document(project)["session_id"])
    wait_for(lambda: "another session" in sandbox.yaml(sandbox.home / "code/shop"))

    assert 0 == idle(sandbox), "nobody was silent"
    said = sandbox.call("thread", action="get", id=thread)["result"]["entries"]
    assert ["before", "after"] == [entry["content"] for entry in said][-2:]
    record_property("figure", f"{days:+d} day: {looks}; 9 of 9 records, the last session is shown")


@pytest.mark.long
@pytest.mark.parametrize("moment", ["2026-03-29T01:00:00", "2026-10-25T01:00:00"])
def test_summer_time(sandbox, clock, moment, record_property):
    """While an hour is skipped or repeated, jobs run as usual, and stored times are UTC."""
    sandbox.environment["TZ"] = "Europe/Berlin"
    clock.set(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() - time.time() - 4)
    session = begin(sandbox, clock)
    looks = some_looks(sandbox)
    work(session, clock, "second part")
    wait_for(lambda: "second part" in sandbox.yaml(sandbox.home / "code/shop"))
    written = yaml.safe_load(sandbox.yaml(sandbox.home / "code/shop"))["timestamp"]

    assert moment[:14] == str(written)[:14], "an hour later it would be local time"
    assert str(written).endswith("Z")
    assert 0 == idle(sandbox)
    record_property("figure", f"{moment[:10]}: {looks}; times in UTC")
