"""A watch is only a hint: if it fails in any way, the next rescan finds everything."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import House, Session, allowed, wait_for

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


def limited(house: House, name: str, limit: int) -> House:
    """Start the daemon in a user namespace of its own, with a limit on its watches."""
    house.wrapper = ["unshare", "-Ur"]
    if subprocess.run([*house.wrapper, "true"], check=False, capture_output=True).returncode:
        pytest.skip(
            "no user namespaces here: allow them (sysctl kernel.unprivileged_userns_clone=1), or run as root"
        )
    house.wrapper += [
        "sh", "-c", f'echo {limit} >/proc/sys/user/max_inotify_{name} && exec "$@"', "sh",
    ]  # fmt: skip
    return house.start()


def warning(house: House) -> str:
    found = house.request("status")["result"]["warnings"]
    return " ".join(item["text"] for item in found if item["code"] == "watch_degraded")


def seen(house: House, wanted: int) -> float:
    """Wait until so many records are known, and return the time it took."""
    began = time.monotonic()
    wait_for(lambda: house.call("status")["records"] == wanted, 70, f"{wanted} records")
    return time.monotonic() - began


def latencies(house: House, session: Session, times: int) -> list[float]:
    """Append records one by one, and return the time until each was known."""
    found = []
    known = house.call("status")["records"]
    for number in range(times):
        session.say(f"Step {number} is done.")
        found.append(seen(house, known + number + 1))
    return found


def overflowed(house: House, record_property, what: str, write, is_known) -> None:
    """Write while the daemon stands still, then let it go on, and see that it knows all of it."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    house.process.send_signal(signal.SIGSTOP)
    written = write(limit)
    house.process.send_signal(signal.SIGCONT)
    began = time.monotonic()
    wait_for(lambda: is_known(house.call("status"), written), 60)
    took = time.monotonic() - began

    assert 1 == house.call("status")["overflows"]
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
def test_too_few_watches(house, record_property):
    """With 50 watches for 200 directories all is seen by the rescan, and the limit is named."""
    house.transcripts.mkdir(parents=True)
    sessions = [house.session(house.project(f"p{n}", git=False)) for n in range(200)]
    for session in sessions:
        session.prompt("Make the first part of it")
    limited(house, "watches", 50)
    seen(house, 200)
    for session in sessions:
        session.prompt("And then the other part of it")
    took = seen(house, 400)

    assert 50 >= house.call("status")["watched"] > 20
    assert "user.max_inotify_watches (50)" in warning(house)
    assert house.call("status")["rescan_seconds"] < 10
    record_property("figure", f"200 of 200 changes seen after {took:.1f} s")


@pytest.mark.long
def test_no_instances(house, record_property):
    """Without inotify the daemon polls and says so; once there is some, it watches again."""
    house.transcripts.mkdir(parents=True)
    limited(house, "instances", 0)
    session = house.session(house.project())
    session.prompt("Work without any watch")
    took = seen(house, 1)
    said, watched = warning(house), house.call("status")["watched"]
    raising = "echo 100 >/proc/sys/user/max_inotify_instances"
    subprocess.run(
        ["nsenter", "--preserve-credentials", "-U", "-t", str(house.process.pid), "sh", "-c", raising],
        check=True,
    )  # fmt: skip
    wait_for(lambda: house.call("status")["watched"])

    assert "user.max_inotify_instances (0)" in said
    assert 0 == watched
    assert "" == warning(house)
    record_property("figure", f"seen after {took:.1f} s; watching again once it may")


def test_dead_thread(house, record_property):
    """A reading thread that has died is replaced within seconds, and nothing is missed."""
    site = house.home.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    house.environment["PYTHONPATH"] = str(site)
    house.transcripts.mkdir(parents=True)
    house.start()
    session = house.session(house.project())
    session.prompt("Work while the watch is well")
    seen(house, 1)
    house.process.send_signal(signal.SIGUSR1)
    began = time.monotonic()
    # It ends with the next event that it reads.
    wait_for(lambda: session.say("Hello?") or "watch_lost" in house.log.read_text(), 30)
    noticed = time.monotonic() - began
    seen(house, len(session.path.read_bytes().splitlines()))
    most = max(latencies(house, session, 5))

    assert most < allowed(2.5), "it is watched again"
    record_property(
        "figure", f"noticed after {noticed:.1f} s, missing 0, then {most * 1000:.0f} ms a record"
    )


@pytest.mark.long
def test_root_comes_and_goes(house, record_property):
    """A root that is missing, deleted, made anew, renamed away and back is read each time."""
    house.start()
    project = house.project()
    times, known = {}, 0
    session = house.session(project)
    for event in ("made", "deleted", "renamed"):
        if event == "deleted":
            subprocess.run(["rm", "-r", str(house.transcripts)], check=True)
            wait_for(lambda: not house.call("status")["roots"][0]["exists"])
            session = house.session(project)
        if event == "renamed":
            away = house.transcripts.with_name("away")
            os.rename(house.transcripts, away)
            rescans = house.call("status")["rescans"]
            wait_for(lambda before=rescans: house.call("status")["rescans"] > before + 1)
            os.rename(away, house.transcripts)
        session.prompt(f"Work after the root was {event}")
        known += 1
        times[event] = seen(house, known)
        assert max(latencies(house, session, 3)) < allowed(2.5)
        known += 3

    assert known == house.call("status")["records"]
    record_property("figure", ", ".join(f"{e}: {t:.1f} s" for e, t in times.items()))


@pytest.mark.parametrize("link", [".claude/projects", ".claude"])
def test_through_a_symlink(house, link, record_property):
    """Where the root, or a directory above it, is a symlink, every event arrives."""
    real = house.home / "elsewhere"
    (real / "projects").mkdir(parents=True)
    (house.home / link).parent.mkdir(exist_ok=True)
    (house.home / link).symlink_to(real)
    house.start()
    session = house.session(house.project())
    session.prompt("Through the symlink it comes")
    seen(house, 1)
    found = sorted(latencies(house, session, 100))

    assert found[95] < allowed(1.0)
    record_property("figure", f"{link}: p95 {found[95] * 1000:.0f} ms of 100")
