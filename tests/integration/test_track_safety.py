"""One project, one record or one session must not harm the others."""

import json
import os
import shutil
import sqlite3

import pytest

from conductor_projects import TRACK, asked, outcomes, records, settings, track, triggers
from conftest import timestamp, wait_for
from written_handoffs import work

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def fired(sandbox, cwd):
    """Return all fired triggers of all projects, the newest first."""
    return asked(sandbox, "triggers", "--all", cwd=cwd)["triggers"]


def looked_at(sandbox, project, kind="track"):
    """Return a row if the project has been seen: any later change is news."""
    asked_for = "SELECT 1 FROM seen JOIN projects ON id = project_id WHERE root = ? AND kind = ?"
    with sqlite3.connect(f"file:{sandbox.state / 'core.db'}?mode=ro", uri=True) as db:
        return db.execute(asked_for, (str(project), kind)).fetchone()


def test_an_odd_history_stays(sandbox):
    """Foreign entries of a history stay as they are, and stop nothing."""
    project = sandbox.project()
    track(project, handoff={"history": ["x", {"section": "?"}]})
    done = asked(sandbox, "create", cwd=project)

    assert "done" == outcomes(done)["7"]
    assert 3 == done["section"]
    text = (project / f"conductor/tracks/{TRACK}/metadata.json").read_text()
    assert ["x", {"section": "?"}] == json.loads(text)["handoff"]["history"][:2]


def test_one_project_does_not_stop_the_others(live):
    """No content of one project's conductor/ stops the examination of the others."""
    bad, good = live.project("bad"), live.project("good")
    bad_track = track(bad, "odd_20260301", handoff={"history": ["x"]}, beads=["no object"])
    (bad_track / "plan.md").unlink()
    os.mkfifo(bad_track / "plan.md")
    (bad / "conductor/workflow.md").mkdir()
    good.joinpath("conductor").mkdir()
    for project in (bad, good):
        work(live, project, ago=5)
    wait_for(live.settled)
    wait_for(lambda: live.run_due() and looked_at(live, good))
    track(good)

    wait_for(lambda: live.run_due() and records(good) and ["design-end"] == triggers(good))


def test_a_finished_track_is_no_obstacle(sandbox):
    """A session whose track was finished, and moved away, is handed off as general work."""
    project = sandbox.project()
    track(project)
    session = work(sandbox, project, ago=5)
    asked(sandbox, "create", "--session", session.id, cwd=project)
    (project / "conductor/archive").mkdir()
    shutil.move(project / f"conductor/tracks/{TRACK}", project / "conductor/archive")
    done = asked(sandbox, "create", "--session", session.id, cwd=project)

    assert ("general", 0) == (done["track"], done["exit"])


def test_exactly_the_track_that_is_named(sandbox):
    """A track's whole name counts before one without its date; of several none is guessed."""
    project = sandbox.project()
    for name in ("auth", "auth_20260301", "my_feature", "pay_20260301", "pay_20260302"):
        track(project, name)

    assert "auth" == asked(sandbox, "create", "--track", "auth", cwd=project)["track"]
    assert 1 == sandbox.handoff("create", "--track", "my", cwd=project).returncode
    choice = asked(sandbox, "create", "--track", "pay", cwd=project, code=1)
    assert "2 tracks are called pay" in choice["steps"][-1]["text"]


def test_a_trigger_moves_no_session(live):
    """Another track's record has nothing of the session, which stays on its own track."""
    project = live.project()
    track(project, "own_20260301")
    session = work(live, project, ago=5)
    wait_for(live.settled)
    asked(live, "create", "--track", "own_20260301", "--session", session.id, cwd=project)
    done = asked(live, "trigger", "design-end", "--track", "own_20260301", cwd=project)
    wait_for(lambda: live.run_due() and looked_at(live, project))
    track(project, "other_20260302")
    wait_for(lambda: live.run_due() and records(project, "other_20260302"))
    text = records(project, "other_20260302")[0].read_text()

    assert "own_20260301" == done["track"]
    assert "Round tax" not in text
    assert "src/tax.py" not in text
    assert "own_20260301" == asked(live, "create", cwd=project)["track"]


def test_an_epic_of_two_work_trees_ends_once(live):
    """Work trees share their issues: a closed epic fires once for all trees."""
    project = live.project()
    (project / ".beads").mkdir()
    issues = project / ".beads/issues.jsonl"

    def epic(status, at):
        line = {"id": "shop-1", "title": "Login", "status": status, "issue_type": "epic"}
        issues.write_text(json.dumps({**line, "priority": 1, "updated_at": at}) + "\n")

    epic("in_progress", timestamp(60))
    live.git(project, "commit", "-q", "--allow-empty", "-m", "first")
    tree = live.home / "code/tree"
    live.git(project, "worktree", "add", "-q", "-b", "auth", str(tree))
    for place in (project, tree):
        work(live, place, ago=5)
    wait_for(live.settled)

    wait_for(lambda: live.run_due() and looked_at(live, project, "epic"))
    epic("closed", timestamp())
    wait_for(lambda: live.run_due() and fired(live, project))
    for _ in range(3):
        live.run_due()

    assert ["epic-end"] == [item["trigger"] for item in fired(live, project)]


@pytest.mark.parametrize("form", ["text", "json"])
def test_resume_shows_nothing_raw(sandbox, form):
    """The text of a record is shown without secrets and terminal codes, and framed."""
    project = sandbox.project()
    track(project)
    settings(project, "  secrets_patterns: ['SHOP_[A-Z0-9]{8}']\n")
    directory = project / "conductor/handoffs" / TRACK
    directory.mkdir(parents=True)
    (directory / "2026-03-01_10-00-00-000_auth_manual.md").write_text(
        f"---\ntimestamp: 2026-03-01T10:00:00Z\ntrigger: manual\ntrack_id: {TRACK}\n---\n"
        f"## Context\n\x1b]0;pwned\x07\x1b[2J {SECRET} SHOP_ABCD1234\n## Next Steps\n"
        f"1. [ ] use {SECRET}\n"
    )
    words = ["--json"] if form == "json" else []
    done = sandbox.handoff("resume", TRACK, "--session", "s-123456", *words, cwd=project)

    assert 0 == done.returncode, done.stderr
    for bad in ("\x1b", SECRET, "SHOP_ABCD1234", "pwned\x07"):
        assert bad not in done.stdout + done.stderr
    told = json.loads(done.stdout)["analysis"] if form == "json" else done.stdout
    assert "<handoffd-context project=" in told
    assert "[redacted:own-1]" in done.stdout


def test_patterns_of_a_repository_are_simple(sandbox):
    """A project's pattern that could search for ever is not used, and `create` reports it."""
    project = sandbox.project()
    track(project)
    settings(project, "  secrets_patterns: ['(a|a)+b', 'KEY_[0-9]{4}']\n")
    (project / f"conductor/tracks/{TRACK}/plan.md").write_text("- [ ] " + "a" * 60 + " KEY_1234\n")
    done = asked(sandbox, "create", cwd=project)
    told = {step["number"]: step["text"] for step in done["steps"]}

    assert "own-1 may hold no groups" in told["3"]
    assert "KEY_1234" not in records(project)[0].read_text()
    refused = sandbox.handoff("create", "--strict", cwd=project)
    assert 1 == refused.returncode
    assert 1 == len(records(project))


def test_a_failed_request_ends(sandbox):
    """A person's request that could not be begun is reported, and not tried again."""
    project = sandbox.project()
    elsewhere = sandbox.home / "elsewhere"
    elsewhere.mkdir()
    (project / "conductor").symlink_to(elsewhere)
    done = sandbox.handoff("create", "--general", cwd=project)

    assert 1 == done.returncode
    assert "conductor is a symlink" in done.stdout + done.stderr
    assert [] == fired(sandbox, project)
    assert [] == os.listdir(elsewhere)


def test_a_session_at_a_permission_prompt_is_idle(sandbox):
    """A tool that waits for a person's permission is no activity."""
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[triggers]\nidle_minutes = 0.1\n")
    sandbox.transcripts.mkdir(parents=True)
    project = sandbox.project()
    track(project)
    sandbox.start()
    session = work(sandbox, project, ago=1)
    block = {"type": "tool_use", "id": "t9", "name": "Bash", "input": {"command": "make"}}
    message = {"role": "assistant", "content": [block]}
    session.raw(session.line("assistant", message=message))
    claims = sandbox.home / ".claude/sessions"
    claims.mkdir()
    claim = {"pid": os.getpid(), "sessionId": session.id, "status": "waiting"}
    (claims / f"{os.getpid()}.json").write_text(json.dumps(claim))

    wait_for(lambda: "idle" in triggers(project))
