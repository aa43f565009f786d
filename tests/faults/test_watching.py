"""A watch is only a hint: if it fails in any way, the next rescan finds everything."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import DaemonSandbox, Session, allowed, wait_for

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="is about inotify, which only Linux has"
)
# Ends the thread that reads inotify, as an exception in it would.
SITE = """
import ctypes, signal, threading

def end(*_):
    for thread in threading.enumerate():
        if any(kind.__name__ == "InotifyFD" for kind in type(thread).__mro__):
            number = ctypes.c_ulong(thread.ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(SystemExit))

signal.signal(signal.SIGUSR1, end)
"""


def limited(sandbox: DaemonSandbox, name: str, limit: int) -> DaemonSandbox:
    """Start the daemon in a user namespace of its own, with a limit on its watches."""
    sandbox.wrapper = ["unshare", "-Ur"]
    if subprocess.run([*sandbox.wrapper, "true"], check=False, capture_output=True).returncode:
        pytest.skip(
            "no user namespaces here: allow them (sysctl kernel.unprivileged_userns_clone=1), or run as root"
        )
    sandbox.wrapper += [
        "sh", "-c", f'echo {limit} >/proc/sys/user/max_inotify_{name} && exec "$@"', "sh",
    ]  # fmt: skip
    return sandbox.start()


def warning(sandbox: DaemonSandbox) -> str:
    found = sandbox.request("status")["result"]["warnings"]
    return " ".join(item["text"] for item in found if item["code"] == "watch_degraded")


def seen(sandbox: DaemonSandbox, wanted: int) -> float:
    """Wait until so many records are known, and return the time it took."""
    began = time.monotonic()
    wait_for(lambda: sandbox.call("status")["records"] == wanted, 70, f"{wanted} records")
    return time.monotonic() - began


def latencies(sandbox: DaemonSandbox, session: Session, times: int) -> list[float]:
    """Append records one by one, and return the time until each was known."""
    found = []
    known = sandbox.call("status")["records"]
    for number in range(times):
        session.say(f"Step {number} is done.")
        found.append(seen(sandbox, known + number + 1))
    return found


def overflowed(sandbox: DaemonSandbox, record_property, what: str, write, is_known) -> None:
    """Write while the daemon stands still, then let it go on, and see that it knows all of it."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    sandbox.process.send_signal(signal.SIGSTOP)
    written = write(limit)
    sandbox.process.send_signal(signal.SIGCONT)
    began = time.monotonic()
    wait_for(lambda: is_known(sandbox.call("status"), written), 60)
    took = time.monotonic() - began

    assert 1 == sandbox.call("status")["overflows"]
    record_property("figure", f"{written} {what}: missing 0 after {took:.1f} s")


def test_queue_overflow(live, record_property):
    """More records than the queue holds, and a session begun when it was full: all are read."""
    project = live.project()
    sessions = [live.session(project), live.session(project)]
    for session in sessions:
        session.prompt("So that the directory is watched")
    seen(live, 2)

    def write(limit: int) -> int:
        # In turns, so that the kernel cannot merge the events.
        for number in range(limit // 2 + 100):
            for session in sessions:
                session.prompt(f"Request {number} of very many")
        live.session(project).prompt("Begun when the queue was full")
        return 2 * number + 3

    overflowed(live, record_property, "records", write, lambda s, n: n + 2 == s["records"])
    assert 3 == live.call("status")["sessions"]


@pytest.mark.long
def test_twenty_thousand_transcripts(live, record_property):
    """20,000 transcripts made while the daemon stands still are all known soon after."""
    session = live.session(live.project())
    session.prompt("So that the directory is watched")
    seen(live, 1)

    def write(_limit: int) -> int:
        for number in range(20_000):
            other = Session(session.path.parent, session.cwd)
            other.prompt(f"Request {number} of very many")
        return 20_000

    overflowed(live, record_property, "transcripts", write, lambda s, n: n + 1 == s["transcripts"])


@pytest.mark.long
def test_too_few_watches(sandbox, record_property):
    """With 50 watches for 200 directories all is seen by the rescan, and the limit is named."""
    sandbox.transcripts.mkdir(parents=True)
    sessions = [sandbox.session(sandbox.project(f"p{n}", git=False)) for n in range(200)]
    for session in sessions:
        session.prompt("Make the first part of it")
    limited(sandbox, "watches", 50)
    seen(sandbox, 200)
    for session in sessions:
        session.prompt("And then the other part of it")
    took = seen(sandbox, 400)

    assert 50 >= sandbox.call("status")["watched"] > 20
    assert "user.max_inotify_watches (50)" in warning(sandbox)
    assert sandbox.call("status")["rescan_seconds"] < 10
    record_property("figure", f"200 of 200 changes seen after {took:.1f} s")


@pytest.mark.long
def test_no_instances(sandbox, record_property):
    """Without inotify the daemon polls and says so; once there is some, it watches again."""
    sandbox.transcripts.mkdir(parents=True)
    limited(sandbox, "instances", 0)
    session = sandbox.session(sandbox.project())
    session.prompt("Work without any watch")
    took = seen(sandbox, 1)
    said, watched = warning(sandbox), sandbox.call("status")["watched"]
    raising = "echo 100 >/proc/sys/user/max_inotify_instances"
    subprocess.run(
        ["nsenter", "--preserve-credentials", "-U", "-t", str(sandbox.process.pid), "sh", "-c", raising],
        check=True,
    )  # fmt: skip
    wait_for(lambda: sandbox.call("status")["watched"])

    assert "user.max_inotify_instances (0)" in said
    assert 0 == watched
    assert "" == warning(sandbox)
    record_property("figure", f"seen after {took:.1f} s; watching again once it may")


def test_dead_thread(sandbox, record_property):
    """A reading thread that has died is replaced within seconds, and nothing is missed."""
    site = sandbox.home.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    sandbox.environment["PYTHONPATH"] = str(site)
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    session = sandbox.session(sandbox.project())
    session.prompt("Work while the watch is well")
    seen(sandbox, 1)
    sandbox.process.send_signal(signal.SIGUSR1)
    began = time.monotonic()
    # It ends with the next event that it reads.
    wait_for(lambda: session.say("Hello?") or "watch_lost" in sandbox.log.read_text(), 30)
    noticed = time.monotonic() - began
    seen(sandbox, len(session.path.read_bytes().splitlines()))
    most = max(latencies(sandbox, session, 5))

    assert most < allowed(2.5), "it is watched again"
    record_property(
        "figure", f"noticed after {noticed:.1f} s, missing 0, then {most * 1000:.0f} ms a record"
    )


@pytest.mark.long
def test_root_comes_and_goes(sandbox, record_property):
    """A root that is missing, deleted, made anew, renamed away and back is read each time."""
    sandbox.start()
    project = sandbox.project()
    times, known = {}, 0
    session = sandbox.session(project)
    for event in ("made", "deleted", "renamed"):
        if event == "deleted":
            subprocess.run(["rm", "-r", str(sandbox.transcripts)], check=True)
            wait_for(lambda: not sandbox.call("status")["roots"][0]["exists"])
            session = sandbox.session(project)
        if event == "renamed":
            away = sandbox.transcripts.with_name("away")
            os.rename(sandbox.transcripts, away)
            rescans = sandbox.call("status")["rescans"]
            wait_for(lambda before=rescans: sandbox.call("status")["rescans"] > before + 1)
            os.rename(away, sandbox.transcripts)
        session.prompt(f"Work after the root was {event}")
        known += 1
        times[event] = seen(sandbox, known)
        assert max(latencies(sandbox, session, 3)) < allowed(2.5)
        known += 3

    assert known == sandbox.call("status")["records"]
    record_property("figure", ", ".join(f"{e}: {t:.1f} s" for e, t in times.items()))


@pytest.mark.parametrize("link", [".claude/projects", ".claude"])
def test_through_a_symlink(sandbox, link, record_property):
    """Where the root, or a directory above it, is a symlink, every event arrives."""
    real = sandbox.home / "elsewhere"
    (real / "projects").mkdir(parents=True)
    (sandbox.home / link).parent.mkdir(exist_ok=True)
    (sandbox.home / link).symlink_to(real)
    sandbox.start()
    session = sandbox.session(sandbox.project())
    session.prompt("Through the symlink it comes")
    seen(sandbox, 1)
    found = sorted(latencies(sandbox, session, 100))

    assert found[95] < allowed(1.0)
    record_property("figure", f"{link}: p95 {found[95] * 1000:.0f} ms of 100")
