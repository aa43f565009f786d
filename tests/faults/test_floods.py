"""More to read than can be read at once: no client waits for it, and memory does not grow."""

import os
import shutil
import sys
import time
import uuid

import pytest

from bulk import MEGABYTE, block, hook
from conftest import allowed, wait_for
from daemon_costs import Asking, forget_the_most, megabytes, milliseconds, processor_seconds

WEEK_SECONDS = 7 * 24 * 3600.0

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="looks into /proc, which only Linux has"
)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("seconds", [1, pytest.param(6, marks=pytest.mark.long)])
def test_ten_growing_at_once(live, seconds, record_property):
    """Ten transcripts that grow by 5 MB per second each are read in time, in flat memory."""
    project = live.project()
    data = block(str(project), 5 * seconds * MEGABYTE)
    sessions = [live.session(project) for _ in range(10)]
    step, pid = len(data) // (20 * seconds) + 1, live.process.pid
    for session in sessions:
        session.raw(data[:step])
    wait_for(live.settled)
    before, used = megabytes(pid), processor_seconds(pid)
    forget_the_most(pid)
    with Asking(live) as asking:
        began = time.monotonic()
        for number in range(1, 20 * seconds):
            for session in sessions:
                session.raw(data[number * step : (number + 1) * step])
            time.sleep(max(began + number / 20 - time.monotonic(), 0.0))
        ended = time.monotonic()
        wait_for(live.settled, 100)
    behind = time.monotonic() - ended
    grown, used = megabytes(pid, "VmHWM") - before, processor_seconds(pid) - used
    written = 10 * (len(data) - step) / MEGABYTE

    assert 10 * data.count(b"\n") == live.call("status")["records"], "none lost, none twice"
    assert grown < 40
    record_property(
        "figure",
        f"{written / (ended - began):.0f} MB/s for {seconds} s: behind by {behind:.1f} s at the "
        f"end, {written / used:.0f} MB a processor second, {asking.told()}, {grown:+.0f} MB",
    )


@pytest.mark.timeout(400)
@pytest.mark.parametrize("size", [40, pytest.param(1024, marks=pytest.mark.long)])
def test_first_start_on_old_transcripts(sandbox, size, record_property):
    """The first start answers at once while it reads a gigabyte of old transcripts."""
    old = time.time() - WEEK_SECONDS
    for number in range(size // 40):
        project = sandbox.project(f"p{number}", git=False)
        sample = sandbox.session(project)
        sample.raw(block(str(project), 4 * MEGABYTE, WEEK_SECONDS))
        for _ in range(9):
            shutil.copyfile(sample.path, sample.path.with_stem(str(uuid.uuid4())))
        for path in sample.path.parent.iterdir():
            os.utime(path, (old, old))
    now = sandbox.project("now", git=False)
    (now / ".flow-guardian").mkdir()
    sandbox.session(now).prompt("Work while old transcripts are read")
    began = time.monotonic()
    sandbox.start()
    ready = time.monotonic() - began
    pid = sandbox.process.pid
    asked = hook(now, sandbox.session(now).id)
    with Asking(sandbox) as asking, Asking(sandbox, "hook", **asked) as hooks:
        fresh = sandbox.session(now)
        fresh.prompt("What is new comes before what is old")
        wait_for(lambda: "before what is old" in sandbox.document(now)["now"])
        seen = time.monotonic() - began - ready
        wait_for(lambda: time.sleep(0.1) or sandbox.settled(), 250)
    used = processor_seconds(pid)

    assert ready < allowed(10)
    assert size // 40 * 10 + 2 == sandbox.call("status")["sessions"]
    assert megabytes(pid, "VmHWM") < 100
    record_property(
        "figure",
        f"{size} MB: ready after {ready:.1f} s, a new session seen after {seen:.1f} s, "
        f"{size / used:.0f} MB a processor second, {asking.told()}, hooks p99 {milliseconds(hooks.seconds, 0.99)} ms, "
        f"{megabytes(pid, 'VmHWM'):.0f} MB at the most",
    )
