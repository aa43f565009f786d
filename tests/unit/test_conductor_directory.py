"""The conductor directory: found, read and written without following a link."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from handoff.common.errors import HandoffError, UnsafePathError
from handoffd.fs import files
from handoffd.runtime import clock
from handoffd.tracks import conductor_directory
from handoffd.tracks.conductor_directory import ConductorDirectory, StoredRecord, Track
from handoffd.tracks.metadata import with_status
from handoffd.tracks.plan import Progress
from handoffd.tracks.record import TrackRecord, file_name
from handoffd.tracks.settings import TrackSettings

TRACK = "auth_20260101"
NOW = "2026-01-09T08:00:00Z"
UNSAFE = ["", "..", ".", ".hidden", "a/b", "/etc", "a\nb", "x" * 201, "ü" * 101]


def made(hour=10, trigger="manual", track=TRACK, **more):
    more = {"sections": {"Context": [f"- Hour {hour}"]}} | more
    return TrackRecord(f"2026-01-08T{hour:02d}:00:00.000Z", trigger, track, **more)


class Project:
    """A project with a conductor/ in a temporary directory."""

    def __init__(self, root):
        self.root = root
        self.conductor = ConductorDirectory(str(root))

    def write(self, path, text, seconds=None):
        target = self.root / "conductor" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        if seconds is not None:
            os.utime(target, (seconds, seconds))
        return target

    def put(self, record):
        return self.conductor.put_record(file_name(record, []), record)

    def text(self, path):
        return (self.root / path).read_text()


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project")


@pytest.fixture
def umask():
    """Set the daemon's umask, which permits nothing to others."""
    before = os.umask(0o077)
    yield
    os.umask(before)


# Reading


def test_nothing_there(project):
    """Without conductor/ there is nothing to read, and reading creates nothing."""
    found = project.conductor

    assert not found.exists
    assert [] == found.tracks() == found.records() == found.records(TRACK)
    assert found.track(TRACK) is None
    assert found.plan(TRACK) is None
    assert TrackSettings() == found.settings()
    assert [] == found.workers(TRACK, 0)
    assert found.read("conductor/handoffs/general/x.md") is None
    assert found.change_metadata(TRACK, str.upper) is None
    assert not found.complete_index(TRACK, NOW)
    found.touch()
    assert [] == os.listdir(project.root)


def test_a_project_that_is_gone(tmp_path):
    """A deleted project has nothing to read, either."""
    gone = ConductorDirectory(str(tmp_path / "gone"))

    assert (False, [], []) == (gone.exists, gone.tracks(), gone.records())


def test_tracks(project):
    """Tracks are directories, the latest changed first; files and hidden directories are not."""
    project.write("tracks/old/metadata.json", '{"status": "complete"}', 1000)
    project.write("tracks/new/metadata.json", '{"status": "in_progress"}', 3000)
    project.write("tracks/new/spec.md", "", 4000)
    project.write("tracks/bare/plan.md", "- [x] a", 2000)
    project.write("tracks/.hidden/plan.md", "")
    project.write("tracks/file.md", "")
    for name, seconds in (("old", 1000), ("new", 1000), ("bare", 1000)):
        os.utime(project.root / "conductor/tracks" / name, (seconds, seconds))
    new, bare, old = project.conductor.tracks()

    assert (["new", "bare", "old"], 4000) == ([new.id, bare.id, old.id], new.changed_seconds)
    assert (True, False) == (new.has_spec, new.has_plan)
    assert (False, True, None) == (bare.has_spec, bare.has_plan, bare.metadata)
    assert [True, True, False] == [new.is_active, bare.is_active, old.is_active]
    assert Progress(1, 1, "plan") == project.conductor.plan("bare").progress


@pytest.mark.parametrize(
    ("data", "active"),
    [
        ({"status": "new"}, True),
        ({"status": "blocked"}, True),
        ({"status": "Archived"}, False),
        ({"status": "cancelled"}, False),
        ({"status": "in_progress", "workflow": {"state": "ARCHIVED"}}, False),
    ],
)
def test_active_tracks(data, active):
    """A complete, archived or cancelled track is not active."""
    found = conductor_directory.metadata.Metadata(data)

    assert active == Track("x", found, 0, has_spec=False, has_plan=False).is_active


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "metadata.json is not valid JSON"),
        (b'{"a": "\xff"}', "metadata.json is not UTF-8"),
        (b" " * (1 << 20) + b"{}", "the limit is"),
    ],
)
def test_metadata_of_no_use(project, content, problem):
    """Unusable metadata is reported, and hides neither its track nor the others."""
    project.write(f"tracks/{TRACK}/metadata.json", content)
    project.write("tracks/other/metadata.json", "{}")
    found = {track.id: track for track in project.conductor.tracks()}

    assert problem in found[TRACK].problem
    assert found[TRACK].metadata is None
    assert "" == found["other"].problem


def test_general_is_no_track(project):
    """`general` has no metadata, even if a directory has that name."""
    project.write("tracks/general/metadata.json", "{}")

    assert project.conductor.track("general") is None
    assert project.conductor.change_metadata("general", lambda _: "changed") is None


def test_settings_and_workers(project):
    """workflow.md and both state files are read."""
    now = 10_000.0
    project.write("workflow.md", "```yaml\nhandoff:\n  idle_threshold_minutes: 5\n```")
    project.write(
        f"tracks/{TRACK}/parallel_state.json", '{"workers": [{"status": "running"}]}', now
    )
    project.write(f"tracks/{TRACK}/implement_parallel_state.json", "{", now - 3600)

    assert TrackSettings(idle_minutes=5) == project.conductor.settings()
    assert [("worker 1", True, False), ("unknown workers", False, True)] == [
        (worker.name, worker.active, worker.stale)
        for worker in project.conductor.workers(TRACK, now)
    ]


@pytest.mark.parametrize("track_id", UNSAFE)
def test_unsafe_tracks_are_refused(project, track_id):
    """A name that is not one visible path component is refused as a track by every method."""
    found = project.conductor
    calls = [
        lambda: found.track(track_id),
        lambda: found.plan(track_id),
        lambda: found.workers(track_id, 0),
        lambda: found.records(track_id),
        lambda: found.handoffs_directory(track_id),
        lambda: found.put_record("x.md", replace(made(), track_id=track_id)),
        lambda: found.change_metadata(track_id, str),
        lambda: found.complete_index(track_id, NOW),
        lambda: found.locked(track_id).__enter__(),
    ]

    for call in calls:
        with pytest.raises(HandoffError, match="no track's name"):
            call()
    assert [] == os.listdir(project.root)


# Records


def test_records(project):
    """Records come newest first, archived ones last; the index is no record."""
    first, second = project.put(made(10)), project.put(made(12))
    other = project.put(made(11, track="general"))
    old = project.write(f"handoffs/{TRACK}/archive/2026-01-09_10-00_idle.md", "x")
    plain = project.write(f"handoffs/{TRACK}/notes.md", "x", clock.parse("2026-01-08T11:30:00Z"))
    project.write(f"handoffs/{TRACK}/index.md", "x")
    project.write(f"handoffs/{TRACK}/.x.md", "x")
    project.write("handoffs/README.md", "x")
    found = project.conductor.records()

    assert [
        second,
        f"conductor/handoffs/{TRACK}/{plain.name}",
        other,
        first,
        f"conductor/handoffs/{TRACK}/archive/{old.name}",
    ] == [kept.path for kept in found]
    assert StoredRecord(second, TRACK, "2026-01-08T12:00:00.000Z") == found[0]
    assert "2026-01-08T11:30:00.000Z" == found[1].timestamp
    assert (
        StoredRecord(found[-1].path, TRACK, "2026-01-09T10:00:00.000Z", archived=True) == found[-1]
    )
    assert [kept for kept in found if kept.track_id == TRACK] == project.conductor.records(TRACK)


def test_records_of_one_moment(project):
    """Of two records with the same time the one with the higher number is newer."""
    names = [f"2026-01-08_10-00-00-000_a_idle{end}.md" for end in ("", "-1", "-2", "-10")]
    for name in names:
        project.write(f"handoffs/{TRACK}/{name}", "x")

    assert names[::-1] == [kept.path.split("/")[-1] for kept in project.conductor.records()]


def test_too_many_records(project, monkeypatch):
    """Of too many records the newest are read."""
    monkeypatch.setattr(conductor_directory, "ENTRIES_MAX", 3)
    for hour in range(6):
        project.put(made(hour))

    assert [5, 4, 3] == [int(kept.timestamp[11:13]) for kept in project.conductor.records(TRACK)]


def test_put_and_read(project, umask):
    """A record is written with the usual modes, for any umask, and read again."""
    sections = {"Context": ["- é"], "Changes": [], "Learnings": [], "Next Steps": []}
    record = made(10, sections=sections)
    path = project.put(record)
    target = project.root / path

    assert f"conductor/handoffs/{TRACK}/2026-01-08_10-00-00-000_auth_manual.md" == path
    assert record == project.conductor.read(path)
    assert 0o644 == target.stat().st_mode & 0o777
    assert {0o755} == {parent.stat().st_mode & 0o777 for parent in list(target.parents)[:3]}


def test_a_record_is_written_once(project):
    """An existing record is not overwritten, whether it is ours or not."""
    path = project.put(made(10))
    (project.root / path).write_text("mine")

    assert path == project.put(made(10))
    assert "mine" == project.text(path)


@pytest.mark.parametrize("name", ["index.md", ".x.md", "x.txt", "../x.md", "a/b.md", ""])
def test_names_that_are_none(project, name):
    """A record's name is one visible component that ends in .md, and not the index."""
    with pytest.raises(HandoffError, match="no name of a record"):
        project.conductor.put_record(name, made())


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x.md", "conductor/../x.md", "README.md", "conductor//x.md", ""]
)
def test_paths_that_are_none(project, path):
    """Only paths below conductor/ are read."""
    with pytest.raises(HandoffError, match="no record of this project"):
        project.conductor.read(path)


def test_a_record_without_a_time(project):
    """A record without a time has that of its file, and the track of its directory."""
    project.write(f"handoffs/{TRACK}/notes.md", "Hello", clock.parse("2026-01-08T11:30:00Z"))
    found = project.conductor.read(f"conductor/handoffs/{TRACK}/notes.md")

    assert ("2026-01-08T11:30:00.000Z", TRACK) == (found.timestamp, found.track_id)


def test_long_and_odd_bytes(project):
    """A record of any length and with any bytes is read as far as possible."""
    project.write("handoffs/general/x.md", b"## Context\n\xff\n" + b"x" * (600 << 10))

    assert (
        "\ufffd" == project.conductor.read("conductor/handoffs/general/x.md").sections["Context"][0]
    )


# Metadata


def test_change_metadata(project):
    """The section is changed, and all else stays, including the file's mode."""
    target = project.write(f"tracks/{TRACK}/metadata.json", '\ufeff{\r\n\t"a": 1.0\r\n}')
    target.chmod(0o640)
    text = project.conductor.change_metadata(TRACK, lambda old: with_status(old, "handed_off"))

    assert text.encode() == target.read_bytes()
    assert text.startswith('\ufeff{\r\n\t"a": 1.0,\r\n\t"handoff": {\r\n\t\t"status": "handed_off"')
    assert 0o640 == target.stat().st_mode & 0o777
    assert ["metadata.json"] == os.listdir(target.parent)


def test_metadata_that_stays(project):
    """If nothing changes, nothing is written."""
    target = project.write(f"tracks/{TRACK}/metadata.json", "{}", 1000)

    assert "{}" == project.conductor.change_metadata(TRACK, lambda old: old)
    assert 1000 == target.stat().st_mtime


def test_another_writer_of_metadata(project):
    """Another program's write in between is not lost."""
    target = project.write(f"tracks/{TRACK}/metadata.json", '{"n": 0}')
    seen = []

    def change(old):
        seen.append(old)
        if len(seen) <= 2:
            target.write_text(json.dumps({"n": len(seen) * 100}))
        return with_status(old, "handed_off")

    text = project.conductor.change_metadata(TRACK, change)

    assert ['{"n": 0}', '{"n": 100}', '{"n": 200}'] == seen
    assert 200 == json.loads(text)["n"]
    assert text == target.read_text()


def test_metadata_that_never_rests(project, monkeypatch):
    """A file that changes at every attempt is given up, and left to the other program."""
    monkeypatch.setattr(conductor_directory, "_PAUSE_SECONDS", 0)
    target = project.write(f"tracks/{TRACK}/metadata.json", "{}")

    def change(old):
        target.write_text(old + " ")
        return "{} changed"

    with pytest.raises(HandoffError, match="keeps changing"):
        project.conductor.change_metadata(TRACK, change)
    assert "{}" == target.read_text().strip()


def test_metadata_that_is_broken(project):
    """Unreadable metadata is not changed."""
    target = project.write(f"tracks/{TRACK}/metadata.json", b'{"a": "\xff"}')

    with pytest.raises(HandoffError, match="not UTF-8"):
        project.conductor.change_metadata(TRACK, lambda old: with_status(old, "handed_off"))
    assert b'{"a": "\xff"}' == target.read_bytes()


# The index


def test_index_is_completed(project, umask):
    """Every record gets one row, oldest first, and the index gets the usual mode."""
    project.put(made(12, "epic-end", bead_id="E1"))
    project.put(made(10))
    first = project.conductor.complete_index(TRACK, NOW)
    text = project.text(f"conductor/handoffs/{TRACK}/index.md")
    again = project.conductor.complete_index(TRACK, "later")

    rows = [line for line in text.split("\n") if line.startswith("| 2026")]
    assert (True, False) == (first, again)
    assert [
        "| 2026-01-08 10:00:00.000 | manual | - | Hour 10 | [→](./2026-01-08_10-00-00-000_auth_manual.md) |",
        "| 2026-01-08 12:00:00.000 | epic-end | E1 | Hour 12 | [→](./2026-01-08_12-00-00-000_auth_E1_epic-end.md) |",
    ] == rows
    assert text == project.text(f"conductor/handoffs/{TRACK}/index.md")
    target = project.root / f"conductor/handoffs/{TRACK}/index.md"
    assert 0o644 == target.stat().st_mode & 0o777


def test_first_record_is_no_repair(project):
    """The first record of a track creates its index, and the next one adds a row."""
    project.put(made(10))
    first = project.conductor.complete_index(TRACK, NOW)
    project.put(made(11))
    second = project.conductor.complete_index(TRACK, NOW)

    assert (False, False) == (first, second)
    assert 2 == project.text(f"conductor/handoffs/{TRACK}/index.md").count("| 2026")


def test_index_keeps_odd_bytes(project):
    """Non-UTF-8 bytes stay unchanged when a row is added."""
    project.put(made(10))
    project.conductor.complete_index(TRACK, NOW)
    target = project.root / f"conductor/handoffs/{TRACK}/index.md"
    target.write_bytes(target.read_bytes() + b"\n\xff mine\n")
    project.put(made(11))
    project.conductor.complete_index(TRACK, NOW)

    assert target.read_bytes().endswith(b"\n\xff mine\n")
    assert 2 == target.read_bytes().count(b"| 2026")


def test_index_of_archived_records(project):
    """An archived record is linked in the archive."""
    project.write(f"handoffs/{TRACK}/archive/2026-01-08_10-00_idle.md", "## Context\nOld")
    project.conductor.complete_index(TRACK, NOW)

    assert (
        "| 2026-01-08 10:00:00.000 | idle | - | Old | [→](./archive/2026-01-08_10-00_idle.md) | ✅ |"
        in project.text(f"conductor/handoffs/{TRACK}/index.md")
    )


# Links


@pytest.mark.parametrize(
    "linked",
    ["conductor", "conductor/handoffs", f"conductor/handoffs/{TRACK}", "conductor/tracks", f"conductor/tracks/{TRACK}"],
)  # fmt: skip
def test_linked_directories(project, tmp_path, linked):
    """A link in place of a directory counts as missing for reads, and is refused for writes."""
    outside = Project(tmp_path / "outside")
    outside.write(f"tracks/{TRACK}/metadata.json", "{}")
    outside.write(f"tracks/{TRACK}/plan.md", "- [ ] a")
    outside.write(f"tracks/{TRACK}/parallel_state.json", "{")
    path = outside.put(made(10))
    before = sorted(str(found) for found in outside.root.rglob("*"))
    (project.root / linked).parent.mkdir(parents=True, exist_ok=True)
    (project.root / linked).symlink_to(outside.root / linked)
    found = project.conductor

    if "tracks" not in linked:
        assert [] == found.records() == found.records(TRACK)
        assert found.read(path) is None
        with pytest.raises(UnsafePathError):
            project.put(made(11))
    if "handoffs" not in linked:
        assert [] == found.tracks() == found.workers(TRACK, 0)
        assert (None, None) == (found.track(TRACK), found.plan(TRACK))
        with pytest.raises(UnsafePathError):
            found.change_metadata(TRACK, lambda _: "x")
    assert before == sorted(str(kept) for kept in outside.root.rglob("*"))


def test_linked_files(project, tmp_path):
    """A link in place of a file counts as missing for reads, is refused for writes, and stays."""
    secret = tmp_path / "secret"
    secret.write_text('{"status": "secret"}')
    kept = project.put(made(10))
    name = "2026-01-08_11-00-00-000_auth_manual.md"
    links = [
        "workflow.md",
        ".last_activity",
        f"tracks/{TRACK}/metadata.json",
        f"tracks/{TRACK}/plan.md",
        f"tracks/{TRACK}/parallel_state.json",
        f"handoffs/{TRACK}/{name}",
        f"handoffs/{TRACK}/index.md",
    ]
    (project.root / f"conductor/tracks/{TRACK}").mkdir(parents=True)
    for link in links:
        (project.root / "conductor" / link).symlink_to(secret)
    found = project.conductor

    assert (None, "", False) == (
        found.track(TRACK)[1],
        found.track(TRACK).problem,
        found.track(TRACK).has_plan,
    )
    assert (None, [], TrackSettings()) == (
        found.plan(TRACK),
        found.workers(TRACK, 0),
        found.settings(),
    )
    assert [kept] == [record.path for record in found.records()]
    assert found.read(f"conductor/handoffs/{TRACK}/{name}") is None
    for write in (
        lambda: found.change_metadata(TRACK, lambda _: "x"),
        lambda: found.complete_index(TRACK, NOW),
        lambda: found.put_record(name, made(11)),
        found.touch,
    ):
        with pytest.raises(UnsafePathError):
            write()
    assert '{"status": "secret"}' == secret.read_text()
    assert all((project.root / "conductor" / link).is_symlink() for link in links)


def test_fifo_does_not_block(project):
    """A FIFO in place of a file counts as missing."""
    (project.root / "conductor").mkdir()
    os.mkfifo(project.root / "conductor/workflow.md")
    os.mkfifo(project.root / "conductor/.last_activity")

    assert TrackSettings() == project.conductor.settings()
    with pytest.raises(UnsafePathError):
        project.conductor.touch()


# Marker, lock, full disk


def test_touch(project, umask):
    """The marker is created empty, and later only its time changes."""
    (project.root / "conductor").mkdir()
    project.conductor.touch()
    marker = project.root / "conductor/.last_activity"
    assert (0, 0o644) == (marker.stat().st_size, marker.stat().st_mode & 0o777)

    marker.write_text("kept")
    os.utime(marker, (1000, 1000))
    project.conductor.touch()

    assert "kept" == marker.read_text()
    assert clock.wall() - 60 < marker.stat().st_mtime


LOCK = """
import sys
from handoffd.tracks.conductor_directory import ConductorDirectory
with ConductorDirectory(sys.argv[1]).locked("general", 0.1):
    print("in")
"""


def try_lock(root):
    return subprocess.run(
        [sys.executable, "-P", "-c", LOCK, str(root)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("exists", [True, False])
def test_lock(project, exists):
    """There is one writer at a time, even while the first creates conductor/; no file is left."""
    if exists:
        (project.root / "conductor").mkdir()
    with project.conductor.locked(TRACK):
        (project.root / "conductor").mkdir(exist_ok=True)
        during = try_lock(project.root)
    after = try_lock(project.root)

    assert "BusyError" in during.stderr
    assert "in\n" == after.stdout, after.stderr
    assert [] == os.listdir(project.root / "conductor")


def test_lock_within_one_process(project):
    """Two threads of one daemon exclude each other, too."""
    (project.root / "conductor").mkdir()
    with (
        project.conductor.locked(TRACK),
        pytest.raises(files.BusyError),
        project.conductor.locked(TRACK, 0.01),
    ):
        pass


def test_full_disk(project, monkeypatch):
    """A full disk reaches the caller; the old files stay, and no file is left beside them."""
    target = project.write(f"tracks/{TRACK}/metadata.json", "{}")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        project.put(made(10))
    with pytest.raises(OSError, match="No space left"):
        project.conductor.change_metadata(TRACK, lambda old: with_status(old, "handed_off"))
    monkeypatch.undo()

    assert "{}" == target.read_text()
    assert ["metadata.json"] == os.listdir(target.parent)
    assert [] == project.conductor.records()
