"""Ten thousand projects: all are known, and the cost at rest does not depend on their number."""

import os
import sys
import time

import pytest

from conftest import timestamp, wait_for
from daemon_costs import Asking, handles, megabytes, processor_seconds, threads

WEEK_SECONDS = 7 * 24 * 3600
RECENT = 40

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="looks into /proc, which only Linux has"
)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_projects(sandbox, count, record_property):
    """Every project is found; memory, watches, threads and handles stay few, and so does work."""
    for number in range(count):
        project = sandbox.home / f"code/p{number}"
        (project / ".flow-guardian").mkdir(parents=True)
        session = sandbox.session(project)
        ago = 0 if number < RECENT else WEEK_SECONDS
        session.prompt(f"Make part {number} of it work", timestamp=timestamp(ago))
        os.utime(session.path, (time.time() - ago,) * 2)
    sandbox.start()
    began = time.monotonic()
    with Asking(sandbox) as asking:
        wait_for(lambda: time.sleep(0.2) or sandbox.settled(), 200)
    took = time.monotonic() - began
    wait_for(lambda: sandbox.call("status")["writes"] >= RECENT, 60)
    pid, status = sandbox.process.pid, sandbox.call("status")
    used, began = processor_seconds(pid), time.monotonic()
    time.sleep(3.0 if count < 1000 else 12.0)
    share = (processor_seconds(pid) - used) / (time.monotonic() - began)

    assert (count, count, RECENT) == (status["sessions"], status["records"], status["writes"])
    assert threads(pid) <= 8
    assert handles(pid) <= 24
    assert status["watched"] <= 3 * 64
    assert megabytes(pid) < 55 + count / 200
    assert share < 0.1
    record_property(
        "figure",
        f"{count}: found in {took:.1f} s, {asking.told()}; then {megabytes(pid):.0f} MB, "
        f"{share:.2%} of a core, {status['watched']} watches, {threads(pid)} threads, "
        f"{handles(pid)} handles",
    )
