"""The ledger of triggers: once per cause, pending until settled, and silent about the past."""

from dataclasses import replace

import pytest

from handoffd.runtime import clock
from handoffd.store.core import CoreStore
from handoffd.store.erasure import Forgotten
from handoffd.store.ledger import Firing, Sighting

IDLE = Firing(
    "idle:s:1", "idle", "p", "s", "2026-03-01T09:00:00.000Z", "silent", "", {"track": "a"}
)


@pytest.fixture
def core(tmp_path):
    return CoreStore(str(tmp_path / "core.db"))


def changed(ledger, found, kind="epic", project="p", at=0.0):
    """Observe, and return the changes that were new."""
    told = []

    def news(name, before, now, changes):
        told.append((name, before, now, changes))
        return replace(IDLE, cause=f"{kind}:{name}:{changes}", project_id=project)

    sightings = {name: Sighting(status, at) for name, status in found.items()}
    ledger.observe(project, kind, sightings, news)
    return told


def test_a_trigger_fires_once_for_a_cause(tmp_path):
    """The ledger accepts a cause once, even after it is opened again."""
    path = str(tmp_path / "core.db")
    first = CoreStore(path)
    fired = [first.ledger.fire(IDLE) for _ in range(2)]
    first.close()
    again = CoreStore(path)

    assert [True, False] == fired
    assert not again.ledger.fire(replace(IDLE, trigger="manual"))
    assert again.ledger.fire(replace(IDLE, cause="idle:s:2"))


def test_pending_until_settled(core):
    """A fired trigger is pending, with all that is needed to run it, until it has an outcome."""
    core.ledger.fire(IDLE)
    before = core.ledger.pending()
    core.ledger.set_request(IDLE.cause, {"name": "x.md"})
    named = core.ledger.pending()
    core.ledger.set_outcome(IDLE.cause, {"file": "x.md"})

    assert [IDLE] == before
    assert [{"name": "x.md"}] == [firing.request for firing in named]
    assert [] == core.ledger.pending()
    assert [{"file": "x.md"}] == [firing.outcome for firing in core.ledger.recent("p", 10)]


def test_withdrawn(core):
    """A withdrawn trigger leaves no entry."""
    core.ledger.fire(IDLE)
    core.ledger.withdraw(IDLE.cause)

    assert [] == core.ledger.recent(None, 10)


def test_recent_is_of_a_project_or_of_all(core):
    """The newest comes first; other projects' triggers are listed only for all projects."""
    core.ledger.fire(IDLE)
    later = replace(IDLE, cause="c", project_id="q", fired_at="2026-03-01T10:00:00.000Z")
    core.ledger.fire(later)

    assert ["c", "idle:s:1"] == [firing.cause for firing in core.ledger.recent(None, 10)]
    assert ["idle:s:1"] == [firing.cause for firing in core.ledger.recent("p", 10)]


def test_first_sight_is_no_news(core):
    """The state at a project's first sight fires nothing, and later changes do."""
    first = changed(core.ledger, {"e1": "open", "e2": "closed"})
    same = changed(core.ledger, {"e1": "open", "e2": "closed"})
    later = changed(core.ledger, {"e1": "in_progress", "e2": "closed", "e3": "open"})

    assert ([], []) == (first, same)
    assert [("e1", "open", "in_progress", 2), ("e3", "", "open", 1)] == later


def test_an_empty_first_sight_counts(core):
    """A first sight without epics counts, too: the first epic after it is a change."""
    changed(core.ledger, {})

    assert [("e1", "", "open", 1)] == changed(core.ledger, {"e1": "open"})


def test_a_change_back_and_forth_is_two(core):
    """Reopening and closing an epic again is another change, with its own number."""
    changed(core.ledger, {"e1": "open"})
    numbers = [
        told[0][3]
        for status in ("closed", "open", "closed")
        if (told := changed(core.ledger, {"e1": status}))
    ]

    assert [2, 3, 4] == numbers
    assert Sighting("closed", 0.0, 4) == core.ledger.sighting("p", "epic", "e1")


def test_what_is_older_is_no_news(core):
    """A file that lags behind the program does not reset an epic to an older state."""
    changed(core.ledger, {"e1": "in_progress"}, at=100.0)
    changed(core.ledger, {"e1": "closed"}, at=200.0)

    assert [] == changed(core.ledger, {"e1": "in_progress"}, at=100.0)
    assert [] == changed(core.ledger, {"e1": "closed"}, at=200.0)
    assert [("e1", "closed", "in_progress", 3)] == changed(
        core.ledger, {"e1": "in_progress"}, at=300.0
    )


def test_what_is_seen_and_what_fires_go_together(core):
    """If the trigger cannot be stored, the change is not stored either, and comes again."""
    changed(core.ledger, {"e1": "open"})

    def broken(*_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        core.ledger.observe("p", "epic", {"e1": Sighting("closed")}, broken)

    assert [("e1", "open", "closed", 2)] == changed(core.ledger, {"e1": "closed"})


def test_kinds_and_projects_are_apart(core):
    """A track and an epic of one name, or of two projects, are separate things."""
    changed(core.ledger, {"x": "open"})

    assert [] == changed(core.ledger, {"x": "designed"}, kind="track")
    assert [] == changed(core.ledger, {"x": "closed"}, project="q")


def test_birth_is_kept(tmp_path):
    """The start of watching is stored once, and survives a restart."""
    path = str(tmp_path / "core.db")
    before = clock.iso_milliseconds()
    first = CoreStore(path)
    born = first.ledger.born_at
    first.close()

    assert before <= born <= clock.iso_milliseconds()
    assert born == CoreStore(path).ledger.born_at


def test_the_track_of_a_session(core):
    """A session's track is the one to which it was last bound."""
    core.ledger.bind_track("s", "p", "a")
    core.ledger.bind_track("s", "p", "b")

    assert ("b", "") == (core.ledger.track_of("s"), core.ledger.track_of("t"))


def test_forgotten(core):
    """With a project its triggers, its sightings and its sessions' tracks are deleted."""
    core.ledger.fire(IDLE)
    changed(core.ledger, {"e1": "open"})
    core.ledger.bind_track("s", "p", "a")
    core.forget(Forgotten("p", ["s"], whole=True), clock.iso_milliseconds())

    assert [] == core.ledger.recent(None, 10)
    assert "" == core.ledger.track_of("s")
    assert "" == core.ledger.sighting("p", "epic", "e1").status
