"""Kill anything, at any time: no torn file, no lost or twice-counted record, nothing left behind."""

import random
import signal
import threading
import time

import yaml

from conftest import wait_for

KILLS = 50
SESSIONS = 5


def test_kill_fifty_times(house):
    """kill -9 fifty times while transcripts grow: every record is counted once in the end."""
    house.transcripts.mkdir(parents=True)
    projects = [house.project(f"p{number}") for number in range(SESSIONS)]
    sessions = [house.session(project) for project in projects]
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
            time.sleep(0.01)

    grower = threading.Thread(target=grow)
    grower.start()
    chance = random.Random(7)
    seen = set()
    try:
        for number in range(KILLS):
            house.process = house.spawn()
            # On a busy machine most would not come to do anything.
            if number % 3:
                wait_for(house.answers, 30)
            time.sleep(chance.uniform(0.0, 1.0))
            house.stop(signal.SIGKILL)
            for project in projects:
                text = house.yaml(project)
                assert not text or yaml.safe_load(text)["goal"], text
                seen.add(text)
    finally:
        stop.set()
        grower.join()
    assert len(seen) > KILLS / 2, "the daemons did some work before they were killed"
    house.start()
    wait_for(house.settled, 30)

    for project, session, count in zip(projects, sessions, written, strict=True):
        wait_for(lambda p=project, c=count: f"Request {c - 1} of" in house.yaml(p), 20)
        lane = house.show(project)["lanes"][0]
        assert (session.id, count) == (lane["session_id"], lane["records"])
        assert "Request 0 of many to come" == lane["goal"]
        left = [path.name for path in (project / ".flow-guardian").iterdir()]
        assert {".gitignore", ".handoff.lock", "handoff.yaml"} == set(left)
    # The daemon lives, so a brief may just be being written.
    wait_for(lambda: not list(house.state.rglob("*handoffd-tmp")))
