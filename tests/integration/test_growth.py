"""Transcripts that grow, shrink, move and vanish in every way, under a real daemon."""

import json
import os
import shutil
import signal
import time

import pytest

from conftest import allowed, timestamp, wait_for


def lane(sandbox, project, session):
    """Return the lane of a session, or an empty one."""
    found = [item for item in sandbox.show(project)["lanes"] if item["session_id"] == session.id]
    return found[0] if found else {}


def records(sandbox, project, session) -> int:
    return lane(sandbox, project, session).get("records", 0)


def test_many_sessions(sandbox):
    """1,000 sessions in 200 projects are all found, each with its records counted once."""
    for number in range(200):
        project = sandbox.project(f"p{number}", git=False)
        (project / "pyproject.toml").touch()
        for each in range(5):
            session = sandbox.session(project)
            session.raw(
                b"".join(
                    session.line("user", message={"content": f"Make part {each} of it work"})
                    for _ in range(2)
                )
            )
    sandbox.start()

    wait_for(sandbox.settled)
    found = sandbox.call("sessions", limit=1000)

    assert 1000 == found["total"] == len(found["sessions"])
    assert {2} == {item["records"] for item in found["sessions"]}
    assert 2000 == sandbox.call("status")["records"]


@pytest.mark.quick
def test_byte_by_byte(live):
    """A line of 100 KB that arrives byte by byte is one record, and nothing is damaged."""
    project = live.project()
    session = live.session(project)
    session.prompt("Write the parser for the config file")
    wait_for(lambda: records(live, project, session) == 1)
    line = session.line(
        "assistant", message={"content": [{"type": "text", "text": "Half done. " + "x" * 100_000}]}
    )
    with session.path.open("ab", buffering=0) as stream:
        for position in range(len(line)):
            stream.write(line[position : position + 1])

    wait_for(lambda: records(live, project, session) == 2)

    assert "Half done." in live.document(project)["now"]
    assert 0 == live.call("status")["skipped"]["damaged_lines"]
    assert 2 == live.call("status")["records"]


@pytest.mark.quick
def test_truncation(live):
    """A transcript cut to nothing and written anew is folded anew."""
    project = live.project()
    session = live.session(project)
    for number in range(5):
        session.prompt(f"Do the task with number {number} now")
    wait_for(lambda: records(live, project, session) == 5)

    session.path.write_bytes(
        session.line("user", message={"content": "Only the last task is left here"})
    )
    wait_for(lambda: records(live, project, session) == 1)

    assert "Only the last task is left here" == live.document(project)["goal"]
    assert 1 <= live.call("status")["replaced"]


def test_truncated_and_grown_past_the_old_place(live):
    """A rewritten transcript is recognised although it is longer than before."""
    project = live.project()
    session = live.session(project)
    session.prompt("First version of the request")
    wait_for(lambda: records(live, project, session) == 1)

    lines = [
        session.line("user", message={"content": f"Second version, part {n} of it"})
        for n in range(9)
    ]
    session.path.write_bytes(b"".join(lines))
    wait_for(lambda: records(live, project, session) == 9)

    assert "Second version, part 0 of it" == live.document(project)["goal"]


def test_rewritten_in_equal_size(live):
    """A rewrite that changes neither size nor name is recognised by the first bytes."""
    project = live.project()
    session = live.session(project)
    line = session.line("user", message={"content": "Build the red door of it"})
    session.raw(line)
    wait_for(lambda: records(live, project, session) == 1)

    session.path.write_bytes(line.replace(b"the red door", b"the big gate"))

    wait_for(lambda: live.document(project)["goal"] == "Build the big gate of it")
    assert 1 == records(live, project, session)


@pytest.mark.quick
def test_atomic_replacement(live):
    """A transcript replaced by rename is folded anew."""
    project = live.project()
    session = live.session(project)
    session.prompt("Something that will be replaced")
    wait_for(lambda: records(live, project, session) == 1)
    other = session.path.with_suffix(".new")
    other.write_bytes(
        session.line("user", message={"content": "What the parser was replaced by"}) * 1
    )
    os.replace(other, session.path)

    wait_for(lambda: live.document(project)["goal"] == "What the parser was replaced by")
    assert 1 == records(live, project, session)


def test_moved_transcript_keeps_its_cursor(live):
    """A session re-homed under another directory goes on without a second reading."""
    project = live.project()
    session = live.session(project)
    session.prompt("Work that moves to a worktree")
    wait_for(lambda: records(live, project, session) == 1)
    elsewhere = live.transcripts / "-elsewhere"
    elsewhere.mkdir()
    os.rename(session.path, elsewhere / session.path.name)
    session.path = elsewhere / session.path.name
    session.say("It has moved.")

    wait_for(lambda: records(live, project, session) == 2)

    assert 2 == live.call("status")["records"]
    assert 0 == live.call("status")["replaced"]


def test_root_deleted_and_recreated(live):
    """Sessions under a projects root that was deleted and made again are seen."""
    project = live.project()
    live.session(project).prompt("Before the root was deleted")
    wait_for(lambda: live.document(project)["goal"] == "Before the root was deleted")
    shutil.rmtree(live.transcripts)
    time.sleep(0.3)
    session = live.session(project)
    session.prompt("After the root was made again")

    wait_for(lambda: live.document(project)["goal"] == "After the root was made again")
    session.say("Watched again.")
    wait_for(lambda: "Watched again." in live.document(project)["now"], allowed(3))


def test_symlinked_root(sandbox):
    """A projects root that is a symlink is followed, live."""
    real = sandbox.home / "elsewhere"
    real.mkdir()
    (sandbox.home / ".claude").mkdir()
    (sandbox.home / ".claude/projects").symlink_to(real)
    sandbox.start()
    wait_for(sandbox.settled)
    project = sandbox.project()
    session = sandbox.session(project)
    session.prompt("Through the symlink it comes")
    wait_for(lambda: records(sandbox, project, session) == 1)
    session.say("Seen at once.")

    wait_for(lambda: "Seen at once." in sandbox.document(project)["now"], allowed(3))


@pytest.mark.quick
def test_root_that_appears_later(sandbox):
    """An empty HOME works: the daemon waits for the directory and says so."""
    sandbox.start()
    shown = sandbox.handoff("status").stdout
    project = sandbox.project()
    session = sandbox.session(project)
    session.prompt("The first session ever here")

    wait_for(lambda: records(sandbox, project, session) == 1)

    assert "Waiting for ~/.claude/projects to appear" in shown


@pytest.mark.quick
def test_subagent_files_belong_to_their_session(live):
    """A sub-agent's edits count for its session; its words do not become `now`."""
    project = live.project()
    session = live.session(project)
    session.prompt("Split the module into two parts")
    session.say("I ask a helper.")
    agent = live.session(project)
    agent.path = session.path.with_suffix("") / "subagents" / "agent-a1b2c3d.jsonl"
    agent.path.parent.mkdir(parents=True)
    agent.id = session.id
    agent.envelope = {"isSidechain": True, "agentId": "a1b2c3d"}
    agent.prompt("You are a helper")
    agent.say("The helper speaks.")
    agent.edit(f"{project}/part_two.py")

    wait_for(lambda: "part_two.py" in live.document(project)["files"])
    found = lane(live, project, session)

    assert "I ask a helper." in live.document(project)["now"]
    assert (2, 3, 1) == (found["records"], found["agent_records"], found["prompts"])


def test_old_place_of_subagents(live):
    """A sub-agent's file beside its session's is attached by the session id in it."""
    project = live.project()
    session = live.session(project)
    session.prompt("Clean up the old imports please")
    agent = live.session(project, "agent-0123abcd", isSidechain=True, sessionId=session.id)
    agent.edit(f"{project}/old.py")

    wait_for(lambda: "old.py" in live.document(project)["files"])

    assert 1 == live.call("status")["sessions"]


def test_headless_run_does_not_take_over(live):
    """A `claude -p` run is a lane, but a live person's session stays the shown one."""
    project = live.project()
    person = live.session(project)
    person.prompt("Rework the login page today")
    wait_for(lambda: records(live, project, person) == 1)
    for _ in range(12):
        program = live.session(project, entrypoint="sdk-cli")
        program.prompt("Summarise the changes of this week")
    wait_for(lambda: live.call("status")["sessions"] == 13)

    assert "Rework the login page today" == live.document(project)["goal"]
    assert any(item["headless"] for item in live.show(project)["lanes"])


@pytest.mark.quick
def test_second_live_session_takes_over_and_both_are_named(live):
    """The most recently active person's session is shown; the other is named as live."""
    project = live.project()
    first, second = live.session(project), live.session(project)
    first.prompt("Rework the login page today")
    wait_for(lambda: records(live, project, first) == 1)
    second.prompt("Write the release notes for it", timestamp=timestamp(-1))
    wait_for(lambda: live.document(project)["goal"] == "Write the release notes for it")

    shown = live.handoff("show", cwd=project).stdout

    assert f"also live     {first.id[:8]}: Rework the login page today" in shown


def test_oversized_line_is_counted_not_decoded(live):
    """A line over 8 MiB is skipped and counted, and the lines after it are read."""
    project = live.project()
    session = live.session(project)
    session.prompt("Read the very large picture")
    session.raw(b'{"type":"user","big":"' + b"x" * (9 << 20) + b'"}\n')
    session.say("It was too large.")

    wait_for(lambda: "It was too large." in live.document(project)["now"])

    assert 1 == live.call("status")["skipped"]["oversized_lines"]
    assert "skipped      1 line that is too long\n" in live.handoff("status").stdout
    assert 2 == records(live, project, session)


@pytest.mark.quick
def test_damaged_lines_are_counted(live):
    """NUL runs, half a line and text that is no JSON never stop the reading."""
    project = live.project()
    session = live.session(project)
    session.prompt("Survive whatever comes in here")
    session.raw(b"\x00" * 100 + b"\n" + b'{"type":"user","mess\n' + b"not json\n\n[1,2]\n")
    session.raw(b'{"type":7,"message":[],"uuid":{}}\n' + b'\xff\xfe{"a"\n')
    glued = session.line("assistant", message={"content": [{"type": "text", "text": "Glued one."}]})
    session.raw(glued.rstrip(b"\n") + session.line("mystery"))
    session.say("Still here.")

    wait_for(lambda: "Still here." in live.document(project)["now"])

    assert 5 == live.call("status")["skipped"]["damaged_lines"]
    assert 5 == records(live, project, session)


def test_repeated_records_count_once(live):
    """A block that is appended again verbatim changes nothing."""
    project = live.project()
    session = live.session(project)
    line = session.line("user", message={"content": "Say it only once please"})
    session.raw(line * 3)
    session.say("Once.")

    wait_for(lambda: "Once." in live.document(project)["now"])

    assert 2 == records(live, project, session)
    assert 2 == live.call("status")["skipped"]["repeated_records"]
    told = live.handoff("status").stdout
    assert "skipped      2 records that stood there before (nothing is lost)\n" in told


@pytest.mark.quick
def test_restart_rereads_nothing(live):
    """After a restart the counters start at zero and stay there: no record is read again."""
    project = live.project()
    session = live.session(project)
    for number in range(20):
        session.prompt(f"Request number {number} of this session")
    wait_for(lambda: records(live, project, session) == 20)
    live.restart()
    wait_for(live.settled)

    assert 0 == live.call("status")["records"]
    assert 20 == records(live, project, session)
    assert "Request number 0 of this session" == live.document(project)["goal"]


def test_rewritten_in_equal_size_while_the_daemon_was_down(live):
    """A transcript rewritten with equal size while the daemon was down is folded anew."""
    project = live.project()
    session = live.session(project)
    line = session.line("user", message={"content": "Build the red door of it"})
    session.raw(line)
    wait_for(lambda: records(live, project, session) == 1)
    live.stop()
    session.path.write_bytes(line.replace(b"the red door", b"the big gate"))
    live.start()

    wait_for(lambda: live.document(project)["goal"] == "Build the big gate of it")
    assert 1 == records(live, project, session)


def test_fifo_among_the_transcripts(live):
    """A FIFO or a symlink with a transcript's name, also an old sub-agent's, blocks nothing."""
    project = live.project()
    directory = live.session(project).path.parent
    for name in ("agent-deadbeef.jsonl", "3b241101-e2bb-4255-8caf-4136c566a962.jsonl"):
        os.mkfifo(directory / name)
    (directory / "agent-0badcafe.jsonl").symlink_to("/dev/zero")
    session = live.session(project)
    session.prompt("Read past the strange files")

    wait_for(lambda: records(live, project, session) == 1)
    wait_for(lambda: live.call("status")["rescans"] >= 2)


def test_deleted_transcript_is_not_behind(live):
    """A transcript that was deleted while unread does not make the state look stale for ever."""
    project = live.project()
    session = live.session(project)
    session.prompt("This one will be deleted soon")
    wait_for(lambda: records(live, project, session) == 1)
    live.process.send_signal(signal.SIGSTOP)
    session.say("Unread.")
    live.process.send_signal(signal.SIGCONT)
    session.path.unlink()

    wait_for(lambda: live.settled() and not live.call("status")["lag"])


@pytest.mark.quick
def test_task_files_are_todos(live):
    """Open tasks in the client's task files become `next`, also without a record of them."""
    project = live.project()
    session = live.session(project)
    session.prompt("Write the parser of the price lists")
    directory = live.transcripts.parent / "tasks" / session.id
    directory.mkdir(parents=True)
    for number, (subject, status) in enumerate(
        (("Parse it", "completed"), ("Store it", "pending"))
    ):
        task = {"id": str(number), "subject": subject, "status": status}
        (directory / f"{number}.json").write_text(json.dumps(task))
    (directory / "3.json").write_text("no task")
    (directory / ".lock").write_text("")
    session.say("I begin.")

    wait_for(lambda: "Store it" in live.document(project).get("next", []))
    assert "Parse it" not in live.document(project)["next"]
    task = {"id": "1", "subject": "Store it", "status": "completed"}
    (directory / "1.json").write_text(json.dumps(task))
    session.say("Stored.")
    wait_for(lambda: "Store it" not in live.document(project).get("next", []))
