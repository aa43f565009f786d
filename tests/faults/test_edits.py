"""Edits that a person makes to a file while the daemon writes it, too."""

import os
import random
import signal
import threading
import time

import pytest
import yaml

from conftest import wait_for
from handoff.common.errors import HandoffError
from handoffd.contract import handoff_directory
from handoffd.fs import atomic_replace, files
from handoffd.tracks.conductor_directory import ConductorDirectory

EDITS = 100


def edit_in_place(path, change):
    """Edit like an editor that empties the file and fills it again."""
    text = path.read_text()
    path.write_text(change(text))


def edit_by_rename(path, change):
    """Edit like an editor that writes a new file beside it."""
    beside = path.with_name("beside~")
    beside.write_text(change(path.read_text()))
    beside.rename(path)


def edit(path, number, chance):
    change = lambda text: f"{text.rstrip()}\nedit_{number}: {number}\n"  # noqa: E731
    way = edit_by_rename if chance.random() < 0.5 else edit_in_place
    while True:
        try:
            way(path, change)
        except FileNotFoundError:
            continue
        return


@pytest.mark.parametrize("edits", [15, pytest.param(EDITS, marks=pytest.mark.long)])
def test_edits_while_the_daemon_writes(live, edits, record_property):
    """Of a hundred edits of handoff.yaml at random moments, under writes at full rate, none is lost."""
    project = live.project()
    path = project / ".flow-guardian/handoff.yaml"
    session = live.session(project)
    session.prompt("Let us both write into one file")
    wait_for(path.exists)
    stop, chance = threading.Event(), random.Random(33)
    saves = 0

    def write() -> None:
        nonlocal saves
        while not stop.is_set():
            reply = live.request("save", cwd=str(project), hypothesis=f"theory {saves}")
            saves += "result" in reply
            if not saves % 20:
                session.say(f"Step {saves} is done.")

    writer = threading.Thread(target=write)
    writer.start()
    kept = 0
    try:
        for number in range(edits):
            time.sleep(chance.uniform(0.0, 0.05))
            before = saves
            edit(path, number, chance)
            wait_for(lambda n=before: saves > n + 1, what="we wrote after it")
            kept += f"edit_{number}: {number}" in wait_for(lambda: live.yaml(project))
    finally:
        stop.set()
        writer.join()
    wait_for(live.answers)
    data = yaml.safe_load(path.read_text())
    lost = [number for number in range(edits) if data.get(f"edit_{number}") != number]
    assert ([], edits) == (lost, kept)
    record_property("figure", f"{edits} of {edits} kept beside {saves} writes of ours")


def test_editor_that_takes_its_time(live):
    """An edit is not lost if its editor pauses between emptying and filling the file."""
    project = live.project()
    path = project / ".flow-guardian/handoff.yaml"
    live.session(project).prompt("Let us both write into one file")
    wait_for(path.exists)
    text = path.read_text()
    with path.open("w") as stream:
        saver = threading.Thread(
            target=live.request, args=("save",), kwargs={"cwd": str(project), "hypothesis": "ours"}
        )
        saver.start()
        time.sleep(0.5)
        stream.write(f"{text.rstrip()}\nmine: 51\n")
    saver.join()
    wait_for(lambda: "ours" in live.yaml(project))

    assert "mine: 51" in live.yaml(project)


def append(text, number):
    return f"{text or ''}ours {number}\n"


def write_contract(root, number):
    handoff_directory.change(
        f"{root}/h", "a.md", lambda found: append(found.text if found else "", number)
    )


def write_metadata(root, number):
    change = lambda text: append(text, number)  # noqa: E731
    ConductorDirectory(str(root)).change_metadata("h", change)


@pytest.mark.long
@pytest.mark.parametrize(
    ("write", "name"), [(write_contract, "h/a.md"), (write_metadata, "conductor/tracks/h/metadata.json")]
)  # fmt: skip
def test_edits_of_other_files(tmp_path, write, name, record_property):
    """An edit of a handoff or of a track's metadata.json is not lost either."""
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text("a person's\n")
    stop = threading.Event()
    written = 0

    def go_on() -> None:
        nonlocal written
        while not stop.is_set():
            try:
                write(tmp_path, written)
                written += 1
            except HandoffError:
                continue  # it keeps changing
            time.sleep(0.001)

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        for number in range(EDITS):
            before = written
            edit_by_rename(path, lambda text, n=number: f"{text}edit {n}\n")
            wait_for(lambda n=before: written > n)
    finally:
        stop.set()
        writer.join()
    lines = path.read_text().splitlines()
    assert [] == [number for number in range(EDITS) if f"edit {number}" not in lines]
    record_property("figure", f"{path.name}: {EDITS} of {EDITS} kept beside {written} writes")


@pytest.mark.parametrize("way", [edit_in_place, edit_by_rename])
def test_an_edit_at_the_very_last_moment(tmp_path, monkeypatch, way):
    """An edit after the last look, just before the rename, is seen: nothing is written over it."""
    path = tmp_path / "a"
    path.write_text("one\n")
    look = files._regular

    def look_then_edit(handle, name):
        found = look(handle, name)
        way(path, lambda text: f"{text}two\n")
        return found

    with files.directory(str(tmp_path)) as handle:
        _, status = files.read(handle, "a", 100)
        monkeypatch.setattr(files, "_regular", look_then_edit)
        assert files.write(handle, "a", b"ours\n", expected=status) is None

    assert "one\ntwo\n" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_a_file_that_appears_at_the_very_last_moment(tmp_path, monkeypatch):
    """A file that was not there at the last look is not replaced."""
    path = tmp_path / "a"
    monkeypatch.setattr(files, "_regular", lambda *_: path.write_text("theirs") and None)
    with files.directory(str(tmp_path)) as handle:
        assert files.write(handle, "a", b"ours\n", expected=None) is None

    assert "theirs" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def write_around(path, monkeypatch, before, after):
    """Replace a file, with an action just before the first exchange of names, and one after it."""
    exchange, calls = atomic_replace._exchange, []

    def exchange_amid(*words):
        calls.append(words)
        if len(calls) > 1:
            return exchange(*words)
        before()
        done = exchange(*words)
        after()
        return done

    with files.directory(str(path.parent)) as handle:
        _, status = files.read(handle, path.name, 100)
        monkeypatch.setattr(atomic_replace, "_exchange", exchange_amid)
        return files.write(handle, path.name, b"ours\n", expected=status)


@pytest.mark.parametrize("newer", [False, True])
def test_a_file_that_is_moved_away_after_an_edit(tmp_path, monkeypatch, newer):
    """An edit is put back, though an editor moves ours away meanwhile; a newer file stays as well."""
    path, backup = tmp_path / "a", tmp_path / "a~"
    path.write_text("one\n")

    def move_away():
        path.rename(backup)

    def come_back(*words):
        path.write_text("newer\n")
        return take_free(*words)

    take_free = atomic_replace._rename_to_free_name
    if newer:
        monkeypatch.setattr(atomic_replace, "_rename_to_free_name", come_back)
    assert (
        write_around(path, monkeypatch, lambda: edit_by_rename(path, "{}two\n".format), move_away)
        is None
    )

    texts = sorted(found.read_text() for found in tmp_path.iterdir() if found != backup)
    assert (["newer\n", "one\ntwo\n"] if newer else ["one\ntwo\n"]) == texts
    assert ("newer\n" if newer else "one\ntwo\n") == path.read_text()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("way", [None, edit_in_place, edit_by_rename])
def test_killed_around_an_edit(tmp_path, monkeypatch, way, moment):
    """After a kill around the exchange of names, the next sweep restores an edit, no file more."""
    path = tmp_path / "a"
    path.write_text("one\n")

    def edit_then_die():
        if way:
            way(path, "{}two\n".format)
        if moment == "before":
            die()

    child = os.fork()
    if not child:
        try:
            write_around(path, monkeypatch, edit_then_die, die)
        finally:
            os._exit(1)
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with files.directory(str(tmp_path)) as handle:
        files.sweep(handle)

    kept = "one\n" if moment == "before" else "ours\n"
    assert ("one\ntwo\n" if way else kept) == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_what_came_after_a_killed_writer_stays(tmp_path):
    """A sweep leaves an edit aside if a newer file has taken its place."""
    aside = tmp_path / f".a.00000000.00000000{atomic_replace.ASIDE_SUFFIX}"
    aside.write_text("an edit")
    (tmp_path / f"x{atomic_replace.ASIDE_SUFFIX}").write_text("no name of ours")
    (tmp_path / "a").write_text("newer")
    with files.directory(str(tmp_path)) as handle:
        files.sweep(handle)

    assert ("newer", "an edit") == ((tmp_path / "a").read_text(), aside.read_text())
    assert 3 == len(list(tmp_path.iterdir()))
