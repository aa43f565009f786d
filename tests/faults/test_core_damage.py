"""core.db is damaged: it is never written to nor discarded, all else goes on, and it is said."""

import time

import pytest

import damaged
from conftest import wait_for
from damaged import core_of, heard, say, talk, warnings

LONG = pytest.mark.long
KINDS = [
    damaged.entries,
    pytest.param(damaged.garbage, marks=LONG),
    pytest.param(damaged.header, marks=LONG),
    pytest.param(damaged.half, marks=LONG),
    pytest.param(damaged.empty, marks=LONG),
    pytest.param(damaged.gone, marks=LONG),
    pytest.param(damaged.log, marks=LONG),
]


def refused(house, **params) -> str:
    """Return the remedy of a call that is refused."""
    error = house.request(**params)["error"]
    assert 1 == error["data"]["exit"]
    assert "core.db is damaged" in error["message"]
    return error["data"]["hint"]


@pytest.mark.parametrize("damage", KINDS)
def test_damaged_core_is_served_read_only(live, damage, record_property):
    """Reads are answered, writes refused with the remedy; the file stays, a copy is kept once."""
    project = live.project()
    live.session(project).prompt("Before the damage")
    wait_for(lambda: "Before the damage" in live.yaml(project))
    thread, entries = talk(live, 40)
    live.stop()
    path, copy = core_of(live), live.state / "core.db.damaged"
    damage(path)
    found = path.read_bytes() if path.exists() else b""
    live.start()
    before = live.yaml(project)

    said = warnings(live)["core_damaged"]
    assert "handoff repair" in said
    assert "core-damaged" in live.handoff("doctor").stdout
    assert entries == len(heard(live, thread))
    say_more = {"action": "add", "id": thread, "type": "progress", "content": "x"}
    for method, params in (
        ("thread", say_more),
        ("save", {"cwd": str(project), "message": "m"}),
        ("pause", {}),
        ("forget", {"cwd": str(project), "target": str(project)}),
        ("close", {"cwd": str(project), "done": ["what was done"]}),
    ):
        assert "Mend it with: handoff repair" == refused(live, method=method, **params), method
    assert 1 == live.handoff("thread", "add", thread, "progress", "more").returncode
    assert 1 == live.handoff("thread", "close", thread, "--yes").returncode
    assert (live.state / "core.db.backup").exists(), "what may be all that is left"
    alone = live.project("alone")
    assert 0 == live.handoff("close", "--done", "words of my own", cwd=alone).returncode
    assert 0 == live.handoff("escalate", "look at it", cwd=alone).returncode
    assert "look at it" in live.handoff("review", cwd=alone).stdout
    live.session(project).prompt("Make the second thing work")
    wait_for(lambda: live.document(project)["goal"] == "Make the second thing work")
    assert "Make the second thing work" in live.handoff("inject", cwd=project).stdout
    other = live.project("other")
    live.session(other).prompt("A project nobody knew")
    wait_for(lambda: live.document(other)["goal"] == "A project nobody knew")

    assert before == live.yaml(project)
    assert "" == live.yaml(other)
    kept = copy.stat()
    assert 0o600 == kept.st_mode & 0o777
    assert found == copy.read_bytes()
    live.restart()
    assert said == warnings(live)["core_damaged"], "as it was found first"
    live.stop()
    assert kept.st_ino == copy.stat().st_ino
    assert found == (path.read_bytes() if path.exists() else b"")
    got = live.handoff("thread", "get", thread)
    assert (0, entries) == (got.returncode, got.stdout.count("chat \u00b7"))
    assert "handoff repair" in got.stdout
    assert 1 == live.handoff("thread", "add", thread, "progress", "more").returncode
    assert 1 == live.handoff("thread", "close", thread, "--yes").returncode
    assert (live.state / "core.db.backup").exists()
    assert "Run: handoff repair" in live.handoff("doctor").stdout
    record_property("figure", f"{entries} of {entries} entries answered, 0 bytes changed")


def test_damage_while_it_runs(live, record_property):
    """A page that goes bad under the daemon: the same process serves on, read only."""
    thread, entries = talk(live, 150, 3000, after="acknowledged")
    lost = live.call("thread", action="create", title="t", content="small")["id"]
    pid = live.call("status")["pid"]
    live.handoff("pause", str(live.project()))  # which copies core.db, with all that was said
    damaged.page(core_of(live), b"entry 70 ")
    began = time.monotonic()
    first = live.request("thread", action="get", id=thread)
    assert "core.db is damaged" in first["error"]["message"]
    assert "handoff repair" in warnings(live)["core_damaged"], "while what is left is being read"
    wait_for(lambda: "result" in live.request("thread", action="get", id=thread), 30)
    seconds = time.monotonic() - began

    words = heard(live, thread)
    assert entries == len(words) == len(set(words))
    assert "acknowledged" == words[-1]
    assert ["small"] == heard(live, lost)
    assert "handoff repair" in warnings(live)["core_damaged"]
    assert "error" in say(live, lost, "more")
    assert pid == live.call("status")["pid"]
    record_property("figure", f"{entries} of {entries} entries answered {seconds:.1f} s later")


def test_doctor_looks_closely(live):
    """A page that nobody has asked for yet is found damaged by `handoff doctor`, and served so."""
    talk(live, 40)
    live.restart()
    with core_of(live).open("r+b") as stream:
        stream.seek(2 * 4096)
        stream.write(b"\xff" * 4096)
    assert "core_damaged" not in warnings(live), "or this proves nothing"

    assert "core-damaged" in live.handoff("doctor").stdout
    assert "core_damaged" in warnings(live)


def test_pause_is_kept_when_it_cannot_be_read(live, record_property):
    """What is paused stays so: by the copy, and where there is none everything is paused."""
    project = live.project()
    talk(live, 5)
    live.handoff("pause", str(project))
    live.stop()
    damaged.garbage(core_of(live))
    live.session(project).prompt("Make the paused thing work")
    other = live.project("other")
    live.session(other).prompt("Make the other thing work")
    live.start()
    wait_for(lambda: live.document(other)["goal"] == "Make the other thing work")
    assert "paused" == live.show(project)["refused"]
    live.stop()
    (live.state / "core.db.backup").unlink()
    third = live.project("third")
    live.session(third).prompt("Make the third thing work")
    live.start()
    wait_for(live.settled)

    refused = [live.show(each)["refused"] for each in (project, other, third)]
    assert ["paused"] * 3 == refused
    assert "so everything is" in warnings(live)["core_damaged"]
    record_property("figure", f"{refused.count('paused')} of {len(refused)} projects stay paused")
