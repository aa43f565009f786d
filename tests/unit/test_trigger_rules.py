"""The condition of each trigger."""

import pytest

from handoffd.tracks.conductor_directory import Track
from handoffd.tracks.metadata import Metadata
from handoffd.tracks.tracks_file import TrackMark
from handoffd.triggers import design_end, epic, idle, manual, pre_finish


@pytest.mark.parametrize(
    ("before", "now", "just_closed", "fires"),
    [
        ("open", "in_progress", False, "epic-start"),
        ("", "in_progress", False, "epic-start"),
        ("blocked", "in_progress", False, "epic-start"),
        ("in_progress", "closed", False, "epic-end"),
        ("open", "closed", False, "epic-end"),
        ("", "closed", True, "epic-end"),
        ("", "closed", False, None),
        ("", "open", False, None),
        ("in_progress", "blocked", False, None),
        ("closed", "open", False, None),
        ("open", "in_progress by its track", False, "epic-start"),
        ("in_progress by its track", "in_progress", False, None),
        ("in_progress", "closed by its track", False, "epic-end"),
        ("closed by its track", "closed", False, None),
    ],
)
def test_epics(before, now, just_closed, fires):
    """An epic starts when it is taken up and ends when closed; one first seen closed is old."""
    assert fires == epic.name(before, now, just_closed=just_closed)


@pytest.mark.parametrize(
    ("own", "tasks_done", "box", "status"),
    [
        ("open", False, "", "open"),
        ("blocked", False, " ", "open"),
        ("open", False, "~", "in_progress by its track"),
        ("in_progress", False, "~", "in_progress"),
        ("open", True, "~", "closed by its track"),
        ("in_progress", False, "x", "closed by its track"),
        ("closed", False, "~", "closed"),
    ],
)
def test_status_of_an_epic(own, tasks_done, box, status):
    """Closed tasks or `[x]` end an epic, `[~]` starts it, whatever it says of itself."""
    assert status == epic.status(own, tasks_done=tasks_done, box=box)


def _track(name, box="", title="", position=0, status="new"):
    found = TrackMark(box, title, position)
    return Track(name, Metadata({"status": status}), 0.0, True, True, mark=found)


@pytest.mark.parametrize(
    ("words", "just_now", "found"),
    [
        ("auth_20260301", True, "auth_20260301"),
        ("auth", False, "auth_20260301"),
        ("LOG IN", True, "auth_20260301"),
        ("search", True, "find_20260302"),
        ("in", True, None),
        ("nothing of the kind", True, None),
        ("", True, "find_20260302"),
        ("", False, None),
    ],
)
def test_which_track_is_implemented(words, just_now, found):
    """A track is named by id, short name or description; without a name the first one is meant."""
    tracks = [
        _track("auth_20260301", " ", "Log in", 2),
        _track("find_20260302", "~", "Search in all fields", 1),
        _track("done_20260101", "x", "Old work", 0),
    ]
    track = epic.implemented_track(tracks, words, just_now=just_now)
    assert found == (track.id if track else None)


@pytest.mark.parametrize(
    ("state", "documents", "status"),
    [
        ("TRACKED", False, "designed"),
        ("IMPLEMENTING", False, "designed"),
        ("", True, "designed"),
        ("", False, "begun"),
        ("INIT", True, "begun"),
        ("DESIGNED", True, "begun"),
        ("WHATEVER", True, "designed"),
    ],
)
def test_designed(state, documents, status):
    """A track is designed by its state; without a known state, if its documents exist."""
    assert status == design_end.status(state, has_documents=documents)


@pytest.mark.parametrize(
    ("name", "is_finish"),
    [
        ("conductor-finish", True),
        ("maestro:conductor-finish", True),
        ("conductor:finish", True),
        ("maestro:conductor:finish", True),
        ("finish", False),
        ("conductor-finish-all", False),
        ("conductor-newtrack", False),
        ("", False),
    ],
)
def test_commands(name, is_finish):
    """A conductor's command is recognised with and without a plugin's name before it."""
    assert is_finish == pre_finish.is_start(name)


def test_newtrack():
    """The command that designs a track is recognised, too."""
    assert design_end.is_start("conductor-newtrack")
    assert not design_end.is_start("conductor-finish")


@pytest.mark.parametrize(
    ("silent", "limit", "is_idle"), [(1799, 1800, False), (1800, 1800, True), (9999, 0, False)]
)
def test_idle(silent, limit, is_idle):
    """A session is idle after the limit, and never if the limit is 0."""
    assert is_idle == idle.is_idle(silent, limit)


def test_causes():
    """The same event has the same cause, and another event has another cause."""
    assert idle.cause("s", 1.0, 2.0) == idle.cause("s", 1.0, 2.0) != idle.cause("s", 1.0, 3.0)
    assert idle.cause("s", 0.5, 2.0) != idle.cause("s", 1.0, 2.0)
    assert epic.cause("epic-end", "p", "e", 1) != epic.cause("epic-end", "p", "e", 2)
    assert pre_finish.cause("p", "t") != pre_finish.cause("q", "t")
    assert design_end.cause("p", "a") != design_end.cause("p", "b")
    assert manual.cause("s", "t") != manual.cause("s", "u")
