"""A project laid out as the commands of Conductor-Beads do, with a real bd, and kills on the way.

The epic has phases, and these have tasks; only tasks are closed, metadata.json stays at `new`, and
conductor/tracks.md has the marks.
"""

import json
import shutil

import pytest

from beads_world import REAL
from conductor_projects import (
    QUICK,
    TRACK,
    Witness,
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
    mark,
    names_fired,
    records,
    run_after,
    said,
    settings,
    stored,
    track,
    triggers,
    with_beads,
)
from conftest import wait_for
from written_handoffs import work

PLAN = """# Implementation Plan

## Phase 1: Tokens
- [ ] Task: Choose the algorithm
- [ ] Task: Rotate the keys
- [ ] Task: Write the signer

## Phase 2: Login
- [ ] Task: Build the form
- [ ] Task: Test the form
- [ ] Task: Write it up
"""
THEIRS = f"""# Handoff: Log in with signed tokens

**Track:** {TRACK}
**Section:** 1

## Progress Summary

Half of phase 1 is done.

## Code Changes Summary

- `sign.py` - the signer

## Next Steps

1. Rotate the keys every month
"""


@pytest.fixture
def sandbox(sandbox):
    """A HOME whose daemon looks more often."""
    return run_after(sandbox, QUICK)


@pytest.mark.seed("003", "| `design-end` | After `/conductor-newtrack`")
@pytest.mark.seed("003", "| `epic-start` | Before each epic")
@pytest.mark.seed("003", "| `epic-end` | After epic closes")
@pytest.mark.seed("003", "| `pre-finish` | Start of `/conductor-finish`")
@pytest.mark.seed("003", "Run `/conductor-handoff resume` internally")
@pytest.mark.seed("003", "Load beads context (`bd show <epic>`)")
@pytest.mark.seed("003", "Calculate and display progress %")
@pytest.mark.seed("003", "Create epic-start handoff")
@pytest.mark.seed("003", "Beads sync saves context on every handoff")
@pytest.mark.seed("003", "Progress % displays on resume")
@pytest.mark.parametrize("line", list(REAL))
def test_from_new_track_to_finish(sandbox, client, tmp_path_factory, line):
    """Each trigger fires once although daemons are killed, and progress counts the tasks."""
    beads = with_beads(sandbox, line, tmp_path_factory)
    project = beads.root
    (project / ".gitignore").write_text(".beads/\n.flow-guardian/\n")
    settings(project, "  idle_threshold_minutes: 0\n")
    track(project, "other_20260101", status="new")
    mark(project, " ", "other_20260101", "Something else")
    commit(sandbox, project, "the beginning")
    sandbox.start()
    session = sandbox.session(project)
    claim(sandbox, session, client)

    epic, tasks = new_track(sandbox, beads, project, session, line)
    implement(sandbox, project, session, epic)
    # As it is marked and its tasks are taken up, nothing starts a second time.
    mark(project, "~")
    for number, task in enumerate(tasks[:5], 1):
        beads.bd("update", task, "--status", "in_progress")
        tick(project, number)
        beads.bd("close", task)
    assert_progress(sandbox, project, session, beads.notes, epic)
    resume_theirs(sandbox, project)
    sandbox.kill()
    tick(project, 6)
    beads.bd("close", tasks[5])
    sandbox.start()
    happened(sandbox, project, "epic-end", 4)
    assert epic == history(project)[3]["bead_id"]
    assert (6, 6) == (history(project)[3]["tasks_completed"], history(project)[3]["tasks_total"])
    sandbox.kill()
    mark(project, "x")
    sandbox.start()
    command(session, "conductor-finish", TRACK)
    happened(sandbox, project, "pre-finish", 5)
    beads.bd("close", epic, "--force") if line == "current" else beads.bd("close", epic)
    sandbox.restart()
    wait_for(sandbox.settled)
    wait_for(lambda: at_rest(sandbox))

    order = ["design-end", "epic-start", "manual", "epic-end", "pre-finish"]
    assert order == triggers(project) == names_fired(sandbox, project)
    assert 5 == len(assert_whole(project))
    assert 5 == beads.notes(epic).count("HANDOFF: Section ")
    assert [] == records(project, "general")
    assert "new" == metadata(project)["status"]
    archive(sandbox, project, epic)
    wait_for(lambda: at_rest(sandbox))
    assert order == names_fired(sandbox, project)
    wait_for(lambda: beads_left(beads) == [])


def test_what_a_branch_or_an_older_version_hides(sandbox, tmp_path_factory):
    """A track that is away for a while ends no epic twice; what was so before is no news."""
    beads = with_beads(sandbox, "current", tmp_path_factory, how="scripted")
    project, witness = beads.root, Witness(sandbox)
    epic = beads.epic()
    task = beads.child(beads.child(epic, "Phase 1"))
    track(project, status="new", beads_epic=epic)
    commit(sandbox, project)
    work(sandbox, project, ago=2)
    sandbox.start()
    wait_for(lambda: stored(sandbox, "SELECT 1 FROM seen WHERE name = ?", epic))
    beads.bd("close", task)
    wait_for(lambda: triggers(project) == ["epic-end"])
    away = project / "conductor/tracks"
    away.rename(project / "away")
    witness.look(2)
    (project / "away").rename(away)
    witness.look(2)
    wait_for(lambda: at_rest(sandbox))
    assert ["epic-end"] == names_fired(sandbox, project)

    # As a version left it that observed only the status of the epic itself.
    sandbox.stop()
    stored(sandbox, "UPDATE seen SET status = 'open' WHERE name = ?", epic)
    stored(sandbox, "DELETE FROM seen WHERE kind = 'rule'")
    sandbox.start()
    seen = "SELECT 1 FROM seen WHERE name = ? AND status = 'closed by its track'"
    wait_for(lambda: stored(sandbox, seen, epic))
    assert ["epic-end"] == names_fired(sandbox, project)


def new_track(sandbox, beads, project, session, line):
    """Do what /conductor-newtrack does: documents, the mark, then the epic, phases and tasks."""
    command(session, "conductor-newtrack", "Log in with signed tokens")
    call_tool(session)
    wait_for(lambda: is_seen(sandbox, project))
    directory = track(project, plan=PLAN, status="new")
    mark(project, " ")
    epic = beads.epic(f"{TRACK}: Log in with signed tokens")
    phases = [beads.child(epic, f"Phase {number}") for number in (1, 2)]
    named = {}
    for number, phase in enumerate(phases, 1):
        named[f"phase{number}"] = phase
        for task in (1, 2, 3):
            named[f"phase{number}_task{task}"] = beads.child(phase, f"Task {number}.{task}")
    beads.bd("dep", "add", phases[1], phases[0])
    keys = {"classic": ("beads_epic", "beads_tasks"), "current": ("beads_epic_id", "beads_tasks")}
    data = {**metadata(project), **dict(zip(keys[line], (epic, named), strict=True))}
    (directory / "metadata.json").write_text(json.dumps(data, indent=2) + "\n")
    end_tool(session)
    session.say("The track is designed.")
    happened(sandbox, project, "design-end", 1)
    return epic, [task for key, task in named.items() if "_" in key]


def implement(sandbox, project, session, epic):
    """Give the command twice, with a kill between: the epic starts once."""
    command(session, "conductor-implement", TRACK)
    happened(sandbox, project, "epic-start", 2)
    assert (epic, "active") == (history(project)[1]["bead_id"], handoff(project)["status"])
    sandbox.kill()
    command(session, "conductor-implement", "auth")
    sandbox.start()
    wait_for(sandbox.settled)


def assert_progress(sandbox, project, session, notes, epic):
    """Check that the five closed tasks of six are the progress, everywhere."""
    wait_for(lambda: len(sandbox.call("sessions")["sessions"]) == 1)
    data = asked(sandbox, "create", "--session", session.id, cwd=project)
    expected = {"percent": 83, "done": 5, "total": 6, "source": "beads"}
    assert (TRACK, expected, "") == (data["track"], data["progress"], data["disagreement"])
    assert (83, 3) == (handoff(project)["progress_percent"], len(history(project)))
    wait_for(lambda: at_rest(sandbox))
    assert "COMPLETED: Tasks 1-5 (83% of track)" in notes(epic)


def resume_theirs(sandbox, project):
    """A handoff of theirs is taken by its path; beside a newer record it is not the newest."""
    name = f"conductor/tracks/{TRACK}/handoff_20260302_101500.md"
    (project / name).write_text(THEIRS)
    data = asked(sandbox, "resume", name, cwd=project)
    assert (TRACK, name) == (data["track"], data["source"])
    assert "2026-03-02" == data["record"]["timestamp"][:10]
    assert "Rotate the keys every month" in [item["content"] for item in data["todos"]["TodoWrite"]]
    assert ["sign.py"] == data["drift"]["deleted"]
    assert ["Task 2.3"] == [issue["title"] for issue in data["beads"]["ready"]]
    assert asked(sandbox, "resume", TRACK, cwd=project)["source"].startswith("conductor/handoffs/")


def archive(sandbox, project, epic):
    """A track in conductor/archive is resumed, by its short name, with its metadata."""
    (project / "conductor/archive").mkdir()
    shutil.move(project / f"conductor/tracks/{TRACK}", project / f"conductor/archive/{TRACK}")
    (project / "conductor/tracks.md").write_text("# Project Tracks\n")
    data = asked(sandbox, "resume", "auth", cwd=project)
    assert (TRACK, epic) == (data["track"], data["beads"]["epic"]["id"])
    assert (100, 6) == (data["progress"]["percent"], data["progress"]["total"])
    assert "done" == next(step["outcome"] for step in data["steps"] if step["number"] == "9")
    assert "active" == said(data, "9")
    kept = json.loads((project / f"conductor/archive/{TRACK}/metadata.json").read_text())
    assert (5, "active") == (kept["handoff"]["section_count"], kept["handoff"]["status"])


def tick(project, number):
    path = project / f"conductor/tracks/{TRACK}/plan.md"
    parts = path.read_text().split("- [ ] ", 1)
    assert number == parts[0].count("- [x]") + 1
    path.write_text("- [x] ".join(parts))


def metadata(project):
    return json.loads((project / f"conductor/tracks/{TRACK}/metadata.json").read_text())


def happened(sandbox, project, trigger, number):
    wait_for(lambda: triggers(project)[number - 1 :] == [trigger], what=trigger)
    wait_for(lambda: at_rest(sandbox))
