"""Several sessions of one project: which one is told, who speaks, and what the others do."""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from conftest import DaemonSandbox, Session, timestamp, wait_for
from integration.test_hooks import Hooked, new_id, state_in, worked
from integration.test_thread_mentions import kept, thread, used

DAY = 86400.0
OTHER = "Write the changelog for the release"


@pytest.fixture
def hooks(live: DaemonSandbox) -> Hooked:
    return Hooked(live, live.project())


def worked_in(sandbox: DaemonSandbox, place: Path, goal: str, ago: float = 0, **more) -> Session:
    """Return a session that has edited a file in a directory, and announced the next step."""
    session = sandbox.session(place, **more)
    at = {"timestamp": timestamp(ago)}
    session.prompt(goal, **at)
    session.edit(f"{place}/tax.py", **at)
    session.say("I'll add a test for the rounding next.", **at)
    wait_for(lambda: any(session.id == lane["session_id"] for lane in sandbox.show(place)["lanes"]))
    return session


def asked(hooks: Hooked, text: str, answer: str, **more) -> Session:
    """Return a session in which something was asked and answered, and nothing was done."""
    session = hooks.sandbox.session(hooks.project, **more)
    session.prompt(text)
    session.say(answer)
    wait_for(
        lambda: any(
            lane["session_id"] == session.id and lane["records"] > 1
            for lane in hooks.sandbox.show(hooks.project)["lanes"]
        )
    )
    return session


def rows(sandbox: DaemonSandbox, query: str) -> list[tuple]:
    with contextlib.closing(sqlite3.connect(sandbox.state / "state.db")) as db:
        return db.execute(query).fetchall()


# Who speaks


def test_a_brief_says_who_was_killed_and_when(hooks):
    """The heading names the session, that its client was killed, and how long ago it worked."""
    claims = hooks.sandbox.home / ".claude/sessions"
    claims.mkdir(parents=True)
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    session = hooks.sandbox.session(hooks.project)
    claim = {"pid": gone.pid, "sessionId": session.id, "cwd": str(hooks.project)}
    (claims / f"{gone.pid}.json").write_text(json.dumps(claim))
    at = {"timestamp": timestamp(21 * 60 + 5)}
    session.prompt("Round tax per line", **at)
    session.edit(f"{hooks.project}/tax.py", **at)
    wait_for(lambda: hooks.sandbox.run_due() and rows(hooks.sandbox, "SELECT how FROM ended"))
    told = hooks.start(new_id())

    assert f"\n## Left by session {session.id[:8]}, killed 21 minutes ago\n" in told
    assert [("killed",)] == rows(hooks.sandbox, "SELECT how FROM ended")
    assert "Current Session State" not in told


def test_a_brief_says_who_ended_and_when(hooks):
    """A session whose client has reported its end has ended, also after a restart of the daemon."""
    session = worked(hooks)
    hooks.fire("SessionEnd", session.id, reason="other")
    heading = f"\n## Left by session {session.id[:8]}, ended just now\n"
    assert heading in hooks.start(new_id())
    hooks.sandbox.restart()

    assert heading in hooks.start(new_id())


def test_the_age_is_no_news(hooks):
    """A session that was told is not told again only because a state became a minute older."""
    mine = worked(hooks, ago_seconds=300)
    other = worked(hooks, OTHER, ago_seconds=118)
    first = hooks.start(mine.id, "resume")

    assert f"session {other.id[:8]} is at work here, last active" in first
    wait_for(lambda: "last active 2 minutes ago" in hooks.start(new_id()))
    assert "" == hooks.start(mine.id, "resume")


# Two live sessions


@pytest.mark.quick
def test_a_live_session_is_told_as_live(hooks):
    """A second session is told that the first one is at work now, and what it edits."""
    first = worked(hooks)
    told = hooks.start(new_id())

    assert f"\n## Live: session {first.id[:8]} is at work here, last active just now\n" in told
    assert "A record of earlier work, and of work that goes on, in this project" in told
    assert "\n**It edits:** tax.py\n" in told


def test_two_that_change_a_file_are_warned(hooks):
    """A session is told once, at its next prompt, that a live one changes the same file."""
    first = worked(hooks)
    second = worked(hooks, OTHER)
    first.edit(f"{hooks.project}/tax.py")
    line = wait_for(lambda: hooks.prompt(first.id))

    assert f"Another live session changes the same file: tax.py (session {second.id[:8]})" in line
    assert 1 == line.count("\n")
    assert "" == hooks.prompt(first.id)
    assert f"(session {first.id[:8]})" in hooks.prompt(second.id)
    told = hooks.start(first.id, "compact")
    assert "**Two sessions change the same file:** tax.py (session " in told


def test_a_call_for_a_person_outlives_newer_handoffs(hooks):
    """A call for a person stays in the brief after another session has left a newer handoff."""
    first = worked(hooks, ago_seconds=120)
    for words in (
        ("--session", first.id, "--done", "half of it", "--escalate", "the key in CI has expired"),
        ("--session", worked(hooks, OTHER).id, "--done", "the changelog"),
    ):
        done = hooks.sandbox.handoff("close", *words, cwd=hooks.project)
        assert 0 == done.returncode, done.stderr

    assert state_in(hooks.start(new_id())).startswith(
        "**HUMAN REVIEW NEEDED:** the key in CI has expired\n"
    )


# Which session is told


@pytest.mark.quick
def test_an_aside_is_not_the_goal(hooks):
    """A question in another session, or in an older one that worked, leaves the goal in place."""
    older = worked(hooks, OTHER, ago_seconds=600)
    worked(hooks, ago_seconds=300)
    asked(hooks, "How many tests does the payment module have?", "It has 14 tests.")
    older.prompt("Which day is it?")
    older.say("It is Monday.")

    def lanes() -> list[dict]:
        return hooks.sandbox.show(hooks.project)["lanes"]

    wait_for(lambda: [5] == [lane["records"] for lane in lanes() if lane["session_id"] == older.id])
    assert ["Round tax per line"] == [lane["goal"] for lane in lanes() if lane["main"]]
    assert "**Goal:** Round tax per line\n" in hooks.start(new_id())


def test_a_program_that_worked_is_continued(hooks):
    """After work by `claude -p`, a session that only says "continue" has the program's goal."""
    worked(hooks, entrypoint="sdk-cli", ago_seconds=60)
    session = hooks.sandbox.session(hooks.project)
    session.prompt("continue")
    session.say("I go on with it.")

    found = wait_for(
        lambda: (d := hooks.sandbox.document(hooks.project))["session_id"] == session.id and d
    )
    assert "Round tax per line" == found["goal"]


def test_other_unfinished_goals_are_one_line_each(hooks):
    """Other goals that were worked on and not reached are told in one line with their age."""
    older = worked(hooks, OTHER, ago_seconds=3 * DAY)
    worked(hooks)
    told = hooks.start(new_id())

    assert f"**Also unfinished (session {older.id[:8]}, 3 days ago):** {OTHER}\n" in told
    assert [older.id] == hooks.sandbox.show(hooks.project)["unfinished"]
    shown = hooks.sandbox.handoff("show", cwd=hooks.project).stdout
    assert re.search(rf"unfinished +{older.id[:8]}: {OTHER}", shown)


def test_old_open_items_are_counted(hooks):
    """An open item that nobody touched for two weeks is one line; `handoff show` has its words."""
    session = worked_in(hooks.sandbox, hooks.project, "Round tax per line", ago=15 * DAY)
    session.edit(f"{hooks.project}/invoice.py")
    wait_for(lambda: "invoice.py" in str(hooks.sandbox.document(hooks.project)["files"]))
    found = hooks.sandbox.show(hooks.project)

    assert "next" not in found["document"]
    assert found["parked"]
    told = hooks.start(new_id())
    assert f"**Parked:** {len(found['parked'])} older open item" in told
    assert found["parked"][0] not in told.replace("**Goal:** Round tax per line", "")
    assert "older items" in hooks.sandbox.handoff("show", cwd=hooks.project).stdout


# Work trees, background agents and packages


@pytest.mark.quick
def test_a_worktree_is_told_in_the_main_checkout(hooks):
    """An agent's work in a work tree is a lane of the main checkout, and the other way round."""
    sandbox, project = hooks.sandbox, hooks.project
    sandbox.git(project, "commit", "-q", "--allow-empty", "-m", "begin")
    place = project / ".claude/worktrees/changelog"
    sandbox.git(project, "worktree", "add", "-q", "-b", "changelog", str(place))
    here = worked(hooks)
    there = worked_in(sandbox, place, OTHER, sessionKind="bg")
    jobs = sandbox.home / f".claude/jobs/{there.id[:8]}"
    jobs.mkdir(parents=True)
    job = {"sessionId": there.id, "cwd": str(place), "state": "working", "intent": OTHER}
    (jobs / "state.json").write_text(json.dumps(job))

    def told() -> str:
        found = hooks.start(new_id())
        return found if "working" in found else ""

    line = f"work tree .claude/worktrees/changelog, session {there.id[:8]}, live, working: {OTHER}"
    assert f"**Elsewhere:** {line} (edits tax.py)\n" in wait_for(told)
    assert "**Goal:** Round tax per line\n" in told()
    lanes = {lane["session_id"]: lane for lane in sandbox.show(project)["lanes"]}
    expected = ("worktree", ".claude/worktrees/changelog", "working")
    assert expected == tuple(lanes[there.id][name] for name in ("relation", "place", "job"))
    assert lanes[here.id]["relation"] is None
    back = [lane for lane in sandbox.show(place)["lanes"] if lane["relation"]]
    assert [(here.id, str(project))] == [(lane["session_id"], lane["place"]) for lane in back]


def test_a_removed_worktree_is_still_told(hooks):
    """The work of an agent is told in the main checkout after its work tree was removed."""
    place = hooks.project / ".claude/worktrees/gone"
    place.mkdir(parents=True)
    (place / ".git").write_text("gitdir: /nowhere\n")
    there = worked_in(hooks.sandbox, place, OTHER)
    shutil.rmtree(place)

    assert f"session {there.id[:8]}, live: {OTHER}" in hooks.start(new_id())


def test_a_background_agent_without_a_transcript(hooks):
    """A background agent is told by what it was asked for, and no secret setting of it is kept."""
    worked(hooks)
    jobs = hooks.sandbox.home / ".claude/jobs"
    for name, state in (("1a2b3c4d", "working"), ("5e6f7a8b", "done")):
        (jobs / name).mkdir(parents=True)
        job = {
            "cwd": str(hooks.project), "state": state, "intent": f"{OTHER} {state}",
            "providerEnv": {"TOKEN": "tell-nobody"},
        }  # fmt: skip
        (jobs / name / "state.json").write_text(json.dumps(job))
    (jobs / "pins.json").write_text("{}")

    wait_for(lambda: "background agent," in hooks.start(new_id()))
    told = hooks.start(new_id())
    assert f"**Elsewhere:** background agent, session 1a2b3c4d, live, working: {OTHER} wo" in told
    assert "done" not in told
    assert "tell-nobody" not in json.dumps(hooks.sandbox.show(hooks.project)) + told


def test_a_package_and_its_root_point_to_each_other(hooks):
    """A package with its own marker tells of the root's work, and the root of the package's."""
    package = hooks.project / "packages/api"
    package.mkdir(parents=True)
    (package / "pyproject.toml").write_text("")
    root = worked(hooks)
    inner = worked_in(hooks.sandbox, package, OTHER)

    line = f"**Elsewhere:** package packages/api, session {inner.id[:8]}, live: {OTHER}"
    assert line in hooks.start(new_id())
    inside = Hooked(hooks.sandbox, package).start(new_id())
    assert f"**Goal:** {OTHER}\n" in inside
    around = f"the project around this one, {hooks.project}, session {root.id[:8]}, live: Round tax"
    assert f"**Elsewhere:** {around}" in inside


def test_the_home_directory_is_no_project_around(hooks):
    """Sessions in $HOME and in a project there are not told of each other: $HOME is no project."""
    home = hooks.sandbox.home
    worked_in(hooks.sandbox, home, OTHER)
    worked(hooks)

    assert "Elsewhere" not in hooks.start(new_id())
    told = Hooked(hooks.sandbox, home).start(new_id())
    assert OTHER in told
    assert "Elsewhere" not in told


def test_a_forgotten_package_is_told_nowhere(hooks):
    """`forget` in a package erases its words from the brief on disk of the project around it."""
    package = hooks.project / "packages/api"
    package.mkdir(parents=True)
    (package / "pyproject.toml").write_text("")
    shared = used(hooks.sandbox, hooks.project)
    thread(hooks.sandbox, "add", shared, "task", "Go on")
    wait_for(lambda: f"{shared} (1)" in kept(hooks.sandbox))
    worked_in(hooks.sandbox, package, OTHER)
    wait_for(lambda: "**Elsewhere:** package packages/api, session " in kept(hooks.sandbox))
    done = hooks.sandbox.handoff("forget", "--yes", cwd=package)
    assert 0 == done.returncode, done.stderr

    assert OTHER not in kept(hooks.sandbox)
    wait_for(lambda: f"{shared} (1)" in kept(hooks.sandbox))
    assert OTHER not in kept(hooks.sandbox)


# An old state


@pytest.mark.quick
def test_a_brief_from_disk_says_how_old_it_is(hooks):
    """Without a daemon the brief says so, and when it was written; it names no session as live."""
    session = worked(hooks)
    hooks.sandbox.run_due()
    (kept,) = wait_for(lambda: list((hooks.sandbox.state / "briefs").iterdir()))
    hooks.sandbox.stop()
    os.utime(kept, (kept.stat().st_atime, kept.stat().st_mtime - 3 * 3600 - 60))
    told = hooks.fire_client("SessionStart", new_id(), source="startup")

    assert f"\n## Left by session {session.id[:8]}, last active just now\n\n**Not up" in told
    assert (
        "\n**Not up to date:** handoffd is not running; this was written 3 hours ago,"
        " and later work may be missing.\n**Goal:** Round tax per line\n" in told
    )
    assert len(told.encode()) <= 2048


def test_a_daemon_that_still_reads_says_so(sandbox):
    """A session that asks before the transcripts are read is told that the state may be old."""
    sandbox.transcripts.mkdir(parents=True)
    hooks = Hooked(sandbox.start(), sandbox.project())
    session = worked(hooks)
    sandbox.stop()
    filler = session.line("user", message={"role": "user", "content": "x" * 2000}, isMeta=True)
    session.raw(filler * 60000)
    session.prompt("Round shipping per parcel, too")
    sandbox.start()
    first = hooks.start(new_id())

    assert "**Not up to date:** handoffd has just started, and still reads transcripts\n" in first
    wait_for(sandbox.settled)
    assert "Not up to date" not in hooks.start(new_id())


# Another version of the fold


def of_an_older_version(sandbox: DaemonSandbox) -> None:
    """Let state.db look as if an older version had folded every session."""
    with contextlib.closing(sqlite3.connect(sandbox.state / "state.db")) as db, db:
        db.execute(
            "UPDATE sessions SET fold_version = 1,"
            " fold = json_remove(json_set(fold, '$.files', 'odd', '$.goal', json_array("
            "'An old understanding', json(json_extract(fold, '$.work.request[1]')))), '$.work')"
        )


def test_a_session_without_a_transcript_keeps_its_old_state(hooks):
    """If the transcript is gone, an older version's state stays and says so; so do its marks."""
    session = worked(hooks)
    hooks.fire("SessionEnd", session.id, reason="other")
    reader = new_id()
    told = hooks.start(reader)
    worked_in(hooks.sandbox, hooks.project, OTHER, ago=3600)
    known = rows(hooks.sandbox, "SELECT session_id FROM ended")
    hooks.sandbox.stop()
    session.path.unlink()
    of_an_older_version(hooks.sandbox)
    hooks.sandbox.start()
    wait_for(hooks.sandbox.settled)
    found = {lane["session_id"]: lane for lane in hooks.sandbox.show(hooks.project)["lanes"]}

    assert "Round tax per line" in told
    assert ("An old understanding", True) == (
        found[session.id]["goal"], found[session.id]["outdated"],
    )  # fmt: skip
    assert [False] == [lane["outdated"] for name, lane in found.items() if name != session.id]
    assert known == rows(hooks.sandbox, "SELECT session_id FROM ended")
    brief = hooks.start(new_id())
    assert "**From an older version:** " in brief
    assert "**Goal:** An old understanding\n" in brief
    listed = json.loads(hooks.sandbox.handoff("sessions", "--json").stdout)["sessions"]
    assert {session.id} == {item["session_id"] for item in listed if item["outdated"]}


def test_a_session_is_read_anew(hooks):
    """With its transcript there, a session of an older version is folded anew, and nothing else."""
    session = worked(hooks)
    hooks.fire("SessionEnd", session.id, reason="other")
    mine = new_id()
    hooks.sandbox.session(hooks.project, mine).prompt("continue")
    wait_for(lambda: len(hooks.sandbox.show(hooks.project)["lanes"]) == 2)
    hooks.start(mine, "clear")
    wait_for(lambda: rows(hooks.sandbox, "SELECT * FROM told"))
    before = [rows(hooks.sandbox, f"SELECT * FROM {table}") for table in ("told", "ended")]
    hooks.sandbox.stop()
    of_an_older_version(hooks.sandbox)
    hooks.sandbox.start()

    def anew() -> bool:
        lanes = hooks.sandbox.show(hooks.project)["lanes"]
        return len(lanes) == 2 and not any(lane["outdated"] for lane in lanes)

    wait_for(anew)
    assert "Round tax per line" == hooks.sandbox.document(hooks.project)["goal"]
    assert before == [rows(hooks.sandbox, f"SELECT * FROM {table}") for table in ("told", "ended")]
    assert all(before)


# The history


@pytest.mark.quick
def test_the_log_says_what_changed_and_why(hooks):
    """`handoff show --log` has goal, status and next items with age and words, as text and JSON."""
    session = worked(hooks)
    hooks.sandbox.run_due()
    session.prompt("Actually, forget the tax. Sort the parcels by weight in parcels.py instead.")
    session.edit(f"{hooks.project}/parcels.py")
    wait_for(lambda: "parcels" in str(hooks.sandbox.document(hooks.project)["files"]))
    done = hooks.sandbox.handoff("save", "--status", "blocked", cwd=hooks.project)
    assert 0 == done.returncode
    hooks.sandbox.run_due()

    def log() -> list[dict]:
        shown = hooks.sandbox.handoff("show", "--log", "--json", cwd=hooks.project)
        return json.loads(shown.stdout)["log"]

    wait_for(lambda: "blocked" in [entry["after"] for entry in log()])
    entries = log()
    first = next(entry for entry in reversed(entries) if entry["field"] == "goal")
    assert (None, "Round tax per line") == (first["before"], first["after"])
    assert "Round tax per line" == first["words"]
    assert session.id == first["session_id"]
    assert any(entry["field"] == "next" and entry["added"] for entry in entries)
    text = hooks.sandbox.handoff("show", "--log", cwd=hooks.project).stdout
    assert re.search(r"(?m)^\d+ s ago +status +\w+ → blocked$", text)
    assert "because a person set it" in text
    assert f"because: “Round tax per line” (session {session.id[:8]})" in text
    assert not re.search(r"\d\d\d\d-\d\d-\d\dT", text)


def test_the_log_is_forgotten_with_the_project(hooks):
    """`handoff forget` deletes the history of the project, too."""
    worked(hooks)
    hooks.sandbox.run_due()
    wait_for(lambda: rows(hooks.sandbox, "SELECT * FROM changes"))
    done = hooks.sandbox.handoff("forget", "--yes", str(hooks.project))

    assert 0 == done.returncode, done.stderr
    assert [] == rows(hooks.sandbox, "SELECT * FROM changes")
