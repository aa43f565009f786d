"""Links, FIFOs, devices and directories where a file of ours should be, also swapped in a race."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

from conftest import allowed, wait_for
from handoff.common.errors import HandoffError
from handoffd.checkpoint import checkpoint_file
from handoffd.contract import handoff_directory
from handoffd.threads import http_token
from handoffd.tracks.conductor_directory import ConductorDirectory
from handoffd.tracks.record import TrackRecord

RACES, SAVES = 1000, 100
# Exchanges a directory and a link, again and again, until it is killed.
SWAPPER = """
import ctypes, os, random, sys, time
swap = ctypes.CDLL(None).renameat2
one, other = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
print("ready", flush=True)
while True:
    swap(-100, one, -100, other, 2)
    if random.random() < 0.5:
        time.sleep(random.random() / 2000)
"""
DOCUMENT = {"goal": "g", "status": "in_progress", "now": "n"}


def save(root, number):
    checkpoint_file.change(str(root), lambda _: DOCUMENT | {"now": str(number)})


def leave(root, number):
    handoff_directory.change(
        f"{root}/handoffs/-code-shop", "a.md", lambda _: f"# Handoff {number}\n"
    )


def record(root, number):
    made = TrackRecord(track_id="auth", timestamp="2026-03-01T00:00:00.000Z", trigger="manual")
    ConductorDirectory(str(root)).put_record(f"{number}.md", made)


def change_metadata(root, number):
    ConductorDirectory(str(root)).change_metadata("auth", lambda _: f'{{"n": {number}}}')


# The written file, the directory above it, and the part of the path that is swapped.
WRITERS = {
    "handoff.yaml": (save, ".flow-guardian"),
    "handoff": (leave, "handoffs/-code-shop"),
    "record, conductor/ swapped": (record, "conductor"),
    "record, its directory swapped": (record, "conductor/handoffs/auth"),
    "metadata.json": (change_metadata, "conductor/tracks/auth"),
}


@pytest.mark.parametrize("what", WRITERS)
def test_a_directory_that_is_swapped_in_a_race(tmp_path, what, record_property):
    """While a directory and a link are exchanged without end, not a byte goes through the link."""
    write, swapped = WRITERS[what]
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / swapped).mkdir(parents=True)
    (root / "conductor/tracks/auth").mkdir(parents=True, exist_ok=True)
    (root / "conductor/tracks/auth/metadata.json").write_text("{}")
    # As deep as the swapped part, so that the files below it would be found there.
    for deep in ("handoffs/auth", "tracks/auth"):
        (outside / deep).mkdir(parents=True)
        (outside / deep / "metadata.json").write_text("{}")
    (outside / "metadata.json").write_text("{}")
    before = listing(outside)
    (root / "evil").symlink_to(outside)
    words = [sys.executable, "-c", SWAPPER, str(root / swapped), str(root / "evil")]
    done = refused = 0
    with subprocess.Popen(words, stdout=subprocess.PIPE) as swapper:
        try:
            assert b"ready\n" == swapper.stdout.readline()
            for number in range(RACES):
                try:
                    write(root, number)
                    done += 1
                except (HandoffError, OSError):
                    refused += 1
        finally:
            swapper.kill()
    assert before == listing(outside)
    assert RACES == done + refused
    assert min(done, refused) > 0, (done, refused)
    record_property("figure", f"{what}: {done} written, {refused} refused, 0 bytes outside")


def listing(directory):
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in directory.rglob("*")
    }


@pytest.mark.long
def test_a_daemon_whose_project_is_swapped(live, record_property):
    """A daemon that saves while .flow-guardian and a link are exchanged lives, and nothing leaves."""
    project, outside = live.project(), live.home / "outside"
    outside.mkdir()
    (project / ".flow-guardian").mkdir()
    (project / "evil").symlink_to(outside)
    live.session(project).prompt("Work in a project that is swapped under you")
    words = [sys.executable, "-c", SWAPPER, str(project / ".flow-guardian"), str(project / "evil")]
    done = refused = 0
    with subprocess.Popen(words, stdout=subprocess.PIPE) as swapper:
        try:
            swapper.stdout.readline()
            for number in range(SAVES):
                reply = live.request("save", cwd=str(project), message=f"number {number}")
                done, refused = done + ("result" in reply), refused + ("error" in reply)
        finally:
            swapper.kill()
    live.alive()
    assert [] == os.listdir(outside)
    assert min(done, refused) > 0, (done, refused)
    record_property("figure", f"{done} saved, {refused} refused, 0 bytes outside")


# Objects that may lie in a file's place.


def make_device(path):
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind(path.name)


OBJECTS = {
    "FIFO": os.mkfifo,
    "device": make_device,
    "directory": os.mkdir,
    "socket": make_socket,
    "link": lambda path: path.symlink_to(path.parent / "victim"),
}
TARGETS = {
    "handoff.yaml": (".flow-guardian/handoff.yaml", save),
    "its lock": (".flow-guardian/.handoff.lock", save),
    "handoff": ("handoffs/-code-shop/a.md", leave),
    "lock of the handoffs": ("handoffs/-code-shop/.handoffd.lock", leave),
    "record": ("conductor/handoffs/auth/1.md", record),
    "metadata.json": ("conductor/tracks/auth/metadata.json", change_metadata),
    "index": ("conductor/handoffs/auth/index.md", lambda root, _: index(root)),
    ".last_activity": (
        "conductor/.last_activity",
        lambda root, _: ConductorDirectory(str(root)).touch(),
    ),
    "token": ("http-token", lambda root, _: http_token.rotate(str(root))),
}


def index(root):
    record(root, 5)
    ConductorDirectory(str(root)).complete_index("auth", "2026-03-01T00:00:00.000Z")


def prepare(tmp_path, target):
    root = tmp_path / "root"
    place = root / target
    place.parent.mkdir(parents=True)
    (root / "conductor/tracks/auth").mkdir(parents=True, exist_ok=True)
    victim = place.parent / "victim"
    victim.write_text('{"kept": 1}')
    return root, place, victim


@pytest.mark.parametrize("thing", OBJECTS)
def test_what_is_no_file_is_refused_at_once(tmp_path, thing, record_property):
    """An object in the place of any file of ours is neither read, written nor replaced."""
    if thing == "device" and os.geteuid():
        pytest.skip("makes a device, which only root may do: run the tests as root")
    began = time.monotonic()
    for name, (target, write) in TARGETS.items():
        root, place, victim = prepare(tmp_path / name.replace(" ", "-"), target)
        OBJECTS[thing](place)
        before = os.lstat(place)
        with pytest.raises((HandoffError, OSError)):
            write(root, 1)
        after = os.lstat(place)
        assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode), name
        assert '{"kept": 1}' == victim.read_text(), name
        assert [] == [path for path in root.rglob("*") if path.name.endswith("handoffd-tmp")]
    took = time.monotonic() - began
    assert took < allowed(10), "nothing was waited for"
    record_property("figure", f"{thing}: {len(TARGETS)} of {len(TARGETS)} refused in {took:.1f} s")


def test_a_hard_link_is_not_written_through(tmp_path, record_property):
    """A second name of another file is replaced by a file of ours; the first stays as it was."""
    written = 0
    for name, (target, write) in TARGETS.items():
        root, place, victim = prepare(tmp_path / name.replace(" ", "-"), target)
        os.link(victim, place)
        with contextlib.suppress(HandoffError, OSError):
            write(root, 1)
        assert '{"kept": 1}' == victim.read_text(), name
        assert 0o644 == victim.stat().st_mode & 0o777, name
        written += not place.exists() or not os.path.samefile(place, victim)
    assert written >= 4
    record_property("figure", f"{len(TARGETS)} of {len(TARGETS)} first names unchanged")


@pytest.mark.parametrize(
    "thing", ["FIFO", *(pytest.param(x, marks=pytest.mark.long) for x in OBJECTS if x != "FIFO")]
)
def test_a_daemon_that_meets_no_file(live, thing):
    """A daemon that finds another object in place of handoff.yaml reports it, and goes on."""
    project = live.project()
    directory = project / ".flow-guardian"
    directory.mkdir()
    OBJECTS[thing](directory / "handoff.yaml")
    live.session(project).prompt("Begin all the same")
    said = ("unreadable", "write_failed")
    wait_for(lambda: {w["code"] for w in live.request("status")["result"]["warnings"]} & {*said})
    other = live.project("other")
    live.session(other).prompt("Work beside it")
    wait_for(lambda: "Work beside it" in live.yaml(other))
    done = live.handoff("save", "-m", "x", cwd=project)
    assert 1 == done.returncode
    assert "handoff.yaml" in done.stderr
    wait_for(lambda: "Begin all the same" == live.document(project)["goal"])


def test_every_save_is_durable(sandbox, record_property):
    """Each file is made 0600 with O_EXCL|O_NOFOLLOW, written, synced and renamed.

    Then its directory is synced.
    """
    if shutil.which("strace") is None:
        pytest.skip("strace is missing: install it (Debian: apt-get install strace)")
    if subprocess.run(["strace", "-o", "/dev/null", "true"], check=False).returncode:
        pytest.skip("strace may not trace here: allow ptrace in this container (CAP_SYS_PTRACE)")
    trace = sandbox.log.with_name("trace")
    calls = "openat,write,fsync,fchmod,rename,renameat,renameat2"
    python, sandbox.spawn = sys.executable, lambda: None
    sandbox.transcripts.mkdir(parents=True)
    project = sandbox.project()
    with sandbox.log.open("ab") as stream:
        sandbox.process = subprocess.Popen(
            ["strace", "-ff", "-y", "-o", trace, "-e", f"trace={calls}", python, "-P", "-m", "handoffd", "run"],
            env=sandbox.environment, cwd="/", stdout=stream, stderr=stream,
        )  # fmt: skip
    wait_for(sandbox.answers, 60)
    saved_kinds(sandbox, project)
    assert 0 == sandbox.request("down")["result"]["exit"]
    sandbox.process.wait(90)
    # One file per thread.
    traces = trace.parent.glob("trace.*")
    made = {k: v for path in traces for k, v in traced(path.read_text().splitlines()).items()}
    for name, steps in made.items():
        # A mode may be set on the way, and an empty file has nothing to write.
        order = [step for step in ORDER if step != "write" or ".last_activity" not in name]
        assert order == [step for step in steps if step != "fchmod"], (name, steps)
    kinds = {kind for kind in KINDS for name in made if kind in name}
    assert set(KINDS) == kinds
    record_property("figure", f"{len(made)} of {len(made)} files of {len(kinds)} kinds in order")


KINDS = ("handoff.yaml", ".gitignore", "/briefs/", "/.claude/handoffs/", "/conductor/handoffs/auth", "index.md", "metadata.json")  # fmt: skip
ORDER = ["open", "write", "fsync", "rename", "sync directory"]


def saved_kinds(sandbox, project):
    import conductor_projects

    conductor_projects.track(project, "auth")
    session = sandbox.session(project)
    session.prompt("Write every kind of file there is")
    session.edit(f"{project}/src/a.py")
    wait_for(lambda: "every kind" in sandbox.yaml(project), 60)
    for words in (("save", "-m", "x"), ("close", "--done", "y"), ("create", "--track", "auth")):
        done = sandbox.handoff(*words, cwd=project)
        assert 0 == done.returncode, (words, done.stdout, done.stderr)


def traced(lines):
    """Return the calls made on each temporary file of a trace, in order."""
    found, directories = {}, {}
    for line in lines:
        call = line.strip()
        name = next((n for n in found if n in call), None)
        if call.startswith("openat(") and "O_EXCL" in call and ".handoffd-tmp" in call:
            made = call.rsplit("<", 1)[-1].rstrip(">")
            assert "O_NOFOLLOW" in call, call
            assert "0600" in call, call
            found[made] = ["open"]
        elif name and call.startswith(("write(", "fchmod(", "fsync(")):
            found[name].append(call.partition("(")[0])
        elif call.startswith("rename"):
            for made, steps in found.items():
                if os.path.basename(made) in call and steps[-1] == "fsync":
                    steps.append("rename")
                    directories[os.path.dirname(made)] = made
        elif call.startswith("fsync("):
            path = call.partition("<")[2].partition(">")[0]
            if path in directories:
                found[directories.pop(path)].append("sync directory")
    return found
