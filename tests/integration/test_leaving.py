"""The handoff files of sessions: written by a real daemon, at triggers and occasions."""

import json
import os
import time

import pytest

from conftest import timestamp, wait_for
from handoffd.triggers import session_liveness
from written_handoffs import handoff_directory, handoffs, text, work


def claim(sandbox, session, process, **more):
    """Write the client's file that claims a session for a process."""
    directory = sandbox.home / ".claude/sessions"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{process.pid}.json"
    path.write_text(
        json.dumps({"pid": process.pid, "sessionId": session.id, "kind": "interactive"} | more)
    )
    return path


@pytest.mark.quick
@pytest.mark.seed("002", "~/.claude/handoffs/<encoded-path>/")
@pytest.mark.seed("002", "`session_id` — identifies the originating session.")
@pytest.mark.seed("002", "Expected information (under whatever headings")
@pytest.mark.seed("002", "| What was accomplished | `## Done`")
@pytest.mark.seed("002", "| What should happen next | `## Next`")
def test_silent_session_leaves_a_handoff(live):
    """A session that worked and fell silent has a handoff with metadata, Done and Next."""
    project = live.project()
    session = work(live, project)

    wait_for(lambda: live.run_due() and handoffs(live, project))
    found = text(live, project)
    assert [f"{session.id[:8]}.md"] == [path.name for path in handoffs(live, project)]
    lines = found.split("\n")
    assert lines[0] == f"# Handoff — {time.strftime('%Y-%m-%d')}"
    assert lines[1] == ""
    assert lines[2] == f"session_id: {session.id}"
    assert lines[3].startswith("purpose: Round tax per line")
    assert lines[4] == f"cwd: {project}"
    assert "## Done" in found
    assert "src/tax.py" in found


@pytest.mark.seed("002", "Each project gets a subdirectory.")
def test_modes_and_nothing_else_visible(live):
    """Files are 0600, directories 0700, and `ls` shows handoffs only."""
    project = live.project()
    work(live, project)
    wait_for(lambda: live.run_due() and handoffs(live, project))

    directory = handoff_directory(live, project)
    assert 0o700 == directory.stat().st_mode & 0o777
    assert 0o600 == handoffs(live, project)[0].stat().st_mode & 0o777
    assert all(name.endswith(".md") for name in os.listdir(directory) if not name.startswith("."))


def test_killed_client_leaves_a_handoff_within_a_minute(live, client):
    """After kill -9 of the client, whose claim stays behind, the handoff is there within 60 s."""
    project = live.project()
    session = work(live, project, ago=3)
    claim(live, session, client)
    wait_for(lambda: live.call("sessions")["sessions"])
    live.run_due()  # a look in between: the client lives, and nothing is due
    assert handoffs(live, project) == []
    client.kill()
    client.wait()

    wait_for(lambda: handoffs(live, project), 60)


def test_silence_is_death_where_no_client_says_otherwise(live):
    """A session without a claim of a client has its handoff within 60 s of its last record."""
    project = live.project()
    work(live, project, ago=2)
    begun = time.monotonic()

    wait_for(lambda: handoffs(live, project), 60)
    assert time.monotonic() - begun > 30, "not while it may go on any moment"


def test_client_that_died_waiting_calls_for_a_person(live, client):
    """A session whose client died while it waited for a permission calls for a person."""
    project = live.project()
    session = work(live, project, ago=3)
    claim(live, session, client, status="waiting", waitingFor="permission to run: make deploy")
    wait_for(lambda: live.call("sessions")["sessions"])
    client.kill()
    client.wait()

    wait_for(lambda: live.run_due() and handoffs(live, project))
    assert "HUMAN REVIEW NEEDED: a person has yet to answer: permission" in text(live, project)


@pytest.mark.quick
def test_ended_client_leaves_a_handoff(live, client):
    """A client that ends in good order removes its claim: its session has ended."""
    project = live.project()
    session = work(live, project, ago=3)
    path = claim(live, session, client)
    live.run_due()  # it is seen to live
    path.unlink()

    wait_for(lambda: live.run_due() and handoffs(live, project))


def test_client_that_came_and_went_between_two_looks(live, client):
    """A session whose client came and went between two looks does not wait for a silence."""
    project = live.project()
    session = live.session(project)
    path = claim(live, session, client)
    began = time.monotonic()
    session.prompt("Round tax per line in the invoice module")
    session.edit(f"{project}/src/tax.py")
    wait_for(lambda: live.call("sessions")["sessions"])
    path.unlink()

    wait_for(lambda: live.run_due() and handoffs(live, project))
    assert time.monotonic() - began < session_liveness.QUIET_SECONDS


@pytest.mark.quick
def test_compaction_leaves_a_handoff(live, client):
    """A compaction is an occasion for a handoff, also while the client lives."""
    project = live.project()
    session = work(live, project, ago=3)
    claim(live, session, client)
    wait_for(lambda: live.call("sessions")["sessions"])
    session.raw(
        session.line("system", subtype="compact_boundary", content="Conversation compacted")
    )

    wait_for(lambda: live.run_due() and handoffs(live, project))


def test_cleared_session_leaves_a_handoff(live, client):
    """After /clear the client claims the old session for ever; the new one proves its end."""
    project = live.project()
    session = work(live, project, ago=10)
    claim(live, session, client)
    wait_for(lambda: live.call("sessions")["sessions"])
    live.session(project).prompt("Something else in a cleared conversation")

    wait_for(lambda: live.run_due() and handoffs(live, project))
    assert session.id in text(live, project)


@pytest.mark.quick
def test_same_session_updates_its_file(live):
    """More work updates the file of the session; its time is that of the last record."""
    project = live.project()
    session = work(live, project, ago=300)
    wait_for(lambda: live.run_due() and handoffs(live, project))
    session.edit(f"{project}/src/shipping.py", timestamp=timestamp(100))

    wait_for(lambda: live.run_due() and "src/shipping.py" in text(live, project))
    assert len(handoffs(live, project)) == 1
    assert 90 < time.time() - handoffs(live, project)[0].stat().st_mtime < 140


@pytest.mark.quick
def test_nothing_for_a_question(live):
    """A session without an edit, a commit or a second prompt leaves nothing."""
    project = live.project()
    session = live.session(project)
    session.prompt("How does the tax module round?", timestamp=timestamp(200))
    session.say("It rounds per invoice.", timestamp=timestamp(199))
    other = live.project("other")
    work(live, other)

    wait_for(lambda: live.run_due() and handoffs(live, other))
    assert handoffs(live, project) == []


@pytest.mark.quick
def test_idle_trigger_fires_once(sandbox):
    """The idle trigger is entered once for a silence, also across a restart."""
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[triggers]\nidle_minutes = 1.0\n")
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    project = sandbox.project()
    work(sandbox, project, ago=61)
    wait_for(lambda: sandbox.run_due() and "triggered" in sandbox.log.read_text())
    sandbox.restart().run_due()

    import sqlite3

    with sqlite3.connect(sandbox.state / "core.db") as db:
        assert [("idle",)] == db.execute("SELECT trigger FROM triggers").fetchall()


def test_daemon_down_at_the_end(sandbox):
    """A session that ended while no daemon ran has its handoff soon after the next start."""
    project = sandbox.project()
    sandbox.transcripts.mkdir(parents=True)
    sandbox.start()
    session = work(sandbox, project, ago=75)
    sandbox.kill()
    session.edit(f"{project}/src/late.py", timestamp=timestamp(60))
    sandbox.start()

    wait_for(lambda: sandbox.run_due() and "src/late.py" in text(sandbox, project))


@pytest.mark.quick
def test_close_of_a_person_is_not_shadowed(live):
    """A handoff that /close wrote stands; only real work after it adds another, based on it."""
    project = live.project()
    session = work(live, project, ago=300)
    directory = handoff_directory(live, project)
    wait_for(lambda: live.run_due() and handoffs(live, project))
    mine = handoffs(live, project)[0]
    words = f"# Handoff — 2026-01-01\n\nsession_id: {session.id}\npurpose: closed by hand\n\n## Done\n- all of it\n\n## Next\n- shipping, then invoices\n"
    mine.write_text(words)
    os.utime(mine, (time.time() - 200, time.time() - 200))
    session.say("You're welcome!", timestamp=timestamp(150))
    live.run_due()
    assert words == mine.read_text()
    assert len(handoffs(live, project)) == 1

    session.edit(f"{project}/src/more.py", timestamp=timestamp(100))
    wait_for(lambda: live.run_due() and len(handoffs(live, project)) == 2)
    assert words == mine.read_text()
    other = next(path for path in handoffs(live, project) if path != mine)
    assert f"based_on: {mine.name}" in other.read_text()
    assert "shipping, then invoices" in other.read_text()
    assert "src/more.py" in other.read_text()
    assert "src/tax.py" not in other.read_text()
    newest = max(directory.glob("*.md"), key=lambda path: path.stat().st_mtime)
    assert other == newest


@pytest.mark.quick
def test_persons_lines_survive(live):
    """Lines that a person adds to our handoff, and those they take out, are respected."""
    project = live.project()
    session = work(live, project, ago=300)
    wait_for(lambda: live.run_due() and handoffs(live, project))
    path = handoffs(live, project)[0]
    path.write_text(path.read_text().replace("## Done\n", "## Done\n- Ann checked the sums\n"))
    os.utime(path, (time.time() - 200, time.time() - 200))
    session.edit(f"{project}/src/more.py", timestamp=timestamp(100))

    wait_for(lambda: live.run_due() and "src/more.py" in path.read_text())
    assert "- Ann checked the sums" in path.read_text()
    assert "based_on: " in path.read_text()


@pytest.mark.quick
def test_paused_leaves_nothing(live):
    """A paused project gets no handoff."""
    project = live.project()
    other = live.project("other")
    live.session(project).prompt("Hello there, please round tax")
    wait_for(lambda: live.call("sessions")["sessions"])
    live.call("pause", project=str(project))
    work(live, project)
    work(live, other)

    wait_for(lambda: live.run_due() and handoffs(live, other))
    assert handoffs(live, project) == []
