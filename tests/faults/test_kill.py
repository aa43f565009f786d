"""Kills at any time leave no torn file, no lost or twice-counted record, and no temporary file."""

import random
import signal
import threading
import time

import pytest
import yaml

from conftest import files_below, wait_for

SESSIONS = 10
# 50 records per second in all of them.
PAUSE_SECONDS = 0.2


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.long)])
def test_killed_at_random(sandbox, record_property, kills):
    """kill -9 at random while ten transcripts grow: every record is counted once in the end."""
    sandbox.transcripts.mkdir(parents=True)
    projects = [sandbox.project(f"p{number}") for number in range(SESSIONS)]
    sessions = [sandbox.session(project) for project in projects]
    written = [0] * SESSIONS
    stop = threading.Event()

    def grow() -> None:
        while not stop.is_set():
            for number, session in enumerate(sessions):
                line = session.line(
                    "user", message={"content": f"Request {written[number]} of many to come"}
                )
                cut = random.randrange(len(line))
                session.raw(line[:cut])
                session.raw(line[cut:])
                written[number] += 1
            time.sleep(PAUSE_SECONDS)

    grower = threading.Thread(target=grow)
    grower.start()
    chance = random.Random(7)
    seen, torn = set(), 0
    try:
        for number in range(kills):
            sandbox.process = sandbox.spawn()
            # On a busy machine most commands would not get to do anything.
            if number % 3:
                wait_for(sandbox.answers)
            time.sleep(chance.uniform(0.0, 0.6))
            sandbox.stop(signal.SIGKILL)
            for project in projects:
                text = sandbox.yaml(project)
                torn += bool(text) and not yaml.safe_load(text)["goal"]
                seen.add(text)
    finally:
        stop.set()
        grower.join()
    assert 0 == torn
    assert len(seen) > kills / 2, "the daemons did some work before they were killed"
    sandbox.start()
    wait_for(sandbox.settled)

    for project, session, count in zip(projects, sessions, written, strict=True):
        wait_for(lambda p=project, c=count: f"Request {c - 1} of" in sandbox.yaml(p))
        lane = sandbox.show(project)["lanes"][0]
        assert (session.id, count) == (lane["session_id"], lane["records"])
        assert "Request 0 of many to come" == lane["goal"]
        left = [path.name for path in (project / ".flow-guardian").iterdir()]
        assert {".gitignore", ".handoff.lock", "handoff.yaml"} == set(left)
    # The daemon lives, so a brief may just be being written.
    wait_for(lambda: not [p for p in files_below(sandbox.state) if p.name.endswith("handoffd-tmp")])
    told = (
        f"{kills} kills: {sum(written)} records, 0 lost, 0 twice, 0 of {len(seen)} documents torn"
    )
    record_property("figure", told)
