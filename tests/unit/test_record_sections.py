"""The sections of a record, and the note for Beads: from a session, a plan and git."""

import pytest

from handoffd.contract.composition import Surroundings, account
from handoffd.tracks.parallel_workers import ParallelWorker
from handoffd.tracks.plan import PlannedWork, Progress, read_plan
from handoffd.tracks.record_sections import RecordFacts, note, progress_text, sections
from scripted_session import ROOT, Told

PLAN = "# Plan\n## Phase 1\n- [x] Keys\n- [~] Tokens\n- [ ] Refresh\n- [!] Rotate keys\n"


def facts(told=None, plan=PLAN, **more):
    state = told.folded() if told else None
    left = account(state, ROOT, Surroundings("2026-03-01")) if state else None
    found = read_plan(plan)
    return RecordFacts(
        "auth_20260301",
        found.progress,
        found.phase,
        *PlannedWork.of_plan(found),
        left,
        state,
        **more,
    )


def worked():
    told = Told()
    told.prompt("Round tax per line in the invoice module")
    told.edit("src/tax.py")
    told.edit("src/tax.py")
    told.edit("src/line.py")
    return told


def test_four_sections():
    """A record has the template's four sections, with any facts."""
    assert ["Context", "Changes", "Learnings", "Next Steps"] == list(sections(facts(), ROOT))


def test_context_names_track_phase_decisions_and_progress():
    """Context has the goal, and the track's state."""
    told = worked()
    call = told.use("AskUserQuestion", questions=[{"question": "Which rounding?"}])
    told.result(call, "x", toolUseResult={"answers": {"Which rounding?": "half up"}})
    lines = sections(facts(told, git="main, clean"), ROOT)["Context"]

    assert "Round tax per line in the invoice module" == lines[0]
    assert "- Track: auth_20260301" in lines
    assert "- Phase: Phase 1" in lines
    assert "- Decisions made: Which rounding? half up" in lines
    assert "- Progress: 25% (1/4 tasks, by the plan)" in lines
    assert "- Git: main, clean" in lines


def test_without_a_session_the_disk_tells():
    """Without a session the plan and git give the sections."""
    found = sections(facts(uncommitted=["a.py"]), ROOT)

    assert "Phase 1: 25% (1/4 tasks, by the plan)" == found["Context"][0]
    assert ["- `a.py` - uncommitted"] == found["Changes"]
    assert ["1. [ ] Tokens", "2. [ ] Refresh", "3. [ ] Rotate keys (blocked)"] == found[
        "Next Steps"
    ]


def test_changes_name_each_file_once():
    """Changes name each edited file once, the latest first, with its state in git."""
    found = sections(facts(worked(), uncommitted=["src/tax.py", "b.py"]), ROOT)

    assert [
        "- `src/line.py` - edited",
        "- `src/tax.py` - edited 2 times, uncommitted",
        "- `b.py` - uncommitted",
    ] == found["Changes"]


def test_a_backtick_in_a_name_breaks_nothing():
    """A backtick in a file's name cannot end its quotation."""
    assert ["- `a'b` - uncommitted"] == sections(facts(uncommitted=["a`b"]), ROOT)["Changes"]


def test_learnings_are_what_went_wrong():
    """Learnings hold failures and risks, such as red tests."""
    told = worked()
    told.run("pytest -q", "1 failed, 3 passed in 0.1s", code=1)

    assert any("Tests red: pytest -q" in line for line in sections(facts(told), ROOT)["Learnings"])


def test_next_steps_are_the_sessions_then_the_plans():
    """The session's announced steps come before the plan's open tasks."""
    told = worked()
    told.say("Done with tax. Next, I'll write the shipping tests.")
    steps = sections(facts(told), ROOT)["Next Steps"]

    assert steps[0].startswith("1. [ ] ")
    assert "shipping tests" in steps[1]
    assert steps[2].endswith("Tokens")
    assert len(steps) <= 7


def test_workers_have_a_section_of_their_own():
    """Each worker's state is kept: status, task and files."""
    worker = ParallelWorker("auth", "running", "Write tokens", "bd-1", ("src/a.py",), active=True)

    assert ["- auth: running; Write tokens; bd-1; owns `src/a.py`"] == sections(
        facts(workers=[worker]), ROOT
    )["Parallel Workers"]


@pytest.mark.seed("003", "COMPLETED: Tasks 1-N (X% of track)")
def test_note_has_the_six_lines():
    """The note for Beads has the seed's six lines, in its order."""
    assert [
        "COMPLETED: Tasks 1-1 (25% of track)",
        "KEY DECISIONS: none",
        "IN PROGRESS: Tokens",
        "NEXT: Refresh",
        "BLOCKER: Rotate keys",
        "HANDOFF: Section 3 saved at conductor/handoffs/x.md",
    ] == note(facts(), 3, "conductor/handoffs/x.md").split("\n")


def test_note_of_an_empty_track():
    """Without facts every line is still there, and says so."""
    empty = RecordFacts("auth", Progress())

    assert [
        "COMPLETED: none (0% of track)",
        "KEY DECISIONS: none",
        "IN PROGRESS: none",
        "NEXT: none",
        "BLOCKER: none",
        "HANDOFF: Section 1 saved at x.md",
    ] == note(empty, 1, "x.md").split("\n")


def test_progress_in_words():
    """The percentage comes with the tasks and their source; no tasks are 0 of 0."""
    assert "41% (5/12 tasks, by Beads)" == progress_text(Progress(5, 12, "beads"))
    assert "0% (0/0 tasks)" == progress_text(Progress())
