"""Disks that do not report the changes of others, and disks that go away."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import REPOSITORY, DaemonSandbox, allowed, wait_for

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="uses mount namespaces, which only Linux has"
)


def separate(sandbox: DaemonSandbox, *command: str) -> None:
    """Give the daemon mounts of its own."""
    sandbox.wrapper = ["unshare", "-m" if os.getuid() == 0 else "-Urm", *command]
    done = subprocess.run(
        [*sandbox.wrapper, "true"], check=False, capture_output=True, timeout=30, text=True
    )
    if done.returncode:
        pytest.skip(
            f"no mount namespaces here, run the tests as root: {done.stderr.splitlines()[-1:]}"
        )


@pytest.mark.long
def test_remote_disk(sandbox, record_property):
    """A rescan finds the lines that another machine writes on a network disk without a watch."""
    there = sandbox.home / "server/projects"
    there.mkdir(parents=True)
    sandbox.transcripts.mkdir(parents=True)
    program = str(REPOSITORY / "tests/remote_disk.py")
    separate(sandbox, sys.executable, program, str(there), str(sandbox.transcripts))
    sandbox.start()
    project = sandbox.project()
    session = sandbox.session(project)
    os.rename(session.path.parent, there / session.path.parent.name)
    session.path = there / session.path.parent.name / session.path.name
    times = []
    for number in range(6):
        session.prompt(f"Request {number} from another machine")
        began = time.monotonic()
        wait_for(lambda n=number: sandbox.call("status")["records"] == n + 1)
        times.append(time.monotonic() - began)
    status = sandbox.call("status")
    first, *others = times

    assert status["watched"] >= 2, "it is watched, too: for what this machine writes"
    assert first < 4 * status["rescan_seconds"]
    assert max(others) < 8.0, "looked for every 2 s where work goes on"
    assert max(times) > 1.0, "no event came"
    assert 0 == status["skipped"]["transcripts"]
    record_property(
        "figure", f"the first after {first:.1f} s, 5 more after {max(others):.1f} s at the most"
    )


def server_of(sandbox: DaemonSandbox) -> int:
    """Return the process that serves the disk: a child of the daemon."""
    pid = sandbox.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.mark.long
@pytest.mark.parametrize("what", ["project", "transcripts"])
def test_disk_that_does_not_answer(sandbox, what, record_property):
    """A dead server's disk delays only the files on it; it is named, and read again later."""
    sandbox.transcripts.mkdir(parents=True)
    there, place = sandbox.home / "server", sandbox.home / "net"
    (there / "shop").mkdir(parents=True)
    (there / "projects").mkdir()
    place.mkdir()
    program = str(REPOSITORY / "tests/remote_disk.py")
    separate(sandbox, sys.executable, program, str(there), str(place))
    if what == "transcripts":
        config = sandbox.home / ".config/handoffd/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'[claude]\nconfig_dirs = ["{place}"]\n')
    sandbox.start()
    other = sandbox.project("other")
    project = place / "shop" if what == "project" else sandbox.project("shop")
    near, far = sandbox.session(other), sandbox.session(project)
    if what == "transcripts":
        far.path = there / "projects" / far.path.parent.name / far.path.name
        far.path.parent.mkdir()
    near.prompt("Work on the disk of this machine")
    far.prompt("Work on the disk of another machine")
    wait_for(lambda: sandbox.call("status")["records"] == 2)
    wait_for(lambda: "Work on the disk of this" in sandbox.yaml(other))
    server, rescans = server_of(sandbox), sandbox.call("status")["rescans"]
    wait_for(lambda: sandbox.call("status")["rescans"] > rescans)
    # If the disk hung in the middle of a look, the daemon would hang with it: its first question
    # was answered.
    looked = time.monotonic()
    wait_for(lambda: time.monotonic() - looked > 1)
    os.kill(server, signal.SIGSTOP)
    began, most, answers = time.monotonic(), 0.0, 0
    far.say("Nobody can know of this yet.")
    near.say("This is seen at once.")
    # For longer than the time between two rescans, two looks at clients, and two checkpoints.
    while time.monotonic() - began < 8:
        asked = time.monotonic()
        status = sandbox.request("status")["result"]
        most, answers = max(most, time.monotonic() - asked), answers + 1
        if answers % 20 == 0:
            near.say(f"Still at work, {answers} answers later.")
        time.sleep(0.05)
    wait_for(lambda: f"{answers // 20 * 20} answers later" in sandbox.yaml(other))
    shown = sandbox.request("show", cwd=str(project))
    silent = [item["text"] for item in status["warnings"] if item["code"] == "disk_silent"]
    os.kill(server, signal.SIGCONT)
    wait_for(lambda: "result" in sandbox.request("show", cwd=str(project)))
    wait_for(lambda: "Nobody can know of this yet." in sandbox.document(project)["now"])

    assert [True] == [str(place) in text for text in silent]
    assert most < allowed(5.0), "the loop never hung"
    assert ("error" in shown) == (what == "project")
    assert not [w for w in sandbox.request("status")["result"]["warnings"] if "disk" in w["code"]]
    record_property("figure", f"{what}: {answers} answers in 8 s, the slowest {most * 1000:.0f} ms")


@pytest.mark.parametrize(
    "marker", ["on the disk", pytest.param("above it", marks=pytest.mark.long)]
)
def test_disk_of_a_project_goes_away(sandbox, marker, record_property):
    """A project whose disk is unmounted loses nothing: no file is written, no value forgotten."""
    sandbox.transcripts.mkdir(parents=True)
    disk = sandbox.home / "code"
    disk.mkdir()
    project = disk if marker == "on the disk" else disk / "shop"
    separate(sandbox)
    sandbox.wrapper += ["sh", "-c", f'mount -t tmpfs none {disk} && exec "$@"', "sh"]
    sandbox.start()
    inside = [] if os.getuid() == 0 else ["--preserve-credentials", "-U"]
    enter = ["nsenter", *inside, "-m", "-t", str(sandbox.process.pid), "sh", "-c"]

    def run(script: str) -> str:
        done = subprocess.run([*enter, script], check=True, capture_output=True, text=True)
        return done.stdout

    run(f"mkdir -p {project}/.flow-guardian")
    session = sandbox.session(project)
    session.prompt("Rework the tax of the invoices")
    document = f"{project}/.flow-guardian/handoff.yaml"
    wait_for(lambda: "Rework the tax" in run(f"cat {document} 2>/dev/null || true"))
    sandbox.call("save", cwd=str(project), goal="The tax as the law has it")
    wait_for(lambda: "as the law has it" in run(f"cat {document}"))
    before = run(f"cat {document}")
    # The disk is moved away as a whole, so its files stay on it.
    run(f"mount --move {disk} $(mktemp -d {sandbox.runtime}/disk.XXXX)")
    session.say("The disk is gone.")
    wait_for(lambda: "The disk is gone." in sandbox.document(project)["now"])
    rescans = sandbox.call("status")["rescans"]
    wait_for(lambda: sandbox.call("status")["rescans"] > rescans)
    left = run(f"ls -A {disk}")
    shown = sandbox.document(project)["goal"]
    run(f"mount --move {sandbox.runtime}/disk.* {disk}")
    back = run(f"cat {document}")
    session.say("It is back again.")
    wait_for(lambda: "It is back again." in run(f"cat {document}"))

    assert ("", before) == (left, back)
    assert "The tax as the law has it" == shown
    assert "goal: The tax as the law has it" in run(f"cat {document}")
    assert 1 == sandbox.call("status")["sessions"]
    record_property("figure", f"marker {marker}: nothing written, nothing forgotten")
