"""The transcript watcher: the paths of hints, and polling on network disks."""

import os
from types import SimpleNamespace

import pytest

from handoffd.fs import mounts
from handoffd.ingest.backlog import KnownTranscript
from handoffd.ingest.transcript_watcher import POLL_SECONDS, POLLED_MAX, TranscriptWatcher
from handoffd.runtime import clock
from handoffd.store.cursor import Cursor


def test_hint_through_a_symlink(tmp_path):
    """A hint by the client's path is understood, even if a parent directory is a link."""
    real = tmp_path / "elsewhere/projects"
    (real / "-p").mkdir(parents=True)
    (tmp_path / ".claude").symlink_to(tmp_path / "elsewhere")
    transcript_watcher = TranscriptWatcher([str(real)], None, None)

    transcript_watcher.hint(f"{tmp_path}/.claude/projects/-p/a.jsonl")
    transcript_watcher.hint(f"{tmp_path}/.claude/history.jsonl")
    transcript_watcher.hint("")

    assert {f"{real}/-p/a.jsonl"} == transcript_watcher._dirty


@pytest.fixture
def far(tmp_path, monkeypatch):
    """A network disk with transcripts, of which every other one is old."""
    asked, looked, entries = [], [], {}
    monkeypatch.setattr(mounts, "_table", b"known")
    monkeypatch.setattr(mounts, "_disks", {str(tmp_path): mounts._Disk()})
    monkeypatch.setattr(mounts, "_query", asked.append)
    for number in range(4 * POLLED_MAX):
        path = tmp_path / f"{number}.jsonl"
        path.touch()
        at = clock.wall() - (2 * 3600 if number % 2 else 2000 - number)
        os.utime(path, (at, at))
        cursor = Cursor(path.stem, path.stem, str(path))
        entries[path.stem] = KnownTranscript(cursor, 0, path.stat().st_mtime_ns)
    transcript_watcher = TranscriptWatcher(
        [], SimpleNamespace(entries=entries, note_transcript=looked.append), None
    )
    return SimpleNamespace(transcript_watcher=transcript_watcher, asked=asked, looked=looked)


def test_network_disk_is_asked_little(far, tmp_path, record_property):
    """A disk is asked once per poll, and only for the few transcripts that grew within the hour."""
    far.transcript_watcher._choose_polled()
    again = far.transcript_watcher._poll(float("inf")) - clock.monotonic()
    far.transcript_watcher._poll(float("inf"))
    latest = [str(number) for number in range(4 * POLLED_MAX) if not number % 2][-POLLED_MAX:]

    assert [str(tmp_path)] == far.asked
    assert sorted(latest) == sorted(found.name for found in far.looked)
    assert POLL_SECONDS / 2 < again
    record_property("figure", f"{len(far.looked)} of {4 * POLLED_MAX}, each asked for once")


def test_costly_poll_comes_less_often(far, monkeypatch):
    """A poll that takes 0.1 s of processor time is not repeated every two seconds."""
    monkeypatch.setattr(clock, "thread_cpu", iter((0.0, 0.1)).__next__)
    far.transcript_watcher._choose_polled()

    assert 40 < far.transcript_watcher._poll(float("inf")) - clock.monotonic()


def test_nothing_is_polled_without_a_network_disk(far, monkeypatch):
    """Without a network disk nothing is polled or sorted."""
    monkeypatch.setattr(mounts, "_disks", {})
    far.transcript_watcher._choose_polled()

    assert 7.0 == far.transcript_watcher._poll(7.0)
    assert [] == far.looked == far.transcript_watcher._polled
