"""The condition of each trigger."""

import pytest

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
    ],
)
def test_epics(before, now, just_closed, fires):
    """An epic starts when it is taken up and ends when closed; one first seen closed is old."""
    assert fires == epic.name(before, now, just_closed=just_closed)


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
