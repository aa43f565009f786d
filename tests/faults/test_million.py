"""Very many records: memory, descriptors and threads stay as they are."""

import time
import uuid

import pytest

from conftest import timestamp, wait_for
from proc import descriptors, memory_bytes, threads

SESSIONS = 10
GROWTH_MOST_BYTES = 5e6
_LINE = (
    '{"parentUuid":"%s","isSidechain":false,"type":"assistant","uuid":"%s","timestamp":"%s",'
    '"sessionId":"%s","cwd":"%s","version":"2.1.325","gitBranch":"main","entrypoint":"cli",'
    '"message":{"role":"assistant","id":"msg_1","content":[{"type":"text","text":"Step %d is done."}]}}\n'
)


def grow(session, number):
    """Append so many small records to a session, in one write."""
    now, parent, lines = timestamp(), session.parent, []
    for step in range(number):
        name = f"{session.written + step:08x}{session.base}"
        lines.append(_LINE % (parent, name, now, session.id, session.cwd, step))
        parent = name
    session.raw("".join(lines).encode())
    session.parent, session.written = parent, session.written + number


def open_session(sandbox, number):
    session = sandbox.session(sandbox.project(f"shop{number}"))
    session.prompt(f"Count the lines of cart {number} correctly")
    session.base, session.parent = str(uuid.uuid4())[8:], ""
    session.written = 0
    return session


@pytest.mark.parametrize(
    "records", [40_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])]
)
def test_million_records(live, records, record_property):
    """A million records are all counted, once, and use no more memory than the first tenth."""
    sessions = [open_session(live, number) for number in range(SESSIONS)]
    pid, part = live.process.pid, records // 100

    def feed(share):
        for session in sessions:
            grow(session, part * share // SESSIONS)
        written = sum(session.written + 1 for session in sessions)
        wait_for(lambda: live.call("status")["records"] == written, 120)

    def weigh():
        return memory_bytes(pid)[0], descriptors(pid), threads(pid)

    started = time.monotonic()
    for _ in range(10):
        feed(1)
    resident, held, running = weigh()
    for _ in range(9):
        feed(10)
    took = time.monotonic() - started
    counted = {s["session_id"]: s["records"] for s in live.call("sessions")["sessions"]}
    # Memory used for reading is given back every half minute.
    wait_for(lambda: memory_bytes(pid)[0] - resident <= GROWTH_MOST_BYTES, 60)
    grown, now_held, now_running = (
        b - a for a, b in zip((resident, held, running), weigh(), strict=True)
    )
    for session in sessions:
        session.path.unlink()

    assert {session.id: session.written + 1 for session in sessions} == counted
    assert now_held <= 2
    assert now_running <= 2
    told = f"{records} records in {took:.0f} s: {grown / 1e6:+.1f} MB after the first tenth"
    record_property("figure", f"{told}, {now_held:+d} descriptors, {now_running:+d} threads")


@pytest.mark.parametrize(
    ("sessions", "most_bytes"),
    [
        (1_000, 55e6),
        pytest.param(10_000, 64e6, marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
)
def test_many_sessions(sandbox, sessions, most_bytes, record_property):
    """Right after many sessions were read, and while they are known, memory is as promised."""
    projects = [sandbox.project(f"shop{number}") for number in range(20)]
    for number in range(sessions):
        session = sandbox.session(projects[number % len(projects)])
        words = {"role": "user", "content": f"Count the lines of cart {number} correctly"}
        said = {
            "role": "assistant",
            "id": "m",
            "content": [{"type": "text", "text": "Done. " * 99}],
        }
        session.raw(session.line("user", message=words) + session.line("assistant", message=said))
    sandbox.start()
    pid = sandbox.process.pid
    wait_for(lambda: sandbox.settled() and len(sandbox.call("sessions", limit=1)["sessions"]), 300)
    after = memory_bytes(pid)[0]
    # Two rounds of housekeeping and every scheduled job later.
    until = time.monotonic() + 70 * (sessions > 1_000)
    most = after
    while time.monotonic() < until:
        most = max(most, memory_bytes(pid)[0])
        time.sleep(0.5)

    assert most <= most_bytes
    record_property(
        "figure", f"{sessions:,} sessions: {after / 1e6:.1f} MB at once, {most / 1e6:.1f} MB"
    )
