"""A line too large for memory is skipped and counted, and no client waits for it."""

import sys

import pytest

from conftest import wait_for
from daemon_costs import Asking, forget_the_most, megabytes

MEGABYTE = 1 << 20

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="looks into /proc, which only Linux has"
)


def write_line(path, size_bytes: int) -> None:
    """Append one line of this size, a megabyte at a time."""
    with path.open("ab") as stream:
        stream.write(b'{"type":"user","message":{"role":"user","content":"')
        for _ in range(size_bytes // MEGABYTE):
            stream.write(b"x" * MEGABYTE)
        stream.write(b'"}}\n')


@pytest.mark.parametrize("size", [100, pytest.param(734, marks=pytest.mark.long)])
def test_one_very_long_line(live, size, record_property):
    """One line of hundreds of megabytes costs little memory, and is counted as skipped."""
    project = live.project()
    session = live.session(project)
    session.prompt("Read the very large picture")
    wait_for(lambda: live.call("status")["records"] == 1)
    pid = live.process.pid
    before = megabytes(pid)
    forget_the_most(pid)
    with Asking(live) as asking:
        write_line(session.path, size * MEGABYTE)
        session.say("It was too large.")
        wait_for(lambda: "It was too large." in live.document(project)["now"], 60)
    grown = megabytes(pid, "VmHWM") - before

    assert 1 == live.call("status")["skipped"]["oversized_lines"]
    assert 2 == live.call("status")["records"]
    assert grown <= 32
    record_property("figure", f"{size} MB: {grown:+.0f} MB at the most, {asking.told()}")


def test_line_just_below_the_limit(live, record_property):
    """Lines that are just not too long are read, in bounded memory, one after the other."""
    project = live.project()
    pid = live.process.pid
    before = megabytes(pid)
    forget_the_most(pid)
    for number in range(6):
        session = live.session(project)
        text = f"Look at picture {number}: " + "x" * (8 * MEGABYTE - 1000)
        session.raw(session.line("user", message={"role": "user", "content": text})[:-1])
    wait_for(lambda: live.call("status")["transcripts"] == 6)
    for path in session.path.parent.iterdir():
        with path.open("ab") as stream:
            stream.write(b"\n")
    wait_for(lambda: live.call("status")["records"] == 6)
    grown = megabytes(pid, "VmHWM") - before

    assert 0 == live.call("status")["skipped"]["oversized_lines"]
    assert grown <= 100
    record_property("figure", f"6 of 8 MB: {grown:+.0f} MB at the most")
