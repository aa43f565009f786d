"""The six triggers: their causes, their number and their effects; by a real daemon."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import uuid

import pytest

import beads_world
from conductor_projects import (
    QUICK,
    TRACK,
    Witness,
    asked,
    assert_whole,
    at_rest,
    beads_left,
    beads_section,
    call_tool,
    claim,
    command,
    commit,
    configure,
    end_tool,
    fired,
    front,
    handoff,
    history,
    is_seen,
    mark,
    names_fired,
    records,
    run_after,
    settings,
    stored,
    track,
    triggers,
    with_beads,
)
from conftest import BIN, timestamp, wait_for
from mail_server import MailServer
from written_handoffs import handoffs, text, work


@pytest.fixture
def sandbox(sandbox):
    """A HOME whose daemon looks more often, so that these tests need not wait."""
    return run_after(sandbox, QUICK)


def start(sandbox, config=""):
    sandbox.transcripts.mkdir(parents=True, exist_ok=True)
    if config:
        configure(sandbox, config)
    return sandbox.start()


def kill_and_start(sandbox):
    sandbox.kill()
    sandbox.start()
    wait_for(sandbox.settled)


# design-end


@pytest.mark.quick
@pytest.mark.seed("003", "| `design-end` | After `/conductor-newtrack`")
def test_design_end_when_the_command_is_over(live, client):
    """A track is handed off when /conductor-newtrack has ended, once; the session goes on active."""
    witness = Witness(live)
    project = live.project()
    (project / "conductor").mkdir()
    session = work(live, project, ago=2)
    claim(live, session, client)
    command(session, "conductor-newtrack", "login")
    call_tool(session)
    wait_for(lambda: is_seen(live, project))
    track(project)
    witness.look()
    assert [] == records(project), "what is being designed is not designed yet"

    end_tool(session)
    session.say("The track is designed: spec and plan are written.")
    wait_for(lambda: triggers(project) == ["design-end"])
    wait_for(lambda: at_rest(live))
    (fire,) = fired(live, project)
    assert (session.id, TRACK) == (fire["session_id"], fire["outcome"]["track"])
    assert f"conductor/tracks/{TRACK} is designed" == fire["receipt"]
    assert "active" == handoff(project)["status"]
    assert str(handoffs(live, project)[0]) == fire["outcome"]["contract"]
    kill_and_start(live)
    session.prompt("Thank you. Now add a task to the plan, please.")
    (project / "conductor/tracks" / TRACK / "plan.md").write_text("# Plan\n- [ ] more\n")
    witness.look(2)
    assert ["design-end"] == triggers(project)
    assert 1 == len(assert_whole(project))


def test_design_end_by_the_disk(live):
    """Without a command the track's own state decides: it fires once when it is beyond INIT."""
    witness = Witness(live)
    project = live.project()
    settings(project, "  quiet: true\n")
    live.session(project).prompt("Let us see what there is")
    wait_for(lambda: is_seen(live, project))
    path = track(project, workflow={"state": "INIT"}) / "metadata.json"
    witness.look()
    assert [] == fired(live, project)
    path.write_text(path.read_text().replace("INIT", "TRACKED"))
    wait_for(lambda: triggers(project) == ["design-end"])
    path.write_text(path.read_text().replace("TRACKED", "IMPLEMENTING"))
    witness.look()
    assert ["design-end"] == triggers(project)


def test_design_end_while_nobody_watched(sandbox):
    """A design that began and ended while the daemon was down fires at the next start."""
    project = sandbox.project()
    (project / "conductor").mkdir()
    start(sandbox)
    sandbox.stop()
    session = sandbox.session(project)
    command(session, "conductor:newtrack", "login")
    track(project)
    session.say("The track is designed.")
    sandbox.start()
    wait_for(lambda: triggers(project) == ["design-end"])
    sandbox.restart()
    Witness(sandbox).look()
    assert ["design-end"] == triggers(project)


@pytest.mark.quick
def test_first_start_fires_nothing(sandbox):
    """Nothing from before the first start is news: no command, no silence, no track, no epic."""
    project = sandbox.project()
    track(project)
    for ago in (6 * 3600, 120, 20):
        session = work(sandbox, project, ago=ago)
        command(session, "conductor-newtrack", timestamp=timestamp(ago - 3))
        command(session, "conductor-finish", timestamp=timestamp(ago - 4))
        session.say("All done.", timestamp=timestamp(ago - 5))
    start(sandbox, "[triggers]\nidle_minutes = 0.1\n")
    wait_for(sandbox.settled)
    witness = Witness(sandbox)
    witness.look(2)
    sandbox.restart()
    witness.look(2)
    assert [] == fired(sandbox, project)
    assert not (project / "conductor/handoffs").exists()


# pre-finish


@pytest.mark.quick
@pytest.mark.seed("003", "| `pre-finish` | Start of `/conductor-finish`")
def test_pre_finish_once(live):
    """/conductor-finish fires once: also by the Skill tool, in a copied history, after kill -9."""
    witness = Witness(live)
    project = live.project()
    track(project)
    session = work(live, project, ago=30)
    command(session, "conductor-finish", TRACK)
    wait_for(lambda: triggers(project) == ["pre-finish"])
    wait_for(lambda: at_rest(live))
    (fire,) = fired(live, project)
    assert fire["receipt"].startswith("/conductor-finish at ")
    assert "active" == handoff(project)["status"]
    assert str(handoffs(live, project)[0]) == fire["outcome"]["contract"]

    kill_and_start(live)
    copy = live.session(project)
    copy.raw(session.path.read_bytes().replace(session.id.encode(), copy.id.encode()))
    session.say("I will finish the track now.")
    witness.look()
    assert ["pre-finish"] == triggers(project)

    block = {"type": "tool_use", "id": "s", "name": "Skill", "input": {"skill": "conductor-finish"}}
    message = {"role": "assistant", "id": "m", "content": [block]}
    session.raw(session.line("assistant", message=message))
    wait_for(lambda: triggers(project) == ["pre-finish", "pre-finish"])


@pytest.mark.seed("003", "| `epic-start` | Before each epic")
def test_a_track_without_an_epic_starts_and_ends(live):
    """/conductor-implement starts it, `[x]` in tracks.md ends it, each once, by any sign."""
    sandbox, project = live, live.project()
    witness = Witness(live)
    track(project, "old_20260101", status="new")
    mark(project, "x", "old_20260101", "Old")
    track(project, status="new")
    mark(project, " ")
    session = work(sandbox, project, ago=2)
    wait_for(lambda: is_seen(sandbox, project))
    witness.look()
    command(session, "conductor-implement", "log in with signed tokens")
    wait_for(lambda: triggers(project) == ["epic-start"])
    mark(project, "~")
    command(session, "conductor-implement")
    witness.look(2)
    kill_and_start(sandbox)
    mark(project, "x")
    wait_for(lambda: triggers(project) == ["epic-start", "epic-end"])
    kill_and_start(sandbox)
    witness.look(2)
    wait_for(lambda: at_rest(sandbox))
    assert ["epic-start", "epic-end"] == triggers(project)
    assert [] == triggers(project, "old_20260101")


# idle


@pytest.mark.seed("003", "| `idle` | After 30min gap")
def test_idle(sandbox, client):
    """A silence fires once, unless tools, sub-agents or the project's own settings prevent it."""
    configure(sandbox, "[triggers]\nidle_minutes = 0.1\n")
    sandbox.transcripts.mkdir(parents=True)
    names = ("plain", "touched", "never", "later", "off", "tool", "agent", "bare")
    projects = {name: sandbox.project(name) for name in names}
    for name in names[:-1]:
        track(projects[name])
    settings(projects["never"], "  idle_threshold_minutes: 0\n")
    settings(projects["later"], "  idle_threshold_minutes: 60\n")
    settings(projects["off"], "  idle_prompt_enabled: false\n")
    sandbox.start()
    sessions = {name: work(sandbox, projects[name], ago=1) for name in names}
    call_tool(sessions["tool"])
    claim(sandbox, sessions["tool"], client)
    agent = sandbox.session(projects["agent"], sessions["agent"].id, isSidechain=True, agentId="a1")
    agent.path = agent.path.with_suffix("") / "subagents/agent-a1.jsonl"
    agent.path.parent.mkdir(parents=True)
    stop = threading.Event()

    def go_on():
        while not stop.wait(0.5):
            agent.say("Still reading the sources.")
            os.utime(sessions["touched"].path)

    going = threading.Thread(target=go_on)
    going.start()
    try:
        for name in ("plain", "touched"):
            wait_for(lambda n=name: triggers(projects[n]) == ["idle"], what=name)
        assert "handed_off" == handoff(projects["plain"])["status"]
        wait_for(lambda: names_fired(sandbox, projects["bare"]) == ["idle"])
        witness = Witness(sandbox)
        witness.look()
        quiet = {
            name: names_fired(sandbox, projects[name])
            for name in ("never", "later", "off", "tool", "agent")
        }
        assert {key: [] for key in quiet} == quiet
        wait_for(lambda: at_rest(sandbox))
        assert not (projects["bare"] / "conductor").exists()
        assert (
            "There is no conductor/ here"
            in fired(sandbox, projects["bare"])[0]["outcome"]["skipped"]
        )
        assert "src/tax.py" in text(sandbox, projects["bare"])
        sandbox.restart()
        kill_and_start(sandbox)
        witness.look(2)
        again = {name: names_fired(sandbox, projects[name]) for name in names}
        assert {
            **{key: [] for key in names},
            **{key: ["idle"] for key in ("plain", "touched", "bare")},
        } == again
    finally:
        stop.set()
        going.join()
    # The tool and the sub-agent have ended, and a session that speaks again falls silent again.
    for call in ("t", "t1"):
        end_tool(sessions["tool"], call)
    sessions["plain"].prompt("One more thing: round shipping as well, please")
    for name, expected in (("tool", ["idle"]), ("agent", ["idle"]), ("plain", ["idle", "idle"])):
        wait_for(lambda n=name, e=expected: triggers(projects[n]) == e, what=name)
    wait_for(lambda: at_rest(sandbox))
    assert 2 == len(assert_whole(projects["plain"]))


def test_idle_of_a_copy(sandbox):
    """A copy of a history under another session's name is no new silence."""
    start(sandbox, "[triggers]\nidle_minutes = 0.1\n")
    witness = Witness(sandbox)
    project = sandbox.project()
    track(project)
    session = work(sandbox, project, ago=1)
    wait_for(lambda: triggers(project) == ["idle"])
    copy = sandbox.session(project)
    copy.raw(session.path.read_bytes().replace(session.id.encode(), copy.id.encode()))
    witness.look(2)
    assert ["idle"] == triggers(project)


def test_idle_of_two_at_the_same_moment(sandbox):
    """Two sessions that fell silent in the same millisecond are both idle."""
    start(sandbox, "[triggers]\nidle_minutes = 0.1\n")
    project = sandbox.project()
    track(project)
    last = timestamp(1)
    for number in range(2):
        session = sandbox.session(project)
        session.prompt("Round tax per line in the module", timestamp=timestamp(10 + number))
        session.edit(f"{project}/src/tax{number}.py", timestamp=last)

    wait_for(lambda: names_fired(sandbox, project) == ["idle", "idle"])


@pytest.mark.quick
def test_idle_switched_off(sandbox):
    """With idle_minutes = 0 no session is ever idle."""
    start(sandbox, "[triggers]\nidle_minutes = 0\n")
    project = sandbox.project()
    track(project)
    work(sandbox, project, ago=3 * 3600)
    Witness(sandbox).look(2)
    assert [] == fired(sandbox, project)
    assert [] == sandbox.call("status")["idle"]


# Epics


@pytest.fixture(params=list(beads_world.REAL))
def beads(sandbox, request, tmp_path_factory):
    """A project with a real Beads."""
    return with_beads(sandbox, request.param, tmp_path_factory)


def note_sections(notes):
    return re.findall(r"^HANDOFF: Section (\d+) saved at (.+)$", notes, re.MULTILINE)


@pytest.mark.seed("003", "**No Beads sync** - Handoff context")
@pytest.mark.seed("003", "**Decision:** Add `bd update` call")
@pytest.mark.seed("003", "| 5 | Beads sync (`bd update --notes`)")
def test_epics(sandbox, beads, client):
    """An epic taken up or closed in another terminal is a record within 30 s, and a note of it."""
    project = beads.root
    first = beads.epic("Tokens")
    beads.bd("update", first, "--notes", "Ann: mind the clock")
    task = beads.child(first, "Write the signer")
    track(project, beads={"epicId": first})
    commit(sandbox, project)
    run_after(sandbox, "")  # at its own pace
    start(sandbox)
    session = work(sandbox, project, ago=2)
    claim(sandbox, session, client)
    wait_for(lambda: stored(sandbox, "SELECT 1 FROM seen WHERE name = ?", first))
    assert [] == fired(sandbox, project), "what is open at first sight is no news"

    beads.bd("update", first, "--status", "in_progress")
    wait_for(lambda: triggers(project) == ["epic-start"], 30)
    assert "active" == handoff(project)["status"]
    wait_for(lambda: at_rest(sandbox))
    kill_and_start(sandbox)
    beads.bd("close", task)
    beads.bd("close", first)
    wait_for(lambda: triggers(project) == ["epic-start", "epic-end"], 30)
    wait_for(lambda: at_rest(sandbox))
    assert [first, first] == [entry["bead_id"] for entry in history(project)]
    assert 100 == handoff(project)["progress_percent"]
    assert records(project)[1].name.endswith(f"_auth_{first}_epic-end.md")
    assert first == front(records(project)[1])["bead_id"]
    assert "active" == handoff(project)["status"], "the session goes on"
    notes = beads.notes(first)
    assert notes.startswith("Ann: mind the clock\n")
    files = [f"conductor/handoffs/{TRACK}/{name}" for name in assert_whole(project)]
    assert [("1", files[0]), ("2", files[1])] == note_sections(notes)
    keys = ["COMPLETED", "KEY DECISIONS", "IN PROGRESS", "NEXT", "BLOCKER", "HANDOFF"]
    assert keys * 2 == [line.split(":")[0] for line in notes.splitlines()[1:]]
    wait_for(lambda: beads_left(beads) == [])


def test_epic_trigger_switched_off(sandbox, beads, client):
    """A trigger that the project switches off does not fire; the session's end is recorded."""
    project = beads.root
    epic = beads.epic("Login")
    track(project, beads={"epicId": epic})
    settings(project, "  auto_triggers: {epic-start: false}\n")
    start(sandbox)
    session = work(sandbox, project, ago=2)
    path = claim(sandbox, session, client)
    seen = "SELECT 1 FROM seen WHERE name = ? AND status = ?"
    wait_for(lambda: stored(sandbox, seen, epic, "open"))
    beads.bd("update", epic, "--status", "in_progress")
    wait_for(lambda: stored(sandbox, seen, epic, "in_progress"))
    beads.bd("close", epic)
    wait_for(lambda: triggers(project) == ["epic-end"])
    assert "active" == handoff(project)["status"]
    path.unlink()
    wait_for(lambda: handoff(project)["status"] == "handed_off", what="the session ended")
    wait_for(lambda: at_rest(sandbox))
    assert ["epic-end"] == names_fired(sandbox, project)
    assert 1 == len(assert_whole(project))
    assert 1 == len(note_sections(beads.notes(epic)))
    wait_for(lambda: beads_left(beads) == [])


def test_status_with_two_sessions(live, client):
    """A track stays active when one of two sessions that work on it ends."""
    witness = Witness(live)
    project = live.project()
    track(project)
    one, two = (work(live, project, ago=2, file=name) for name in ("a.py", "b.py"))
    first = claim(live, one, client)
    other = subprocess.Popen(["sleep", "300"])
    try:
        second = claim(live, two, other)
        wait_for(lambda: len(live.call("sessions")["sessions"]) == 3)
        for session in (one, two):
            asked(
                live, "trigger", "epic-end", "--track", TRACK, "--session", session.id, cwd=project
            )
        witness.look()
        assert "active" == handoff(project)["status"]
        first.unlink()
        wait_for(lambda: any(one.id in path.read_text() for path in handoffs(live, project)))
        witness.look(2)
        assert "active" == handoff(project)["status"]
        second.unlink()
        wait_for(lambda: handoff(project)["status"] == "handed_off")
    finally:
        other.kill()
        other.wait()


# Several at once


def enter(sandbox, project, trigger, session, **request):
    """Enter a trigger, like a daemon that is killed right after it."""
    (row,) = stored(sandbox, "SELECT id FROM projects WHERE root = ?", str(project))
    stored(
        sandbox, "INSERT INTO triggers VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        f"{trigger}:{uuid.uuid4()}", trigger, row[0], session.id, timestamp(), "by a test",
        request.get("bead", ""), json.dumps(request),
    )  # fmt: skip


def test_the_most_important_one_counts(live):
    """Of several pending triggers one record is made; the others name the one that covers them."""
    project = live.project()
    track(project)
    session = work(live, project, ago=2)
    wait_for(lambda: is_seen(live, project))
    live.stop()
    for name in ("idle", "pre-finish", "design-end"):
        enter(live, project, name, session)
    live.start()
    wait_for(lambda: len(fired(live, project)) == 3 and at_rest(live))

    found = {item["trigger"]: item["outcome"].get("covered_by") for item in fired(live, project)}
    assert {"pre-finish": None, "idle": "pre-finish", "design-end": "pre-finish"} == found
    assert ["pre-finish"] == triggers(project)
    assert 1 == len(assert_whole(project))
    assert 1 == len(handoffs(live, project))


@pytest.mark.quick
def test_each_track_has_its_own(live):
    """A record of another track does not cover a session: each of the two has its record."""
    project = live.project()
    track(project)
    track(project, "billing_20260302")
    sessions = [work(live, project, ago=2, file=name) for name in ("a.py", "b.py")]
    wait_for(lambda: is_seen(live, project))
    for session, name in zip(sessions, (TRACK, "billing_20260302"), strict=True):
        wait_for(
            lambda s=session: any(
                i["session_id"] == s.id for i in live.call("sessions")["sessions"]
            )
        )
        asked(live, "resume", name, "--session", session.id, cwd=project, code=1)
        asked(live, "create", "--track", name, "--session", session.id, cwd=project)
    live.stop()
    for session in sessions:
        enter(live, project, "idle", session)
    live.start()
    wait_for(lambda: len(fired(live, project)) == 4 and at_rest(live))
    assert ["manual", "idle"] == triggers(project)
    assert ["manual", "idle"] == triggers(project, "billing_20260302")


# Messages to be sent


def hasten(sandbox):
    """Make waiting messages due at once; call it while the daemon is down."""
    stored(sandbox, "UPDATE outbox SET not_before = 0")


def test_note_waits_for_a_program(sandbox, tmp_path_factory):
    """Without bd the note waits, and says so; once bd is there it is appended, once."""
    beads = with_beads(sandbox, "current", tmp_path_factory)
    program = sandbox.home / "bin/bd"
    configure(sandbox, f'[beads]\ncommand = "{program}"\n')
    project = beads.root
    epic = beads.epic()
    track(project, beads={"epicId": epic})
    start(sandbox)
    data = asked(sandbox, "create", cwd=project)
    assert {"outcome": "waiting"}.items() <= next(
        s for s in data["steps"] if s["number"] == "5"
    ).items()
    assert 0 == data["exit"]
    done = sandbox.handoff("triggers", cwd=project)
    assert f"beads to {epic} waits: " in done.stdout
    assert "to be sent" in sandbox.handoff("status").stdout
    (letter,) = sandbox.call("triggers", cwd=str(project))["letters"]
    assert ("beads", epic, 1, False) == tuple(
        letter[key] for key in ("kind", "target", "attempts", "given_up")
    )
    sandbox.stop()
    program.parent.mkdir()
    shutil.copy(beads.program, program)
    hasten(sandbox)
    sandbox.start()
    wait_for(lambda: at_rest(sandbox))
    sandbox.restart()
    Witness(sandbox).look()
    assert 1 == len(note_sections(beads.notes(epic)))
    assert "to be sent" not in sandbox.handoff("status").stdout


SLOW_BD = """#!/bin/sh
PATH=/usr/bin:/bin
case "$*" in
    *--help*) exec "{program}" "$@" ;;
    *update*) {what} ;;
esac
exec "{program}" "$@"
"""


@pytest.mark.parametrize(
    ("line", "what"), [("current", "before"), ("current", "after"), ("classic", "after")]
)
@pytest.mark.seed("003", "Notes survive context compaction")
def test_killed_while_the_note_is_sent(sandbox, tmp_path_factory, line, what):
    """After kill -9 before or after bd's write, without an answer, the note is there once."""
    beads = with_beads(sandbox, line, tmp_path_factory)
    program, mark = sandbox.home / "bin/bd", sandbox.home / "begun"
    program.parent.mkdir()
    acts = {
        "before": f'touch "{mark}"; exec sleep 60',
        "after": f'"{beads.program}" "$@"; touch "{mark}"; exec sleep 60',
    }
    program.write_text(SLOW_BD.format(program=beads.program, what=acts[what]))
    program.chmod(0o755)
    configure(sandbox, beads_section(program))
    project = beads.root
    epic = beads.epic()
    track(project, beads={"epicId": epic})
    start(sandbox)
    asking = subprocess.Popen(
        [str(BIN / "handoff"), "create"], env=sandbox.environment, cwd=project,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(mark.exists)
    sandbox.kill()
    asking.wait(90)
    for process in _processes(program):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, 9)
    program.write_text(f'#!/bin/sh\nexec "{beads.program}" "$@"\n')
    hasten(sandbox)
    sandbox.start()
    wait_for(lambda: at_rest(sandbox))
    assert 1 == len(assert_whole(project))
    assert [("1", f"conductor/handoffs/{TRACK}/{records(project)[0].name}")] == note_sections(
        beads.notes(epic)
    )


def _processes(program):
    """Return the processes of a script that a killed daemon left."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as stream:
            if str(program).encode() in stream.read():
                found.append(int(name))
    return found


@pytest.mark.quick
@pytest.mark.seed("003", "| 4 | Send to Agent Mail")
@pytest.mark.seed("003", "| 2 | Agent Mail lookup (primary)")
@pytest.mark.seed("003", "Not changing Agent Mail integration")
def test_mail(sandbox):
    """A record is mailed once, also an automatic one; resume prefers a newer mail to the file."""
    with MailServer() as server:
        start(sandbox, f'[mail]\nurl = "{server.url}"\n')
        project = sandbox.project()
        track(project)
        session = work(sandbox, project, ago=2)
        command(session, "conductor-finish")
        wait_for(lambda: triggers(project) == ["pre-finish"] and at_rest(sandbox))
        (mail,) = server.messages
        assert (f"handoff-{TRACK}", "high") == (mail["thread_id"], mail["importance"])
        assert (
            f"[HANDOFF:pre-finish] {TRACK} - Round tax per line in the invoice module"
            == mail["subject"]
        )
        assert (
            mail["body_md"]
            .rstrip()
            .endswith(f"**File:** conductor/handoffs/{TRACK}/{records(project)[0].name}")
        )
        server.mode = "fault"
        data = asked(sandbox, "create", cwd=project)
        assert "waiting" == next(s["outcome"] for s in data["steps"] if s["number"] == "4")
        assert [("mail", f"handoff-{TRACK}")] == [
            (x["kind"], x["target"]) for x in sandbox.call("triggers", cwd=str(project))["letters"]
        ]
        sandbox.stop()
        server.mode = ""
        hasten(sandbox)
        sandbox.start()
        wait_for(lambda: at_rest(sandbox))
        sandbox.restart()
        assert 2 == len(server.messages)

        body = server.messages[0]["body_md"].replace("Round tax", "Sign tokens")
        other = f"[HANDOFF:epic-end] {TRACK} - Sign tokens"
        me = server.messages[0]["to"]
        server.deliver("BlueLake", f"handoff-{TRACK}", other, body, created=timestamp(-2), to=me)
        data = asked(sandbox, "resume", cwd=project)
        assert "mail" == data["source"]
        assert "Sign tokens" in data["analysis"]
        server.mode = "fault"
        data = asked(sandbox, "resume", cwd=project)
        assert f"conductor/handoffs/{TRACK}/{records(project)[1].name}" == data["source"]
        assert "Agent Mail unavailable - files are used" in next(
            s["text"] for s in data["steps"] if s["number"] == "2"
        )


def test_failed_step_is_made_up_for(live):
    """A failed step stays pending, and is done by itself as soon as possible."""
    project = live.project()
    path = track(project) / "metadata.json"
    path.rename(path.with_name("aside"))
    path.mkdir()
    asked(live, "create", "--track", TRACK, cwd=project, code=1)
    assert [True] == [item["pending"] for item in fired(live, project)]
    path.rmdir()
    path.with_name("aside").rename(path)
    wait_for(lambda: at_rest(live))
    assert 1 == len(assert_whole(project))
