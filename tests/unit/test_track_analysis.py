"""A record compared with the present: drift, analysis, and the steps to do."""

import pytest

from handoffd.tracks.analysis import CurrentTree, TrackProgress, drift, present, todos
from handoffd.tracks.plan import Progress
from handoffd.tracks.record import TrackRecord

RECORD = TrackRecord(
    "2026-03-01T09:00:00.000Z",
    "epic-end",
    "auth_20260301",
    git_commit="abc123f",
    git_branch="main",
    sections={"Context": ["About auth"], "Changes": ["- `a.py:1-4` - x", "- `b.py` - y"]},
)
SAME = CurrentTree("main", commit="abc123f", commits=0)


def lines(age_seconds=60.0, **found):
    told = drift(RECORD, age_seconds, 7.0, SAME._replace(**found))
    return {line.what: (line.same, line.text) for line in told.lines}


def test_nothing_moved():
    """For a record that is still true every compared point says so."""
    assert {
        "Branch": (True, "main (matches)"),
        "Commits": (True, "none since abc123f"),
        "Age": (True, "1 min (acceptable)"),
        "Files": (True, "as they were"),
    } == lines()


def test_branch():
    """Another branch, or none, is reported with the former branch."""
    assert (False, "was main, now fix") == lines(branch="fix")["Branch"]
    assert (False, "was main, now (detached)") == lines(branch="", detached=True)["Branch"]


def test_commits():
    """Commits since are counted, and an unknown commit is reported."""
    assert (False, "3 since abc123f") == lines(commits=3)["Commits"]
    assert (False, "abc123f is unknown here") == lines(commits=None)["Commits"]


@pytest.mark.parametrize(
    ("age", "told"),
    [
        (7200.0, (True, "2 h (acceptable)")),
        (86400.0, (True, "1 day (acceptable)")),
        (3 * 86400.0, (True, "3 days (acceptable)")),
        (8 * 86400.0, (False, "8 days (stale)")),
    ],
)
def test_age(age, told):
    """A record is stale after the allowed number of days."""
    assert told == lines(age)["Age"]


def test_files():
    """Only files that the record names count: deleted ones, and ones changed since."""
    found = drift(
        RECORD, 0.0, 7.0, SAME._replace(missing={"b.py"}, changed={"a.py", "b.py", "c.py"})
    )

    assert (["b.py"], ["a.py"]) == (found.deleted, found.modified)
    assert "moved: files" == found.brief


def test_red_tests_are_said():
    """Tests that were red at last are part of the drift."""
    assert (False, "last seen red: 2 failed") == lines(red_tests="2 failed")["Tests"]


def test_silent_git_is_said():
    """If git does not answer, the branch is not reported as unchanged."""
    assert (False, "unknown: git hangs") == lines(git_problem="git hangs")["Branch"]


def test_analysis_has_the_layout():
    """The analysis shows track, trigger, time, branch, progress, source, drift and sections."""
    moved = drift(RECORD, 0.0, 7.0, SAME)
    text = present(RECORD, "x.md", TrackProgress(Progress(5, 12, "plan")), moved)

    assert "📋 Resuming: auth_20260301 | epic-end" in text
    assert "🕐 Created: 2026-03-01T09:00:00.000Z" in text
    assert "🔀 Branch: main @ abc123f" in text
    assert "📊 Progress: 41% (5/12 tasks, by the plan)" in text
    assert "📂 Source: x.md" in text
    assert "   ✅ Branch: main (matches)" in text
    assert text.index("## Context") < text.index("## Changes")


@pytest.mark.seed("003", "| 8 | Create TodoWrite items")
def test_todos_in_both_shapes():
    """The steps are given in the formats of TodoWrite and of TaskCreate."""
    assert {
        "TodoWrite": [{"content": "Write", "status": "pending", "activeForm": "Write"}],
        "TaskCreate": [{"subject": "Write", "description": "Write"}],
    } == todos(["Write"])
