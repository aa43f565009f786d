"""Reading transcripts into session states: no failure loses a record or counts it twice."""

import json
import os

import pytest

from handoffd.agents.claude_code.transcripts import transcript_at
from handoffd.config import Config, LiveConfig
from handoffd.errors import StoreError
from handoffd.ingest import tailer
from handoffd.ingest import transcript_reader as module
from handoffd.ingest.session_cache import SessionCache
from handoffd.ingest.transcript_reader import UNSAVED_SLICES_MAX, TranscriptReader
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.registry import ProjectRegistry
from handoffd.projects.stored_sessions import load_older
from handoffd.store.core import CoreStore
from handoffd.store.state import StateStore

NAMES = ["3b241101-e2bb-4255-8caf-4136c566a962", "3b241101-e2bb-4255-8caf-4136c566a963"]
SLICE_BYTES = 4096
# More slices than are held back unsaved.
SLICES = UNSAVED_SLICES_MAX + 3


def fresh(directory) -> tuple[TranscriptReader, StateStore]:
    core, state = CoreStore(str(directory / "c")), StateStore(str(directory / "s"))
    return TranscriptReader(
        state, LearningPolicy(core, LiveConfig(Config())), ProjectRegistry(core), lambda *_: None
    ), state


def long_transcript(path) -> int:
    """Write a transcript of several slices, and return the number of its records."""
    line = json.dumps({
        "type": "user", "cwd": "/p", "message": {"content": "Make the form work " + "x" * 900},
    })  # fmt: skip
    number = SLICES * SLICE_BYTES // len(line)
    path.write_text("".join(f"{line}\n" for _ in range(number)))
    return number


def kept(state: StateStore) -> list[int]:
    return [json.loads(state.session(name).fold)["records"] for name in NAMES]


def read_on(transcript_reader: TranscriptReader) -> None:
    while transcript_reader._backlog:
        transcript_reader._turn()


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Two long transcripts that were noted, and a reader that reads one slice per turn."""
    monkeypatch.setattr(module, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(tailer, "SLICE_BYTES", SLICE_BYTES)
    transcript_reader, state = fresh(tmp_path)
    paths = [tmp_path / f"{name}.jsonl" for name in NAMES]
    records = [long_transcript(path) for path in paths]
    for path in paths:
        transcript_reader.note_transcript(transcript_at(str(path)))
    return transcript_reader, state, paths, records


def test_much_is_kept_at_once(two, monkeypatch):
    """Of two long transcripts eight slices are saved at a time, in turns."""
    transcript_reader, state, _paths, records = two
    commits = []

    def counted(cursor, stored, commit=state.commit):
        commits.append(cursor.transcript)
        commit(cursor, stored)

    monkeypatch.setattr(state, "commit", counted)
    read_on(transcript_reader)

    assert NAMES * 2 == commits
    assert (records, sum(records)) == (kept(state), transcript_reader.counters.records)


@pytest.mark.parametrize("turns", range(2 * SLICES))
def test_killed_amid_long_transcripts(two, turns):
    """After a stop at any turn the next reader goes on from the saved state, each record once."""
    transcript_reader, state, paths, records = two
    for _ in range(turns):
        transcript_reader._turn()
    again = TranscriptReader(
        state, transcript_reader.policy, transcript_reader.projects, lambda *_: None
    )
    again.open()
    for path in paths:
        again.note_transcript(transcript_at(str(path)))
    read_on(again)

    assert records == kept(state)


@pytest.mark.parametrize("turns", range(2 * SLICES))
def test_a_full_disk_amid_long_transcripts(two, monkeypatch, turns):
    """A store that fails at any slice loses no record, and none is counted twice."""
    transcript_reader, state, _paths, records = two
    for _ in range(turns):
        transcript_reader._turn()
    with monkeypatch.context() as patched:
        patched.setattr(state, "commit", failing(StoreError("full", "make room")))
        with pytest.raises(StoreError):
            read_on(transcript_reader)
    transcript_reader._roll_back()
    read_on(transcript_reader)

    assert (records, sum(records)) == (kept(state), transcript_reader.counters.records)


@pytest.mark.parametrize("turns", range(2 * SLICES))
@pytest.mark.parametrize(
    "place", [(module, "fold"), (SessionCache, "as_stored")], ids=["fold", "stored"]
)
def test_a_failure_amid_long_transcripts(two, monkeypatch, place, turns):
    """A first failure of the fold or of the state loses no record and counts none twice."""
    transcript_reader, state, _paths, records = two
    for _ in range(turns):
        transcript_reader._turn()
    good, first = getattr(*place), iter([True])

    def flaky(*arguments):
        if next(first, False):
            raise ValueError("strange")
        return good(*arguments)

    monkeypatch.setattr(*place, flaky)
    read_on(transcript_reader)

    assert (records, sum(records)) == (kept(state), transcript_reader.counters.records)
    assert 0 == transcript_reader.quarantined


@pytest.mark.parametrize("turns", [1, UNSAVED_SLICES_MAX + 1])
def test_gone_amid_its_reading(two, turns):
    """The part that was read of a transcript is kept if the transcript is deleted."""
    transcript_reader, state, paths, records = two
    for _ in range(turns):
        transcript_reader._turn()
    read = transcript_reader.counters.records
    for path in paths:
        path.unlink()
    read_on(transcript_reader)

    assert read == sum(
        json.loads(found.fold)["records"] for name in NAMES if (found := state.session(name))
    )
    assert 0 < read < sum(records)


def failing(problem: Exception):
    def fail(*_):
        raise problem

    return fail


def test_nothing_is_lost_when_the_disk_is_full(tmp_path):
    """A failed save leaves cursor and fold unchanged, and reading starts there again."""
    path = tmp_path / "3b241101-e2bb-4255-8caf-4136c566a962.jsonl"
    edits = [
        {"type": "tool_use", "name": "Edit", "input": {"file_path": f"/p/{number}" + "x" * 300}}
        for number in range(40)
    ]
    line = json.dumps({"type": "assistant", "cwd": "/p", "message": {"content": edits}})
    path.write_text(f"{line}\n" * 3)
    transcript_reader, state = fresh(tmp_path)
    transcript_reader.note_transcript(transcript_at(str(path)))
    state._db.execute("PRAGMA max_page_count = 1")
    with pytest.raises(StoreError):
        transcript_reader._turn()
    transcript_reader._roll_back()
    state._db.execute("PRAGMA max_page_count = 100000")
    transcript_reader._turn()

    assert '"records":3' in state.session(path.stem).fold
    assert 3 == transcript_reader.counters.records, "what was not kept is not counted"
    assert [path.stat().st_size] == [cursor.offset for cursor in state.cursors()]


def test_a_failure_in_the_fold_loses_nothing(tmp_path, monkeypatch):
    """A failing slice is read again from its start, and quarantined after three failures."""
    path = tmp_path / "3b241101-e2bb-4255-8caf-4136c566a962.jsonl"
    path.write_text('{"type":"user","cwd":"/p","message":{"content":"a b c d"}}\n' * 3)
    transcript_reader, state = fresh(tmp_path)
    good = module.fold
    failures = iter([True] * 2)

    def flaky(*arguments):
        if next(failures, False):
            raise KeyError("x")
        return good(*arguments)

    monkeypatch.setattr(module, "fold", flaky)
    transcript_reader.note_transcript(transcript_at(str(path)))
    while transcript_reader._backlog:
        transcript_reader._turn()

    assert '"records":3' in state.session(path.stem).fold
    assert (0, 3) == (transcript_reader.quarantined, transcript_reader.counters.records)
    monkeypatch.setattr(module, "fold", lambda *_: 1 / 0)
    path.write_text(path.read_text() + "{}\n")
    transcript_reader.note_transcript(transcript_at(str(path)))
    while transcript_reader._backlog:
        transcript_reader._turn()
    assert 1 == transcript_reader.quarantined


# Sessions of another version


@pytest.fixture
def older(two, tmp_path):
    """Two sessions that an older version has folded, and a reader that has noted both anew."""
    transcript_reader, state, paths, records = two
    read_on(transcript_reader)
    state._db.execute("UPDATE sessions SET fold_version = 1, fold = json_set(fold, '$.records', 7)")
    transcript_reader, state = restarted(tmp_path, paths)
    return transcript_reader, state, paths, records


def restarted(directory, paths) -> tuple[TranscriptReader, StateStore]:
    transcript_reader, state = fresh(directory)
    transcript_reader.open()
    for path in paths:
        if path.exists():
            transcript_reader.note_transcript(transcript_at(str(path)), first=True)
    return transcript_reader, state


def versions(state: StateStore) -> list[bool]:
    return [state.session(name).fold_version == module.FOLD_VERSION for name in NAMES]


def test_the_old_state_stays_until_all_is_read(older):
    """A state of an older version is replaced at once when its transcript is read, newest first."""
    transcript_reader, state, paths, records = older
    os.utime(paths[0], (1, 1))
    seen = []
    while transcript_reader._backlog:
        transcript_reader._turn()
        seen.append(tuple(kept(state)))

    assert [True, True] == versions(state)
    assert records == kept(state)
    assert {(7, 7), (7, records[1]), (records[0], 7), tuple(records)} >= set(seen)


@pytest.mark.parametrize("turns", [0, 2, SLICES + 1])
def test_killed_amid_reading_anew(older, tmp_path, turns):
    """A reader that is killed while it reads old sessions anew leaves nothing half read."""
    transcript_reader, state, paths, records = older
    for _ in range(turns):
        transcript_reader._turn()
    assert all(number in (7, *records) for number in kept(state))
    transcript_reader, state = restarted(tmp_path, paths)
    read_on(transcript_reader)

    assert records == kept(state)
    assert [True, True] == versions(state)


@pytest.mark.parametrize("turns", [0, 2, SLICES - 1, SLICES, SLICES + 1])
def test_a_full_disk_amid_reading_anew(older, monkeypatch, turns):
    """If the store fails while old sessions are read anew, they are read again as a whole."""
    transcript_reader, state, _paths, records = older
    for _ in range(turns):
        transcript_reader._turn()
    with monkeypatch.context() as patched:
        patched.setattr(state, "commit", failing(StoreError("full", "make room")))
        with pytest.raises(StoreError):
            read_on(transcript_reader)
        transcript_reader._roll_back()
    assert all(number in (7, *records) for number in kept(state))
    read_on(transcript_reader)

    assert records == kept(state)
    assert [True, True] == versions(state)


@pytest.mark.parametrize("turns", [0, 2])
def test_gone_amid_its_reading_anew(older, turns):
    """A transcript that vanishes while it is read anew leaves the old state, and only that one."""
    transcript_reader, state, paths, records = older
    for _ in range(turns):
        transcript_reader._turn()
    paths[0].unlink()
    read_on(transcript_reader)

    assert [(False, 7), (True, records[1])] == list(zip(versions(state), kept(state), strict=True))


def test_an_old_state_with_other_forms_is_read():
    """Of an older version's state, the values are kept that still have their form."""
    text = json.dumps({
        "session_id": "s", "cwd": "/p", "goal": ["Round tax", ["t", "u", 1, "2026", "quoted"]],
        "decisions": [["ASCII", ["t", "u", 1, "2026", "quoted"]], {"odd": 1}],
        "files": "none", "title": [], "unknown_field": 3,
    })  # fmt: skip
    found = load_older(text)

    assert ("s", "/p", "Round tax") == (found.session_id, found.cwd, found.work.request.text)
    assert ["ASCII"] == [value.text for value in found.decisions]
    assert ([], None) == (found.files, found.title)
