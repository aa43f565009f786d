"""The file observer on a real file system, with one thread and with watchdog's own."""

import os
import sys
import threading
import time

import pytest

from handoffd.ingest import file_observer
from handoffd.ingest.file_observer import Observer, ThreadsWatcher

MAKERS = [ThreadsWatcher, *([file_observer.InotifyWatcher] if sys.platform == "linux" else [])]


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__)
def seen(request):
    """An observer, and the paths that it reported."""
    found = []
    watching = Observer(found.append, lambda: found.append("overflow"), make=request.param)
    watching.start()
    yield watching, found
    watching.stop()


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_sees_what_changes(seen, tmp_path):
    """A created, changed, renamed and deleted file are each reported; a read is not."""
    watching, found = seen
    assert {str(tmp_path)} == watching.watch_only({str(tmp_path)})
    path = tmp_path / "a"
    path.write_text("x")
    until(lambda: str(path) in found)
    found.clear()
    path.read_text()
    os.listdir(tmp_path)
    path.rename(tmp_path / "b")
    until(lambda: str(tmp_path / "b") in found)
    (tmp_path / "b").unlink()
    until(lambda: found.count(str(tmp_path / "b")) >= 2)


def test_never_a_tree(seen, tmp_path):
    """A change below a watched directory's own entries is not reported."""
    watching, found = seen
    below = tmp_path / "below"
    below.mkdir()
    watching.watch_only({str(tmp_path)})
    (below / "deep").write_text("x")
    (tmp_path / "last").write_text("x")
    until(lambda: str(tmp_path / "last") in found)

    assert str(below / "deep") not in found


def test_drops_what_is_no_longer_wanted(seen, tmp_path):
    """A directory that is no longer wanted is no longer reported."""
    watching, found = seen
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    watching.watch_only({str(one), str(other)})
    assert set() == watching.watch_only({str(other)})
    (one / "a").write_text("x")
    (other / "b").write_text("x")
    until(lambda: str(other / "b") in found)

    assert str(one / "a") not in found
    assert 1 == watching.watched


def test_made_anew(seen, tmp_path):
    """A directory that was deleted and created again is watched again."""
    watching, found = seen
    place = tmp_path / "place"
    place.mkdir()
    watching.watch_only({str(place)})
    place.rmdir()
    place.mkdir()
    until(watching.check)
    assert {str(place)} == watching.watch_only({str(place)})
    (place / "a").write_text("x")
    until(lambda: str(place / "a") in found)


def test_missing_directory(seen, tmp_path):
    """A missing directory is not watched, and nothing is raised."""
    watching, _ = seen

    assert set() == watching.watch_only({str(tmp_path / "none")})


def test_failing_listener(seen, tmp_path):
    """An exception of the listener does not end the watching."""
    watching, _ = seen
    calls = []

    def fail(path):
        calls.append(path)
        raise RuntimeError(path)

    watching.stop()
    watching.changed = fail
    watching.start()
    watching.watch_only({str(tmp_path)})
    (tmp_path / "a").write_text("x")
    until(lambda: calls)
    first = len(calls)
    (tmp_path / "b").write_text("x")
    until(lambda: len(calls) > first)


@pytest.mark.skipif(sys.platform != "linux", reason="is about inotify, which only Linux has")
def test_one_thread_for_all(tmp_path):
    """A hundred directories take one thread."""
    before = threading.active_count()
    watching = Observer(lambda _: None, lambda: None)
    watching.start()
    places = {str(tmp_path / str(number)) for number in range(100)}
    for place in places:
        os.mkdir(place)
    assert places == watching.watch_only(places)

    assert before + 1 == threading.active_count()
    watching.stop()
    assert before == threading.active_count()


@pytest.mark.skipif(sys.platform != "linux", reason="is about inotify, which only Linux has")
def test_dead_thread_is_replaced(tmp_path):
    """A reading thread that died is noticed and replaced."""
    found = []
    watching = Observer(found.append, lambda: None)
    watching.start()
    watching.watch_only({str(tmp_path)})
    watching._watcher.stop()
    assert watching.check()
    (tmp_path / "a").write_text("x")
    until(lambda: str(tmp_path / "a") in found)
    watching.stop()
