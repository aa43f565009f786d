"""Beads: the real programs of both lines, stand-ins that fail, and hostile repositories."""

import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

import scripted_bd
from beads_world import KINDS, World, copied, fresh, make_world, real_program
from conftest import allowed
from handoffd.links import beads_issues, beads_program, confinement, program
from handoffd.links.beads import Beads, BeadsError, BeadsProgram
from handoffd.links.issue_tree import IssueTree

NOTE = "COMPLETED: Form\nKEY DECISIONS: -x --y 'quoted' \"too\" $HOME\nHANDOFF: Section 1 saved at a.md"
LINES = [
    {"id": "e", "title": "Epic", "issue_type": "epic", "status": "open", "priority": 1},
    {"id": "e.1", "title": "By id", "issue_type": "task", "status": "closed"},
    {"id": "x", "title": "By edge", "issue_type": "task", "status": "open", "priority": 3,
     "dependencies": [{"issue_id": "x", "depends_on_id": "e", "type": "parent-child"}]},
    {"id": "y", "title": "By another word", "issue_type": "task", "status": "open", "priority": 0,
     "dependencies": [{"issue_id": "y", "depends_on_id": "e", "type": "parent"},
                      {"issue_id": "y", "depends_on_id": "x", "type": "blocks"}]},
    {"id": "e.2", "title": "Adopted", "issue_type": "task", "status": "open",
     "dependencies": [{"issue_id": "e.2", "depends_on_id": "z", "type": "parent-child"}]},
    {"id": "z", "title": "Closed epic", "issue_type": "epic", "status": "closed"},
]  # fmt: skip


@pytest.fixture(params=KINDS)
def world(request, tmp_path, tmp_path_factory):
    """A project with Beads, for every kind of program."""
    return fresh(request.param, tmp_path, tmp_path_factory)


def write_lines(directory: Path, *records) -> None:
    directory.mkdir(exist_ok=True)
    texts = [record if isinstance(record, str) else json.dumps(record) for record in records]
    (directory / "issues.jsonl").write_text("\n".join(texts))


def scripted(tmp_path: Path, shape="current", mode="well") -> World:
    """A project with one epic from a healthy stand-in, and a failing one in its place."""
    world = make_world(f"scripted {shape}", tmp_path)
    world.epic()
    scripted_bd.install(world.program.parent, shape, mode)
    (world.program.parent / "calls").unlink()
    return world


def words_of(world) -> list[str]:
    """Return the commands that a stand-in was given."""
    names = ("list", "show", "ready", "update")
    words = [call["words"] for call in scripted_bd.calls(world.program)]
    return [each[0] for each in words if each[0] in names and "--help" not in each]


def find(command: str, project: str) -> str:
    return beads_program.find(BeadsProgram(command, confine=False), project)


def ids(issues) -> list[str]:
    return [issue.id for issue in issues]


# Behaviour of every kind of program


def test_epics(world):
    """All epics are returned, closed ones included, and no other issue."""
    first, second = world.epic("Login"), world.epic("Search")
    world.child(first)
    world.bd("close", second)

    found = {issue.id: issue for issue in world.beads.issues().epics}
    assert {first: ("Login", "open", "epic"), second: ("Search", "closed", "epic")} == {
        key: (issue.title, issue.status, issue.type) for key, issue in found.items()
    }
    assert found[second].closed_at
    assert not found[first].closed_at


def test_children_beyond_fifty(world):
    """Closed children count, and so do children beyond the fifty that bd shows by default."""
    epic = world.epic()
    children = [
        {"id": f"{epic}.{number}", "title": f"T{number}", "issue_type": "task", "priority": 2,
         "status": "closed" if number % 2 else "open",
         **({"closed_at": "2026-01-02T00:00:00Z"} if number % 2 else {}),
         "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z",
         "dependencies": [{"issue_id": f"{epic}.{number}", "depends_on_id": epic,
                           "type": "parent-child", "created_at": "2026-01-01T00:00:00Z"}]}
        for number in range(1, 61)
    ]  # fmt: skip
    path = world.home / "children.jsonl"
    path.write_text("".join(json.dumps(child) + "\n" for child in children))
    world.take(path)

    found = world.beads.issues().tasks([epic])
    assert (60, 30) == (len(found), sum(issue.status == "closed" for issue in found))
    assert [f"{epic}.{number}" for number in range(1, 61)] == ids(found)
    assert 30 == len(world.beads.ready(epic))


def test_tasks_below_phases(world):
    """The tasks of an epic are the leaves below it; a phase without open tasks is not ready."""
    epic = world.epic()
    phases = [world.child(epic, "Phase 1"), world.child(epic, "Phase 2")]
    tasks = [world.child(phase, "Task") for phase in phases for _ in range(2)]
    loose = world.bd("create", "Loose")["id"]
    if not world.is_scripted:
        world.bd("dep", "add", phases[1], phases[0])
    assert tasks == ids(world.beads.issues().tasks([epic]))
    assert [*tasks, loose] == ids(world.beads.issues().tasks([epic], [*tasks, loose, "gone"]))
    assert set(tasks if world.is_scripted else tasks[:2]) == set(ids(world.beads.ready(epic)))
    for task in tasks[:2]:
        world.bd("close", task)

    # In Beads phase 1 is open and blocks phase 2, although nothing is left to do in it.
    assert tasks[2:] == ids(world.beads.ready(epic))
    assert (4, 2, False) == (*world.beads.issues().work([epic])[:2], _is_done(world, epic))
    for task in tasks[2:]:
        world.bd("close", task)
    assert _is_done(world, epic)
    assert [] == world.beads.ready(epic)


def _is_done(world, epic) -> bool:
    return world.beads.issues().work([epic]).is_done


def test_ready(world):
    """Issues that can be started are returned, and closed ones are not."""
    epic = world.epic()
    first, second = world.child(epic), world.child(epic)
    world.bd("close", first)

    assert [second] == ids(world.beads.ready(epic))


def test_show(world):
    """An issue is shown by its id; a missing id or a part of an id is a final error."""
    epic = world.epic()
    child = world.child(epic, "Ümläut")
    shown = world.beads.show(child)
    assert (child, "Ümläut", "open", "task", epic) == shown[:5]
    for bad in ("shop-nope", epic.partition("-")[2]):
        with pytest.raises(BeadsError) as caught:
            world.beads.show(bad)
        assert caught.value.final
        assert not caught.value.missing


def test_notes_of_a_person_survive(world):
    """Notes are appended whole, below a person's notes, each once."""
    epic = world.epic()
    world.bd("update", epic, "--notes", "Mind the gap.\n\n  - by a person")
    world.beads.append_notes(epic, NOTE)
    world.beads.append_notes(epic, "A second one")

    assert f"Mind the gap.\n\n  - by a person\n{NOTE}\nA second one" == world.notes(epic)
    assert world.notes(epic) == world.beads.notes(epic)


def test_a_first_note(world):
    """The first note of an issue becomes its notes."""
    epic = world.epic()
    world.beads.append_notes(epic, NOTE)

    assert NOTE == world.notes(epic)


def test_no_note_for_a_missing_issue(world):
    """An unknown id or a part of an id gets no note, and neither does another issue."""
    epic = world.epic()
    for bad in ("shop-nope", epic.partition("-")[2]):
        with pytest.raises(BeadsError) as caught:
            world.beads.append_notes(bad, NOTE)
        assert caught.value.final

    assert "" == world.notes(epic)


def test_stamp(world):
    """The stamp changes with others' writes, and not by itself or by our own reads."""
    epic = world.epic()
    child = world.child(epic)
    beads = world.beads
    for write in (
        lambda: world.bd("update", epic, "--notes", "x"),
        lambda: world.bd("create", "another"),
        lambda: world.bd("close", child),
        lambda: world.bd("close", epic),
    ):
        before = beads.stamp()
        beads.issues()
        beads.issues().tasks([epic])
        beads.show(epic)
        beads.ready(epic)
        assert before == beads.stamp() == beads.stamp()
        write()
        assert before != beads.stamp()


def test_an_epic_closed_elsewhere_is_seen(world):
    """A reader that reads only if the stamp changed sees a closed epic, and then stops reading."""
    epic = world.epic()
    known, read, seen = "", 0, []
    for number in range(6):
        if number == 2:
            world.bd("close", epic)
        if (stamp := world.beads.stamp()) != known:
            known, read = stamp, read + 1
            seen.append(world.beads.issues().epics[0].status)

    assert (2, ["open", "closed"]) == (read, seen)
    assert [] == world.processes()
    assert not program._running


def test_reading_leaves_the_issues_file_alone(world):
    """Reading neither creates nor changes issues.jsonl (bd itself writes a note into it)."""
    epic = world.epic()
    path = world.directory / "issues.jsonl"
    before = _stamp(path)
    world.beads.issues()
    world.beads.show(epic)

    assert before == _stamp(path)


def _stamp(path):
    """Return the state of a file, without the time of the last read."""
    found = path.stat() if path.exists() else None
    return found and (found.st_ino, found.st_size, found.st_mtime_ns)


def test_another_bd_at_the_same_time(world):
    """Our reads and a person's commands do not make each other fail."""
    epic = world.epic()
    stop = threading.Event()
    problems = []

    def read():
        while not stop.is_set():
            try:
                world.beads.issues()
            except BeadsError as problem:
                problems.append(problem)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(4):
            world.bd("update", epic, "--notes", f"n{number}")
    finally:
        stop.set()
        reader.join()

    assert ([], "n3") == (problems, world.notes(epic))


@pytest.mark.slow
@pytest.mark.parametrize("line", ["classic", "current"])
def test_notes_beside_another_bd(line, tmp_path, tmp_path_factory):
    """A note that is written while a person writes is kept, and so are the person's notes."""
    world = fresh(f"real {line}", tmp_path, tmp_path_factory)
    epic = world.epic()
    child = world.child(epic)
    writer = threading.Thread(target=lambda: [world.beads.append_notes(child, x) for x in "abc"])
    writer.start()
    for number in range(4):
        world.bd("update", epic, "--notes", f"n{number}")
    writer.join()

    assert ("n3", "a\nb\nc") == (world.notes(epic), world.notes(child))


@pytest.mark.slow
def test_issues_that_came_by_git(tmp_path):
    """A newer issues.jsonl is read directly, and imported before a note is written."""
    world = make_world("real classic", tmp_path)
    epic = world.epic("Login")
    record = {
        "id": "shop-new", "title": "Pulled", "issue_type": "epic", "status": "open", "priority": 1,
        "notes": "by a colleague", "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    before = world.beads.stamp()
    time.sleep(1.1)  # bd compares the file's time in seconds
    with (world.directory / "issues.jsonl").open("a") as stream:
        stream.write(json.dumps(record) + "\n")

    assert before != world.beads.stamp()
    assert {epic, "shop-new"} == set(ids(world.beads.issues().epics))
    assert "" == world.beads.read_issues()[1]
    world.beads.append_notes("shop-new", NOTE)
    assert f"by a colleague\n{NOTE}" == world.notes("shop-new")


@pytest.mark.slow
@pytest.mark.parametrize("line", ["classic", "current"])
def test_no_database_is_made(line, tmp_path):
    """In a fresh clone, which has only issues.jsonl, the file is read and nothing is created."""
    path = real_program(line)
    write_lines(tmp_path / ".beads", *LINES)
    before = sorted(os.listdir(tmp_path / ".beads"))
    beads = Beads(str(tmp_path), BeadsProgram(str(path)))

    assert ["e", "z"] == ids(beads.issues().epics)
    assert ["y", "e.1", "x"] == ids(beads.issues().tasks(["e"]))
    with pytest.raises(BeadsError, match="no database"):
        beads.append_notes("e", NOTE)
    assert before == sorted(os.listdir(tmp_path / ".beads"))


@pytest.mark.slow
def test_the_envelope_of_the_real_one(tmp_path):
    """Answers of the real program are understood with and without an envelope."""
    path = real_program("current")
    wrapper = tmp_path / "bd"
    wrapper.write_text(f'#!/bin/sh\nBD_JSON_ENVELOPE=1 exec {path} "$@"\n')
    wrapper.chmod(0o755)
    world = make_world("real current", tmp_path / "w")
    epic = world.epic()
    beads = Beads(str(world.root), BeadsProgram(str(wrapper), confine=False))
    beads.append_notes(epic, NOTE)

    assert [(epic, NOTE)] == [(issue.id, issue.notes) for issue in beads.issues().epics]
    with pytest.raises(BeadsError) as caught:
        beads.show("shop-nope")
    assert caught.value.final


@pytest.mark.slow
@pytest.mark.parametrize(("line", "appends"), [("classic", False), ("current", True)])
def test_features_of_the_real_ones(line, appends):
    """The classic line has no --append-notes, and the current one has it."""
    found = beads_program.features(str(real_program(line)), confine=True)

    assert (line == "classic", appends) == (found.is_classic, found.appends)


# Programs that fail


@pytest.mark.parametrize("mode", ["hang", "exit 1", "garbage", "huge"])
@pytest.mark.parametrize("shape", ["classic", "current"])
def test_reading_falls_back(shape, mode, tmp_path, monkeypatch):
    """If the program gives no answer, issues.jsonl is read; a note is not written."""
    monkeypatch.setattr(beads_program, "TIMEOUT_SECONDS", 1.0)
    world = scripted(tmp_path, shape, mode)
    write_lines(world.directory, *LINES)
    before = (world.directory / "issues.jsonl").read_bytes()
    started = time.monotonic()

    assert ["e", "z"] == ids(world.beads.issues().epics)
    assert ["y", "e.1", "x"] == ids(world.beads.issues().tasks(["e"]))
    with pytest.raises(BeadsError) as caught:
        world.beads.append_notes("e", NOTE)
    assert not caught.value.missing
    assert not caught.value.final
    assert time.monotonic() - started < allowed(8)
    assert before == (world.directory / "issues.jsonl").read_bytes()
    assert [] == world.processes()


@pytest.mark.parametrize("mode", ["hang", "exit 1", "garbage", "huge"])
def test_without_a_file_the_reason_is_told(mode, tmp_path, monkeypatch):
    """Without a file to fall back to, the program's failure is the error."""
    monkeypatch.setattr(beads_program, "TIMEOUT_SECONDS", 1.0)
    world = scripted(tmp_path, "current", mode)
    words = {"hang": "within 1 s", "exit 1": "failed to open database: locked",
             "garbage": "bd list", "huge": "more than 16 MiB"}  # fmt: skip

    with pytest.raises(BeadsError, match=words[mode]):
        world.beads.issues()


def test_slow_ones_are_waited_for_one_at_a_time(tmp_path):
    """Calls from several threads run one after the other."""
    world = scripted(tmp_path, "current", "slow")
    answers: list = []
    threads = [
        threading.Thread(target=lambda: answers.append(world.beads.issues().epics)) for _ in "ab"
    ]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert time.monotonic() - started > 2
    assert [1, 1] == [len(answer) for answer in answers]


def test_a_program_that_leaves_a_child(tmp_path):
    """A program that leaves a child is answered, and the child is ended."""
    world = scripted(tmp_path, "current", "child")
    started = time.monotonic()

    assert 1 == len(world.beads.issues().epics)
    assert time.monotonic() - started < allowed(4)


def test_no_program(tmp_path, monkeypatch):
    """Without a program issues.jsonl is read, and a note's error names the missing program."""
    monkeypatch.setattr(beads_program, "_PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    write_lines(tmp_path / ".beads", *LINES)
    assert "Epic" == Beads(str(tmp_path)).show("e").title
    with pytest.raises(BeadsError, match="no bd or br") as caught:
        Beads(str(tmp_path)).append_notes("e", NOTE)

    assert caught.value.missing


# Choice of the program, and its environment


def test_the_program_on_path(tmp_path, monkeypatch):
    """bd is used if it exists, else br; the configuration may name another one, also with ~."""
    monkeypatch.setattr(beads_program, "_PLACES", ("~/.local/bin",))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    br = scripted_bd.install(tmp_path / "bin", "br", name="br")
    assert str(br) == find("", "/p")
    bd = scripted_bd.install(tmp_path / ".local/bin", "current")
    assert str(bd) == find("", "/p")
    assert str(br) == find("br", "/p")

    assert str(br) == find("~/bin/br", "/p")
    for bad in ("~/bin/nothing", "bin/br", "./br"):
        with pytest.raises(BeadsError) as caught:
            find(bad, "/p")
        assert caught.value.missing


def test_no_program_of_the_project_is_run(tmp_path, monkeypatch):
    """No program is run from a relative PATH entry, or from the project, directly or by a link."""
    monkeypatch.setattr(beads_program, "_PLACES", ())
    monkeypatch.chdir(tmp_path)
    project = tmp_path / "shop"
    scripted_bd.install(project / "bin")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/bd").symlink_to(project / "bin/bd")
    monkeypatch.setenv("PATH", f"shop/bin::.:{project}/bin:{tmp_path}/links")

    with pytest.raises(BeadsError):
        find("", str(project))


def test_surroundings(tmp_path, monkeypatch):
    """The program gets a minimal environment and does not run in the project's directory."""
    for name in ("BEADS_DB", "BD_DB", "LISTEN_FDS", "NOTIFY_SOCKET", "WATCHDOG_USEC", "GIT_DIR",
                 "SECRET_TOKEN", "LD_PRELOAD", "BD_JSON_ENVELOPE"):  # fmt: skip
        monkeypatch.setenv(name, "x")
    world = scripted(tmp_path)
    world.beads.append_notes("shop-0", NOTE)
    calls = scripted_bd.calls(world.program)

    assert {"/"} == {call["cwd"] for call in calls}
    for call in calls:
        given = call["environment"]
        assert not {name for name, value in given.items() if value == "x"}
        assert "1" == given["BEADS_NO_DAEMON"] == given["DOLT_METRICS_DISABLED"]
    world.beads.issues()
    reading = scripted_bd.calls(world.program)[-1]["environment"]
    assert "true" == reading["BD_READONLY"]
    assert "BD_READONLY" not in calls[-1]["environment"]


def test_no_directory_is_left(tmp_path, monkeypatch):
    """A call removes its directory; a start of the daemon removes one that a killed call left."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    world = scripted(tmp_path)
    world.beads.issues()
    assert [] == os.listdir(tmp_path / "temporary")
    for name in ("handoffd-bd-old", "handoffd-bd-new", "other"):
        (tmp_path / "temporary" / name / "home").mkdir(parents=True)
        if name != "handoffd-bd-new":
            os.utime(tmp_path / "temporary" / name, (0, 0))
    beads_program.remove_leftovers()

    assert {"handoffd-bd-new", "other"} == set(os.listdir(tmp_path / "temporary"))


def test_features_are_asked_once(tmp_path):
    """A program is asked once for its features, and again after it was replaced."""
    world = scripted(tmp_path, "classic")
    for _ in range(3):
        world.beads.issues()
    asked = [call["words"] for call in scripted_bd.calls(world.program)]
    assert 1 == asked.count(["version", "--json"])
    scripted_bd.install(world.program.parent, "classic", "slow")
    world.beads.issues()

    asked = [call["words"] for call in scripted_bd.calls(world.program)]
    assert 2 == asked.count(["version", "--json"])


@pytest.mark.parametrize("bad", ["", "null", "-x", "--all", "a\nb", "a b", "x" * 201, "\x1b[0m"])
def test_what_is_no_id_is_never_passed_on(bad, tmp_path):
    """An empty id, `null` and the like are refused before a program is run."""
    world = scripted(tmp_path)
    for ask in (world.beads.show, world.beads.ready, world.beads.notes):
        with pytest.raises(BeadsError) as caught:
            ask(bad)
        assert caught.value.final
    with pytest.raises(BeadsError):
        world.beads.append_notes(bad, NOTE)

    assert [] == scripted_bd.calls(world.program)


def test_a_note_has_a_size(tmp_path):
    """An empty note and one over 32 KiB are refused; a note of 32 KiB arrives whole."""
    world = scripted(tmp_path)
    for bad in ("", "\n", "x" * 32769):
        with pytest.raises(BeadsError):
            world.beads.append_notes("shop-0", bad)
    assert [] == words_of(world)
    world.beads.append_notes("shop-0", "ü" * 16384)

    assert "ü" * 16384 == world.beads.notes("shop-0")


def test_the_classic_line_has_room_for_so_much(tmp_path):
    """For the classic line, notes too long for one command-line argument are left unchanged."""
    world = scripted(tmp_path, "classic")
    world.bd("update", "shop-0", "--notes", "x" * 100_000)
    with pytest.raises(BeadsError, match="too long") as caught:
        world.beads.append_notes("shop-0", "y" * 30_000)

    assert caught.value.final
    assert "x" * 100_000 == world.notes("shop-0")


# issues.jsonl


def read(tmp_path, *records):
    write_lines(tmp_path, *records)
    return beads_issues.read_lines(str(tmp_path / "issues.jsonl"))


def test_lines(tmp_path):
    """Damaged lines, other types and tombstones are left out; the last line of an id wins."""
    found = read(
        tmp_path,
        {"id": "a", "title": "old"},
        "{damaged",
        '[["deep"]]',
        "null",
        {"title": "without an id"},
        {"id": 7},
        {"_type": "memory", "id": "m"},
        {"_type": "issue", "id": "b", "title": ["no", "text"], "priority": "high"},
        {"id": "dead", "title": "x"},
        {"id": "dead", "status": "tombstone"},
        "[" * 100_000,
        {"id": "a", "title": "new"},
    )

    assert {"a": "new", "b": ""} == {key: line.issue.title for key, line in found.items()}
    assert 2 == found["b"].issue.priority


def test_children_in_lines(tmp_path):
    """Tasks are found by edge, by the nonstandard edge, or by id if an issue has no edge."""
    found = IssueTree(read(tmp_path, *LINES))

    assert ["y", "e.1", "x"] == ids(found.tasks(["e"]))
    assert ["e.2"] == ids(found.tasks(["z"]))


def test_ready_in_lines(tmp_path):
    """Open tasks that wait for nothing, at any depth, are ready, the most urgent first."""
    inner = {"id": "x.1", "status": "open", "priority": 0}
    assert ["x.1"] == ids(IssueTree(read(tmp_path, *LINES, inner)).ready("e"))
    inner["status"] = "closed"

    # All tasks of x are closed, so that x itself blocks nothing, although it is open.
    assert ["y"] == ids(IssueTree(read(tmp_path, *LINES, inner)).ready("e"))


def test_a_circle_has_an_end(tmp_path):
    """A cycle of children does not cause an endless loop."""
    found = IssueTree(read(tmp_path, {"id": "a", "parent": "b"}, {"id": "b", "parent": "a"}))

    assert ([], []) == (found.ready("a"), found.tasks(["a", "b"], ["a"]))


def test_a_link_is_not_followed(tmp_path):
    """An issues.jsonl that is a link, a pipe or too large is not read."""
    (tmp_path / "secret").write_text(json.dumps(LINES[0]))
    beads = Beads(str(tmp_path / "p"))
    (tmp_path / "p/.beads").mkdir(parents=True)
    path = tmp_path / "p/.beads/issues.jsonl"
    path.symlink_to(tmp_path / "secret")
    with pytest.raises(BeadsError):
        beads.show("e")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BeadsError):
        beads.show("e")
    path.unlink()
    with path.open("wb") as stream:
        stream.truncate(beads_issues.FILE_MAX_BYTES + 1)
    with pytest.raises(BeadsError):
        beads.show("e")


# Location of .beads, and hostile content


def test_exists(tmp_path, monkeypatch):
    """A .beads counts here and above, up to the repository's root, and never in HOME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    deep = tmp_path / "code/shop/api"
    deep.mkdir(parents=True)
    for above in (tmp_path, tmp_path / "code"):
        (above / ".beads").mkdir()
        assert not Beads(str(deep)).exists()
    assert not Beads(str(tmp_path)).exists()
    (tmp_path / "code/shop/.git").mkdir()
    assert not Beads(str(deep)).exists()
    (tmp_path / "code/shop/.beads").mkdir()

    assert Beads(str(deep)).exists()


def test_a_worktree_has_the_issues_of_its_repository(tmp_path):
    """A worktree without its own database uses that of the main repository."""
    world = scripted(tmp_path)
    environment = {**world.environment, **_IDENTITY}
    for words in ("init -q", "commit -q --allow-empty -m x", "worktree add -q ../tree"):
        subprocess.run(["git", *words.split()], cwd=world.root, env=environment, check=True)
    write_lines(tmp_path / "tree/.beads", *LINES)
    tree = Beads(str(tmp_path / "tree"), world.wanted)

    assert ["shop-0"] == ids(tree.issues().epics)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/.git").write_text((tmp_path / "tree/.git").read_text())
    assert not Beads(str(tmp_path / "elsewhere")).exists()


_IDENTITY = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.invalid",
             "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.invalid"}  # fmt: skip


# The targets of a `.git` file.
LINKS = (
    "{victim}/.git/worktrees/../../../evil/x",
    "../victim/.git/worktrees/../../../evil/x",
    "{evil}/way/worktrees/../../x",
    "{evil}/x",
    "{victim}/.git",
    "{victim}/.git/worktrees/tree",
)


@pytest.mark.parametrize("target", LINKS)
@pytest.mark.parametrize("named", ["", "{victim}/.git", "../../victim/.git", ".."])
def test_no_git_file_leads_to_another_project(target, named, tmp_path):
    """A `.git` file brings in no issue of another project, and that project gets no note."""
    victim = scripted(tmp_path).root.rename(tmp_path / "victim")
    wanted = BeadsProgram(str(tmp_path / "bin/bd"), confine=False)
    (victim / ".git/worktrees/tree").mkdir(parents=True)
    evil = tmp_path / "evil"
    (evil / "x").mkdir(parents=True)
    (evil / "way").symlink_to(victim / ".git")
    places = {"victim": victim, "evil": evil}
    (evil / ".git").write_text(f"gitdir: {target.format(**places)}\n")
    (evil / "x/gitdir").write_text(f"{evil}/.git\n")
    if named:
        (evil / "x/commondir").write_text(f"{named.format(**places)}\n")
    beads = Beads(str(evil), wanted)
    assert not beads.exists()
    with pytest.raises(BeadsError):
        beads.append_notes("shop-0", NOTE)
    assert "" == Beads(str(victim), wanted).notes("shop-0")

    write_lines(evil / ".beads", *LINES)
    assert ["e", "z"] == ids(Beads(str(evil)).issues().epics)


NOT_OURS = (".", ".beads", ".beads/issues.jsonl", ".beads/beads.db", ".git")


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="gives a file to another user, which only root may do: run the tests as root",
)
@pytest.mark.parametrize("foreign", NOT_OURS)
def test_nothing_of_another_user_is_used(foreign, tmp_path):
    """A .beads above a project counts if it, its files and the repository are the user's own."""
    world = scripted(tmp_path, "classic")
    write_lines(world.directory, *LINES)
    (world.root / ".git").mkdir()
    (world.root / "api").mkdir()
    beads = Beads(str(world.root / "api"), world.wanted)
    assert ["shop-0"] == ids(beads.issues().epics)
    os.chown(world.root / foreign, 65534, 65534)

    assert not beads.exists()
    with pytest.raises(BeadsError):
        beads.append_notes("shop-0", NOTE)


def test_nothing_leads_out_of_a_repository(tmp_path):
    """A redirect or link to another project is not followed; one inside the repository is."""
    other = scripted(tmp_path / "other")
    project = tmp_path / "shop"
    (project / ".git").mkdir(parents=True)
    (project / ".beads").symlink_to(other.directory)
    assert not Beads(str(project)).exists()
    (project / ".beads").unlink()
    (project / ".beads").mkdir()
    (project / ".beads/redirect").write_text(f"# there\n{other.directory}\n")
    assert not Beads(str(project)).exists()
    (project / "inner").mkdir()
    other.directory.rename(project / "inner/.beads")
    (project / ".beads/redirect").write_text("inner/.beads\n")

    assert ["shop-0"] == ids(Beads(str(project), other.wanted).issues().epics)


def test_a_databases_link_is_not_followed(tmp_path):
    """A database that is a link into another project is ignored."""
    other, world = scripted(tmp_path / "other", "classic"), scripted(tmp_path / "here", "classic")
    (world.directory / "beads.db").unlink()
    (world.directory / "beads.db").symlink_to(other.directory / "beads.db")
    with pytest.raises(BeadsError, match="no database"):
        world.beads.append_notes("shop-0", NOTE)


SERVED = (
    '{"dolt_mode": "server", "dolt_server_host": "203.0.113.7"}',
    '{"dolt_mode": "proxied-server"}',
    '{"dolt_mode": ["embedded"]}',
    '{"dolt_database": "../other"}',
    '{"dolt_database": "absent"}',
    '{"dolt_mode": ',
    "7",
)


@pytest.mark.parametrize("text", SERVED)
def test_issues_that_are_not_in_the_directory(text, tmp_path):
    """If a server has the issues, or metadata.json names no local database, the file is read."""
    world = scripted(tmp_path)
    (world.directory / "metadata.json").write_text(text)
    write_lines(world.directory, *LINES)
    assert ["e", "z"] == ids(world.beads.issues().epics)
    with pytest.raises(BeadsError, match="no database"):
        world.beads.append_notes("e", NOTE)

    assert [] == words_of(world)


def test_no_setting_of_the_project_is_given(tmp_path):
    """Of a .beads full of settings the program finds its database and nothing else."""
    world = scripted(tmp_path)
    for name in ("config.yaml", ".env", "redirect", "routes.jsonl", "hooks", "formulas"):
        (world.directory / name).write_text("# x")
    seen = tmp_path / "seen"
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(
        f'#!/bin/sh\n/bin/ls -A "$BEADS_DIR" "$HOME" >{seen}; exec {world.program} "$@"\n'
    )
    wrapper.chmod(0o755)
    beads = Beads(str(world.root), BeadsProgram(str(wrapper), confine=False))
    assert ["shop-0"] == ids(beads.issues().epics)

    words = seen.read_text().split()
    assert ["embeddeddolt", "metadata.json"] == [word for word in words if "/" not in word]


@pytest.mark.parametrize("machine", ["x86_64", "armv7l"])
def test_without_confinement_it_is_not_run(machine, tmp_path, monkeypatch):
    """If the kernel cannot confine the program, issues.jsonl is read and the reason is given."""
    monkeypatch.setattr(confinement.platform, "machine", lambda: machine)
    monkeypatch.setattr(confinement, "_landlock", lambda: 1)
    world = scripted(tmp_path)
    write_lines(world.directory, *LINES)
    beads = Beads(str(world.root), BeadsProgram(str(world.program)))
    found, told = beads.read_issues()
    assert ["e", "z"] == ids(found.epics)
    assert "confine" in told
    with pytest.raises(BeadsError, match="not run unconfined"):
        beads.append_notes("e", NOTE)

    assert [] == scripted_bd.calls(world.program)


def test_a_script_is_not_confined(tmp_path):
    """For npm's script the binary beside it is run; another script is not run."""
    world = scripted(tmp_path)
    with pytest.raises(BeadsError, match="is a script"):
        beads_program.find(BeadsProgram(str(world.program)), "/p")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/bd.js").write_text("#!/usr/bin/env node\n")
    (tmp_path / "package/bd.js").chmod(0o755)
    (tmp_path / "package/bd").symlink_to("/bin/true")
    (tmp_path / "bd").symlink_to("package/bd.js")

    assert str(tmp_path / "package/bd") == beads_program.find(
        BeadsProgram(str(tmp_path / "bd")), "/p"
    )


@pytest.mark.slow
@pytest.mark.parametrize("line", ["classic", "current"])
def test_settings_lead_nowhere_else(line, tmp_path):
    """A project's settings cannot direct the real programs to another project's issues."""
    other = make_world(f"real {line}", tmp_path / "other")
    theirs = other.epic("Theirs")
    world = make_world(f"real {line}", tmp_path / "here")
    ours = world.epic("Ours")
    database = other.directory / ("beads.db" if line == "classic" else "embeddeddolt")
    with (world.directory / "config.yaml").open("a") as stream:
        stream.write(f'\ndb: "{database}"\nno-db: false\n')

    assert ["Ours"] == [issue.title for issue in world.beads.issues().epics]
    world.beads.append_notes(ours, NOTE)
    assert "" == other.notes(theirs)


def test_copies_are_apart(tmp_path):
    """The worlds of two tests share nothing (a test of the tests)."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = make_world("scripted classic", tmp_path / "a")
    second = copied(first, tmp_path / "b")
    second.epic()

    assert [] == first.beads.issues().epics
