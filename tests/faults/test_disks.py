"""Disks that tell nothing of what others do, and disks that go away."""

import os
import subprocess
import sys
import time

import pytest

from conftest import REPOSITORY, House, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mount namespaces")


def separate(house: House, *command: str) -> None:
    """Let the daemon have mounts of its own."""
    house.wrapper = ["unshare", "-m" if os.getuid() == 0 else "-Urm", *command]
    done = subprocess.run(
        [*house.wrapper, "true"], check=False, capture_output=True, timeout=30, text=True
    )
    if done.returncode:
        pytest.skip(f"no mounts here: {done.stderr.splitlines()[-1:]}")


@pytest.mark.long
def test_remote_disk(house, record_property):
    """What another machine writes on a network disk, of which no watch tells, a rescan finds."""
    there = house.home / "server/projects"
    there.mkdir(parents=True)
    house.transcripts.mkdir(parents=True)
    program = str(REPOSITORY / "tests/remote_disk.py")
    separate(house, sys.executable, program, str(there), str(house.transcripts))
    house.start()
    project = house.project()
    session = house.session(project)
    os.rename(session.path.parent, there / session.path.parent.name)
    session.path = there / session.path.parent.name / session.path.name
    times = []
    for number in range(2):
        session.prompt(f"Request {number} from another machine")
        began = time.monotonic()
        wait_for(lambda n=number: house.call("status")["records"] == n + 1, 30)
        times.append(time.monotonic() - began)
    status = house.call("status")

    assert status["watched"] >= 2, "it is watched, too: for what this machine writes"
    assert max(times) < 4 * status["rescan_seconds"]
    assert max(times) > 1.0, "no event came"
    assert 0 == status["skipped"]["transcripts"]
    record_property("figure", f"2 of 2 seen, after {max(times):.1f} s at the most")


@pytest.mark.parametrize(
    "marker", ["on the disk", pytest.param("above it", marks=pytest.mark.long)]
)
def test_disk_of_a_project_goes_away(house, marker, record_property):
    """A project whose disk is unmounted loses nothing: no file is written, no value forgotten."""
    house.transcripts.mkdir(parents=True)
    disk = house.home / "code"
    disk.mkdir()
    project = disk if marker == "on the disk" else disk / "shop"
    separate(house)
    house.wrapper += ["sh", "-c", f'mount -t tmpfs none {disk} && exec "$@"', "sh"]
    house.start()
    inside = [] if os.getuid() == 0 else ["--preserve-credentials", "-U"]
    enter = ["nsenter", *inside, "-m", "-t", str(house.process.pid), "sh", "-c"]

    def run(script: str) -> str:
        done = subprocess.run([*enter, script], check=True, capture_output=True, text=True)
        return done.stdout

    run(f"mkdir -p {project}/.flow-guardian")
    session = house.session(project)
    session.prompt("Rework the tax of the invoices")
    document = f"{project}/.flow-guardian/handoff.yaml"
    wait_for(lambda: "Rework the tax" in run(f"cat {document} 2>/dev/null || true"), 30)
    house.call("save", cwd=str(project), goal="The tax as the law has it")
    wait_for(lambda: "as the law has it" in run(f"cat {document}"), 30)
    before = run(f"cat {document}")
    # It is another disk then, that is taken away: what was on it stays.
    run(f"mount --move {disk} $(mktemp -d {house.runtime}/disk.XXXX)")
    session.say("The disk is gone.")
    wait_for(lambda: "The disk is gone." in house.document(project)["now"], 30)
    rescans = house.call("status")["rescans"]
    wait_for(lambda: house.call("status")["rescans"] > rescans, 40)
    left = run(f"ls -A {disk}")
    shown = house.document(project)["goal"]
    run(f"mount --move {house.runtime}/disk.* {disk}")
    back = run(f"cat {document}")
    session.say("It is back again.")
    wait_for(lambda: "It is back again." in run(f"cat {document}"), 40)

    assert ("", before) == (left, back)
    assert "The tax as the law has it" == shown
    assert "goal: The tax as the law has it" in run(f"cat {document}")
    assert 1 == house.call("status")["sessions"]
    record_property("figure", f"marker {marker}: nothing written, nothing forgotten")
