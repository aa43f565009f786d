"""A write that hangs: the daemon waits for it quietly, also at its end."""

import json
import os
import signal
import sqlite3
import sys
import time

import pytest

import proc
from conftest import wait_for

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="looks into /proc, which only Linux has"
)
# As on a slow disk: the file is written, but the call does not return.
SITE = """
import os, time
from handoffd.checkpoint import checkpoint_file

change = checkpoint_file.change

def slowly(root, *rest):
    done = change(root, *rest)
    while os.path.exists(f"{root}/hang"):
        time.sleep(0.2)
    return done

checkpoint_file.change = slowly
"""


@pytest.fixture
def slow(sandbox):
    """A daemon whose writes end when a file is removed."""
    site = sandbox.home.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    sandbox.environment["PYTHONPATH"] = str(site)
    sandbox.transcripts.mkdir(parents=True)
    return sandbox.start()


@pytest.mark.long
def test_loop_sleeps_while_a_write_hangs(slow, record_property):
    """Records that arrive during a hanging write do not wake the loop until the write is over.

    Then they are written, too.
    """
    project = slow.project()
    (project / "hang").touch()
    session = slow.session(project)
    session.prompt("Begin with a slow disk")
    wait_for(lambda: "Begin with a slow disk" in slow.yaml(project))
    session.say("More came meanwhile.")
    wait_for(lambda: "More came" in slow.document(project)["now"])
    task = f"/proc/{slow.process.pid}/task/{slow.process.pid}"
    # Until the writing is given up waiting for, others are not looked at.
    began = time.monotonic()
    wait_for(lambda: time.monotonic() - began > 3)
    before, began = proc.switches(slow.process.pid)[task], time.monotonic()
    wait_for(lambda: time.monotonic() - began > 4)
    woken = (proc.switches(slow.process.pid)[task] - before) / (time.monotonic() - began)
    (project / "hang").unlink()
    wait_for(lambda: "More came meanwhile." in slow.yaml(project))

    assert woken < 4, "it was asked for five times a second"
    record_property("figure", f"{woken:.1f} wake-ups/s meanwhile")


def test_end_waits_for_a_write(slow):
    """A daemon told to end during a write notes the written values before it closes anything."""
    project = slow.project()
    (project / "hang").touch()
    slow.session(project).prompt("Begin with a slow disk")
    wait_for(lambda: "Begin with a slow disk" in slow.yaml(project))
    slow.process.send_signal(signal.SIGTERM)
    wait_for(lambda: not os.path.exists(slow.socket_path))
    (project / "hang").unlink()

    assert 0 == slow.process.wait(30)
    with sqlite3.connect(slow.state / "core.db") as db:
        written, intended = db.execute("SELECT written, intended FROM checkpoints").fetchone()
    assert "Begin with a slow disk" == json.loads(written)["goal"]
    assert json.loads(written) == json.loads(intended)
    assert "failed" not in slow.log.read_text()
