"""Parallel workers: three file formats, stale after an hour, and no reason to fail."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffd.runtime import clock
from handoffd.tracks.parallel_workers import ParallelWorker, read_state

NOW = clock.parse("2026-01-08T12:00:00Z")
JUST, LONG_AGO = NOW - 60, NOW - 3600


def one(said, changed=JUST):
    """Return the only worker of a state file with one worker."""
    (worker,) = read_state(json.dumps({"workers": [said]}), changed, NOW)
    return worker


def test_conductor_beads():
    """The format of the file's real producer is a list with ids."""
    state = {
        "phase": "Core",
        "started_at": "2026-01-08T11:00:00Z",
        "workers": [
            {
                "worker_id": "worker_1_auth",
                "task": "Sign tokens",
                "beads_task_id": "bd-1",
                "files": ["src/auth.ts", 3],
                "status": "in_progress",
                "started_at": "2026-01-08T11:30:00Z",
            },
            {"worker_id": "worker_2", "status": "completed"},
            {"worker_id": "worker_3", "status": "timed_out"},
        ],
        "file_locks": {"src/auth.ts": "worker_1_auth"},
    }
    found = read_state(json.dumps(state), JUST, NOW)

    assert [
        ParallelWorker(
            "worker_1_auth",
            "in_progress",
            "Sign tokens",
            "bd-1",
            ("src/auth.ts",),
            since="2026-01-08T11:30:00Z",
            active=True,
        ),
        ParallelWorker("worker_2", "completed", since="2026-01-08T11:00:00Z"),
        ParallelWorker("worker_3", "timed_out", since="2026-01-08T11:00:00Z"),
    ] == found


def test_maestro():
    """The format that maestro looks for has names, and `running`."""
    assert ParallelWorker("worker-1", "running", active=True) == one(
        {"name": "worker-1", "status": "running"}
    )


def test_agents():
    """The format with a mapping of agents has leases and worktrees."""
    agent = {
        "task_id": "bd-7",
        "plan_key": "2.1",
        "status": "running",
        "leases": ["src/**"],
        "worktree": "../wt-blue",
    }
    found = read_state(json.dumps({"mode": "x", "agents": {"BlueLake": agent}}), JUST, NOW)

    assert [
        ParallelWorker("BlueLake", "running", "2.1", "bd-7", ("src/**",), "../wt-blue", active=True)
    ] == found


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"workers": 3}', "[" * 100_000, '{"agents":"x"}']
)
def test_unreadable(text):
    """An unreadable file may mean an active worker, unless it is old."""
    assert [ParallelWorker("unknown workers", "unknown", active=True)] == read_state(
        text, JUST, NOW
    )
    assert [ParallelWorker("unknown workers", "unknown", stale=True)] == read_state(
        text, LONG_AGO, NOW
    )


@pytest.mark.parametrize("text", ["{}", '{"workers": []}', '{"workers": null, "agents": {}}'])
def test_no_workers(text):
    """A file that lists no worker gives none."""
    assert [] == read_state(text, JUST, NOW)


def test_stale_after_an_hour():
    """A worker without a sign of life for an hour is stale; its own heartbeat counts."""
    said = {"name": "w", "status": "running", "started_at": "2026-01-08T08:00:00Z"}
    alive = said | {"heartbeat": "2026-01-08T12:30:00+01:00"}

    assert (False, True) == (one(said, LONG_AGO).active, one(said, LONG_AGO).stale)
    assert (True, False) == (one(said, LONG_AGO + 1).active, one(said, LONG_AGO + 1).stale)
    assert one(alive, LONG_AGO).active


def test_times_ahead_tell_nothing():
    """A time in the future does not keep a worker alive."""
    said = {"name": "w", "status": "running", "updated_at": "2099-01-01T00:00:00Z"}

    assert one(said, LONG_AGO).stale


def test_only_who_works_is_stale():
    """A worker that is done is not stale, at any age of the file."""
    assert not one({"name": "w", "status": "completed"}, 0).stale


def test_names_are_made_up():
    """A worker without a name gets its number, and texts are one short clean line."""
    found = one({"status": "running", "task": "a\x1b[31m\nb " + "x" * 999})

    assert "worker 1" == found.name
    assert found.task.startswith("a b x")
    assert 200 == len(found.task)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["name", "status", "task", "files", "started_at", "id", "x"]), inner
        ),
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["workers", "agents", "started_at"]), values))
def test_weird_types(state):
    """No format makes the reader fail, and no worker is both active and stale."""
    found = read_state(json.dumps(state), JUST, NOW)

    assert all(isinstance(worker.name, str) and worker.name for worker in found)
    assert not any(worker.active and worker.stale for worker in found)


@given(st.text(max_size=100))
def test_any_text(text):
    """No text makes the reader fail."""
    assert isinstance(read_state(text, JUST, NOW), list)
