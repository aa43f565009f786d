"""Open items that a person closes, with a real daemon and the real client."""

import json
import sqlite3

import pytest

from conftest import wait_for
from written_handoffs import text

TODOS = ("Write the parser tests", "Update the manual", "Measure the start time")


def todo_list(session, *texts):
    todos = [{"content": text, "status": "pending", "activeForm": text} for text in texts]
    block = {"type": "tool_use", "id": "t1", "name": "TodoWrite", "input": {"todos": todos}}
    message = {"role": "assistant", "id": "m", "content": [block]}
    session.raw(session.line("assistant", message=message))
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    session.raw(session.line("user", message={"role": "user", "content": [result]}))


def begin(sandbox, name="shop", texts=TODOS):
    """Make a project with a finished turn that has left some items open."""
    project = sandbox.project(name)
    session = sandbox.session(project)
    session.prompt("Make the parser of the shop ready for the release")
    session.edit(f"{project}/parser.py")
    todo_list(session, *texts)
    session.say("I changed the parser in parser.py.")
    wait_for(lambda: listed(sandbox, project) == list(texts))
    wait_for(lambda: all(text in sandbox.yaml(project) for text in texts))
    return project, session


def listed(sandbox, project):
    return sandbox.document(project).get("next", [])


def closed(sandbox, project, *words):
    """Look at the list, then close an item of it."""
    assert 0 == sandbox.handoff("show", cwd=project).returncode
    done = sandbox.handoff(*words, cwd=project)
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.mark.quick
def test_closed_item_is_gone_everywhere(live):
    """An item that a person closed is in no list: show, handoff.yaml, the brief; others stay."""
    project, _ = begin(live)

    shown = live.handoff("show", cwd=project).stdout
    assert all(f"{number}. {item}" in shown for number, item in enumerate(TODOS, 1))
    left = closed(live, project, "done", "2")

    assert "Done: Update the manual" in left
    assert "1. Write the parser tests" in left
    assert "2. Measure the start time" in left
    assert [TODOS[0], TODOS[2]] == listed(live, project)
    wait_for(lambda: TODOS[1] not in live.yaml(project))
    assert TODOS[1] not in live.handoff("inject", cwd=project).stdout
    assert TODOS[0] in live.yaml(project)


@pytest.mark.quick
def test_items_as_data(live):
    """`show --json` has each open item with its number, kind, state and receipt."""
    project, session = begin(live)

    found = json.loads(live.handoff("show", "--json", cwd=project).stdout)["items"]

    assert list(TODOS) == [item["text"] for item in found]
    assert [1, 2, 3] == [item["number"] for item in found]
    assert {("todo", "open")} == {(item["kind"], item["state"]) for item in found}
    assert {session.id} == {item["receipt"]["transcript"] for item in found}
    assert all(item["receipt"]["uuid"] for item in found)


def test_mark_survives_kill_and_new_fold(live):
    """A closed item stays closed after kill -9, a restart and a new fold of the transcript."""
    project, session = begin(live)
    closed(live, project, "drop", "1")
    live.kill()
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (live.state / name).unlink(missing_ok=True)
    live.start()
    wait_for(live.settled)

    wait_for(lambda: list(TODOS[1:]) == listed(live, project))
    todo_list(session, *TODOS)
    session.say("The list is the same.")
    wait_for(live.settled)
    assert list(TODOS[1:]) == listed(live, project)
    wait_for(lambda: TODOS[0] not in live.yaml(project))


@pytest.mark.quick
def test_refused_if_the_list_changed(live):
    """Nothing is closed if the list changed since it was shown, or was never shown."""
    project, session = begin(live)
    unseen = live.handoff("done", "1", cwd=project)
    assert 1 == unseen.returncode
    assert "was not shown yet" in unseen.stderr
    assert "handoff show" in unseen.stderr
    live.handoff("show", cwd=project)
    todo_list(session, "Ask Ann first", *TODOS)
    wait_for(lambda: "Ask Ann first" in listed(live, project))

    refused = live.handoff("done", "1", cwd=project)

    assert 1 == refused.returncode
    assert "has changed since it was shown" in refused.stderr
    assert "handoff show" in refused.stderr
    assert "Ask Ann first" in listed(live, project)


@pytest.mark.quick
def test_a_program_passes_the_stamp(live):
    """Data for a program does not count as shown; the stamp in it does."""
    project, _ = begin(live)
    data = json.loads(live.handoff("show", "--json", cwd=project).stdout)

    assert 1 == live.handoff("done", "1", cwd=project).returncode
    assert 1 == live.handoff("done", "1", "--stamp", "000000", cwd=project).returncode
    done = live.handoff("done", "1", "--stamp", data["stamp"], "--json", cwd=project)
    assert ("done", TODOS[0]) == tuple(json.loads(done.stdout)[key] for key in ("state", "text"))


@pytest.mark.quick
def test_wrong_number(live):
    """A number that the list does not have is refused, and one below 1 is a wrong usage."""
    project, _ = begin(live)
    live.handoff("show", cwd=project)

    wrong = live.handoff("drop", "4", cwd=project)

    assert (1, True) == (wrong.returncode, "no open item 4. It has 3 items" in wrong.stderr)
    assert 2 == live.handoff("drop", "0", cwd=project).returncode
    assert list(TODOS) == listed(live, project)


def test_another_project_keeps_its_items(live):
    """An item with the same words in another project stays open."""
    project, _ = begin(live)
    other, _ = begin(live, "till")
    closed(live, project, "drop", "1")

    assert list(TODOS) == listed(live, other)
    assert list(TODOS[1:]) == listed(live, project)


def test_status_follows(live):
    """If a person closes the last open item of an ended turn, the work is completed."""
    project, _ = begin(live, texts=TODOS[:2])
    assert "in_progress" == live.document(project)["status"]
    closed(live, project, "done", "1")
    assert "in_progress" == live.document(project)["status"]

    assert "completed; no open item is left" in closed(live, project, "done", "1")
    assert "completed" == live.document(project)["status"]


def test_handoff_of_the_session_follows(live):
    """The handoff that an ended session left is written anew without the closed item."""
    project, session = begin(live)
    event = {"hook_event_name": "SessionEnd", "session_id": session.id, "cwd": str(project)}
    event |= {"reason": "exit", "transcript_path": str(session.path)}
    live.handoff("hook", cwd=project, input=json.dumps(event))
    wait_for(lambda: live.run_due() and TODOS[1] in text(live, project))

    closed(live, project, "done", "2")

    wait_for(lambda: TODOS[1] not in text(live, project))
    assert TODOS[0] in text(live, project)


def test_untrue_is_kept_for_the_log(live):
    """The log says which item a person called not true."""
    project, _ = begin(live)
    closed(live, project, "drop", "3", "--untrue")
    wait_for(lambda: TODOS[2] not in live.yaml(project))

    shown = " ".join(live.handoff("show", "--log", cwd=project).stdout.split())

    assert f"- {TODOS[2]} [not true, says a person] because a person closed it" in shown
    log = json.loads(live.handoff("show", "--log", "--json", cwd=project).stdout)
    assert [("untrue", TODOS[2])] == [(mark["state"], mark["text"]) for mark in log["marks"]]


@pytest.mark.parametrize("running", [True, False], ids=["running", "down"])
def test_deleted_line_is_dropped(live, running):
    """A line that a person deletes from `next` is dropped; the other items stay the session's."""
    project, session = begin(live)
    if not running:
        live.stop()
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(path.read_text().replace(f"- {TODOS[1]}\n", ""))
    if not running:
        live.start()

    wait_for(lambda: [TODOS[0], TODOS[2]] == listed(live, project))
    todo_list(session, *TODOS, "Tell Ann")
    wait_for(lambda: "Tell Ann" in live.yaml(project))
    assert [TODOS[0], TODOS[2], "Tell Ann"] == listed(live, project)[:3]
    assert TODOS[1] not in live.yaml(project)


def test_persons_own_line(live):
    """A line that a person wrote into `next` is closed by its number, too."""
    project, _ = begin(live)
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(path.read_text().replace(f"- {TODOS[1]}\n", "- Call Ann\n"))
    wait_for(lambda: "Call Ann" in listed(live, project))

    closed(live, project, "done", "2")

    assert [TODOS[0], TODOS[2]] == listed(live, project)
    wait_for(lambda: "Call Ann" not in live.yaml(project))


def test_without_a_daemon(live):
    """Without a daemon the line is deleted from handoff.yaml, and the next daemon drops it."""
    project, _ = begin(live)
    live.stop()
    assert 1 == live.handoff("done", "1", "--stamp", "000000", cwd=project).returncode
    left = closed(live, project, "done", "1")
    assert "1. Update the manual" in left
    assert TODOS[0] not in live.yaml(project)
    assert "Only the daemon notes" in live.handoff("drop", "1", "--untrue", cwd=project).stderr
    live.start()
    wait_for(live.settled)

    wait_for(lambda: list(TODOS[1:]) == listed(live, project))


def test_forgotten(live):
    """`forget` erases the marks and the note on the list."""
    project, _ = begin(live)
    closed(live, project, "drop", "1")

    assert 0 == live.handoff("forget", "--yes", cwd=project).returncode

    live.stop()
    with sqlite3.connect(live.state / "core.db") as db:
        tables = ("item_marks", "shown_items")
        rows = [db.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in tables]
    assert [0, 0] == rows
    assert TODOS[0].encode() not in (live.state / "core.db").read_bytes()
