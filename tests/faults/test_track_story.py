"""A track from an empty repository to its end, and kills at every step of a record on the way."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conductor_projects import (
    QUICK,
    STEPS,
    TRACK,
    asked,
    assert_whole,
    at_rest,
    beads_left,
    call_tool,
    claim,
    command,
    commit,
    end_tool,
    handoff,
    history,
    is_seen,
    names_fired,
    records,
    rows,
    run_after,
    settings,
    stored,
    temporary,
    track,
    tree,
    triggers,
    with_beads,
)
from conftest import wait_for
from handoffd.store.core import CoreStore
from mail_server import MailServer
from written_handoffs import handoffs, work

EXPECTED = Path(__file__).parent / "track_story.txt"


@pytest.fixture
def sandbox(sandbox):
    """A HOME whose daemon looks more often."""
    return run_after(sandbox, QUICK)


# The story


@pytest.mark.parametrize("line", [pytest.param("classic", marks=pytest.mark.long), "current"])
@pytest.mark.seed("003", "Beads sync saves context on every handoff")
@pytest.mark.seed("003", "| `epic-start` | Before each epic")
@pytest.mark.seed("003", "| `epic-end` | After epic closes")
def test_track_from_beginning_to_end(sandbox, client, tmp_path_factory, line):
    """Design, two epics, parallel work, idling, drift and the finish leave the expected files."""
    beads = with_beads(sandbox, line, tmp_path_factory)
    project = beads.root
    (project / ".gitignore").write_text(".beads/\n.flow-guardian/\nconductor/\n")
    (project / "README.md").write_text("# Shop\n")
    commit(sandbox, project, "the beginning")
    settings(project, "  idle_threshold_minutes: 0\n")
    sandbox.start()

    session = sandbox.session(project)
    claimed = claim(sandbox, session, client)
    design(sandbox, beads, project, session)
    first, second = _epics(project)
    one_epic_with_workers(sandbox, beads, project, session, first)
    fall_silent(sandbox, project)
    claimed.unlink()
    session = sandbox.session(project)
    session.prompt("Good morning! Build the login form, please")
    claimed = claim(sandbox, session, client)
    go_on_after_drift(sandbox, project, session)
    beads.bd("update", second, "--status", "in_progress")
    happened(sandbox, project, "epic-start", 5)
    (project / "form.py").write_text("x = 3\n")
    session.edit(f"{project}/form.py")
    end_tool(session, "t")
    session.say("The login form is built and all fields are checked.")
    beads.bd("close", *_children(beads, second))
    beads.bd("close", second)
    happened(sandbox, project, "epic-end", 6)
    command(session, "conductor-finish", TRACK)
    happened(sandbox, project, "pre-finish", 7)
    assert "active" == handoff(project)["status"]
    claimed.unlink()
    wait_for(lambda: handoff(project)["status"] == "handed_off")

    sandbox.restart()
    wait_for(sandbox.settled)
    wait_for(lambda: at_rest(sandbox))
    assert 7 == len(assert_whole(project))
    assert 7 == len(names_fired(sandbox, project))
    assert 2 == len(handoffs(sandbox, project)), "each session left its contract"
    wait_for(lambda: beads_left(beads) == [])
    notes = {"notes/first": beads.notes(first), "notes/second": beads.notes(second)}
    found = told(project, notes, {first: "EPIC-1", second: "EPIC-2"})
    if os.environ.get("HANDOFFD_WRITE_EXPECTED"):
        EXPECTED.write_text(found)
    assert EXPECTED.read_text() == found


def design(sandbox, beads, project, session):
    command(session, "conductor-newtrack", "Log in with signed tokens")
    call_tool(session)
    wait_for(lambda: is_seen(sandbox, project))
    first, second = beads.epic("Tokens"), beads.epic("Login")
    for epic, titles in (
        (first, ("Choose a form", "Write the signer")),
        (second, ("Build the form",)),
    ):
        for title in titles:
            beads.child(epic, title)
    epics = [{"id": first, "title": "Tokens"}, {"id": second, "title": "Login"}]
    track(project, beads={"epicId": first, "epics": epics}, workflow={"state": "TRACKED"})
    end_tool(session)
    session.say("The track is designed.")
    happened(sandbox, project, "design-end", 1)


def one_epic_with_workers(sandbox, beads, project, session, epic):
    """Take up an epic, work on it in parallel, and close it while a worker still runs."""
    beads.bd("update", epic, "--status", "in_progress")
    happened(sandbox, project, "epic-start", 2)
    (project / "sign.py").write_text("x = 1\n")
    session.prompt("Sign the tokens with RS256, please")
    session.edit(f"{project}/sign.py")
    end_tool(session, "t")
    session.say("The signer signs with RS256. Next, I'll build the form.")
    state = project / f"conductor/tracks/{TRACK}/parallel_state.json"
    worker = {"worker_id": "worker_1_sign", "task": "Write the signer", "status": "in_progress"}
    state.write_text(json.dumps({"phase": "Phase 1", "workers": [worker]}))
    asked(sandbox, "create", "--session", session.id, cwd=project, code=4)
    beads.bd("close", *_children(beads, epic))
    beads.bd("close", epic)
    happened(sandbox, project, "epic-end", 3)
    state.unlink()


def fall_silent(sandbox, project):
    settings(project, "  idle_threshold_minutes: 0.05\n")
    happened(sandbox, project, "idle", 4)
    assert "handed_off" == handoff(project)["status"]
    settings(project, "  idle_threshold_minutes: 0\n")


def go_on_after_drift(sandbox, project, session):
    """Resume in a new session, after another author committed to the file that was left."""
    (project / "sign.py").write_text("x = 2\n")
    sandbox.git(project, "add", "sign.py")
    sandbox.git(project, "commit", "-q", "-m", "somebody else's")
    wait_for(lambda: len(sandbox.call("sessions")["sessions"]) == 2)
    data = asked(sandbox, "auto", "--session", session.id, cwd=project)
    assert ("resume", TRACK) == (data["mode"], data["track"])
    assert ["sign.py"] == data["drift"]["modified"]
    moved = {line["what"] for line in data["drift"]["lines"] if not line["same"]}
    assert {"Commits", "Files"} == moved
    assert "Build the form" in [item["content"] for item in data["todos"]["TodoWrite"]]
    assert "active" == handoff(project)["status"]


def happened(sandbox, project, trigger, number):
    wait_for(lambda: triggers(project)[number - 1 :] == [trigger], what=trigger)
    wait_for(lambda: at_rest(sandbox))


def _epics(project):
    path = project / f"conductor/tracks/{TRACK}/metadata.json"
    return [epic["id"] for epic in json.loads(path.read_text())["beads"]["epics"]]


def _children(beads, epic):
    return [issue["id"] for issue in beads.bd("list", "--parent", epic)]


def told(project, notes, names):
    """Return every file of conductor/ and the notes as one text, without the run's own values."""
    files = {name: data for name, data in tree(project / "conductor").items() if data is not None}
    texts = {**{name: data.decode() for name, data in files.items()}, **notes}
    whole = "".join(f"=== {name}\n{text.rstrip()}\n\n" for name, text in texts.items())
    for epic, name in names.items():
        whole = whole.replace(epic, name)
    stamps = sorted(set(re.findall(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-\d{3}", whole)))
    for number, stamp in enumerate(stamps, 1):
        moment = f"{stamp[:10]}T{stamp[11:19].replace('-', ':')}.{stamp[20:]}"
        for form in (stamp, f"{moment}Z", moment.replace("T", " ")):
            whole = whole.replace(form, f"MOMENT-{number}")
    whole = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "SOME-TIME", whole)
    return re.sub(r'git_commit: "?[0-9a-f]{7}"?', "git_commit: SHA", whole)


# Kills

KILL = """
import os, signal
from handoffd.tracks import create

def killing(act):
    def acting(*given):
        if {when!r} == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        act(*given)
        os.kill(os.getpid(), signal.SIGKILL)
    return acting

def change(actions):
    return tuple(a._replace(act=killing(a.act)) if a.number == {step!r} else a for a in actions)

create.GATHER, create.WRITE = change(create.GATHER), change(create.WRITE)
if {step!r} == "send":
    create._send_letters = killing(create._send_letters)
"""
# Killed when the temporary file is written, before it is renamed.
KILL_WRITING = """
import os, signal
from handoffd.fs import files
written = files._write_temporary

def write(directory, name, *given):
    done = written(directory, name, *given)
    if {part!r} in name:
        os.kill(os.getpid(), signal.SIGKILL)
    return done

files._write_temporary = write
"""
CREATE = """
from handoff.fast import main
main("handoff", ["create", "--session", {session!r}])
"""


GROUPS = (STEPS[:4], STEPS[4:7], [*STEPS[7:], "send"])


@pytest.fixture
def scene(sandbox, tmp_path_factory):
    """A HOME with a track, an epic in Beads and a mail server, all of them known."""
    with MailServer() as server:
        found = Scene(sandbox, server, tmp_path_factory)
        yield found


class Scene:
    def __init__(self, sandbox, server, factory):
        self.sandbox, self.server = sandbox, server
        config = f'[mail]\nurl = "{server.url}"\n'
        self.beads = with_beads(sandbox, "current", factory, config, how="scripted")
        self.project = self.beads.root
        self.epic = self.beads.epic()
        track(self.project, beads={"epicId": self.epic})
        self.session = work(sandbox, self.project, ago=3)
        # Created now, so that later changes are news.
        sandbox.state.mkdir(parents=True, mode=0o700)
        CoreStore(f"{sandbox.state}/core.db").close()

    def die(self, prelude):
        """Run a daemon until it kills itself."""
        process = run_after(self.sandbox, QUICK + prelude).spawn()
        assert -9 == process.wait(90), self.sandbox.log.read_text()

    def die_alone(self, prelude):
        """Run `handoff create` without a daemon until it kills itself."""
        code = prelude + CREATE.format(session=self.session.id)
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], env=self.sandbox.environment, cwd=self.project,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=90, check=False,
        )  # fmt: skip
        assert -9 == done.returncode, done.stderr

    def counts(self):
        """Return the number of each thing that a record is to leave."""
        return {
            "files": len(records(self.project)),
            "history": len(history(self.project)),
            "rows": len(rows(self.project)),
            "notes": self.beads.notes(self.epic).count("HANDOFF: "),
            "mails": len(self.server.messages),
        }

    def live_on(self, trigger, count):
        """Start a normal daemon: all that was begun is there in the end, each of it once."""
        # A letter that may be under way is left alone for a while.
        stored(self.sandbox, "UPDATE outbox SET not_before = 0")
        sandbox, project = run_after(self.sandbox, QUICK), self.project
        sandbox.start()
        wait_for(lambda: names_fired(sandbox, project) == [trigger] * count and at_rest(sandbox))
        assert {count} == set(self.counts().values()), self.counts()
        names = assert_whole(project)
        assert [trigger] * count == triggers(project)
        paths = sorted(f"conductor/handoffs/{TRACK}/{name}" for name in names)
        notes = self.beads.notes(self.epic)
        assert paths == sorted(
            re.findall(r"^HANDOFF: Section \d+ saved at (.+)$", notes, re.MULTILINE)
        )
        bodies = [message["body_md"].rstrip() for message in self.server.messages]
        assert paths == sorted(body.rpartition("**File:** ")[2] for body in bodies)
        assert [] == temporary(sandbox.home)
        assert (project / "conductor/.last_activity").exists()
        assert 1 == len(handoffs(sandbox, project))
        assert [] == stored(sandbox, "SELECT kind FROM outbox WHERE state != 'sent'")


# The first steps always; the others, which take as long, with all that takes long.
KILLED = [
    pytest.param(steps, id="-".join(steps), marks=[pytest.mark.long] if number else [])
    for number, steps in enumerate(GROUPS)
]


@pytest.mark.parametrize("steps", KILLED)
def test_killed_while_it_makes_a_record(scene, steps):
    """Daemons killed before and after each step do nothing twice; the last one ends it."""
    command(scene.session, "conductor-finish")
    for step in steps:
        for when in ("before", "after"):
            scene.die(KILL.format(step=step, when=when))
            assert {(step, when): True} == {(step, when): max(scene.counts().values()) <= 1}
    scene.live_on("pre-finish", 1)


@pytest.mark.parametrize("steps", KILLED)
def test_killed_while_a_record_is_asked_for(scene, steps):
    """If `handoff create` is killed before or after a step, the next daemon finishes it."""
    for step in steps:
        for when in ("before", "after"):
            scene.die_alone(KILL.format(step=step, when=when))
    scene.live_on("manual", 2 * len(steps))


@pytest.mark.parametrize("part", ["_pre-finish.md", "metadata.json", "index.md"])
def test_killed_while_it_writes(scene, part):
    """After a kill between the temporary file and its name, no temporary file is left."""
    command(scene.session, "conductor-finish")
    scene.die(KILL_WRITING.format(part=part))
    scene.live_on("pre-finish", 1)
