"""Text written during a pause is never folded, stored, logged or answered: not even later."""

import json
import os
import signal
import time

import pytest

from conftest import contents_below, timestamp, wait_for

PHRASE = "planted xyzzy phrase"


def nowhere(sandbox, *projects) -> bool:
    """Return True if the phrase is in no file, log line or answer of ours."""
    texts = list(contents_below(sandbox.state, *projects).values())
    texts += [sandbox.log.read_bytes()]
    for project in projects:
        texts += [
            str(sandbox.show(project)).encode(),
            sandbox.handoff("inject", cwd=project).stdout.encode(),
        ]
    texts += [str(sandbox.call("sessions")).encode(), str(sandbox.call("status")).encode()]
    return not any(PHRASE.encode() in text for text in texts)


def rebuilt(sandbox):
    """Lose state.db and let the transcripts be folded anew."""
    sandbox.stop()
    for path in sandbox.state.glob("state.db*"):
        path.unlink()
    sandbox.start()
    wait_for(sandbox.settled)


@pytest.mark.quick
def test_pause_everything(live):
    """Lines of a known and of a new session stay unknown: after unpause, restart and rebuild."""
    project = live.project()
    session = live.session(project)
    session.prompt("Before the pause it is heard")
    wait_for(lambda: live.document(project)["goal"] == "Before the pause it is heard")

    assert 0 == live.handoff("pause").returncode
    session.prompt(f"Do the {PHRASE} thing")
    session.raw(session.line("user", message={"content": f"half a {PHRASE}"})[:-20])
    fresh = live.session(project)
    fresh.prompt(f"A new session with the {PHRASE} in it")
    live.restart()
    assert ["*"] == live.call("status")["paused"]
    session.raw(b'the rest of the line"}}\n')
    fresh.say(f"Still {PHRASE}.")
    assert 0 == live.handoff("unpause").returncode
    session.prompt("After the pause it is heard again")
    fresh.say("Heard again.")

    wait_for(lambda: "After the pause it is heard again" in live.yaml(project))
    assert nowhere(live, project)
    live.restart()
    wait_for(live.settled)
    assert nowhere(live, project)
    rebuilt(live)
    wait_for(lambda: "After the pause it is heard again" in live.document(project)["now"])
    assert nowhere(live, project)
    goals = {lane["session_id"]: lane["goal"] for lane in live.show(project)["lanes"]}
    assert "Before the pause it is heard" == goals[session.id]


@pytest.mark.quick
def test_pause_one_project(live):
    """`handoff pause .` silences one project; the other goes on; a new session stays unknown."""
    quiet, loud = live.project("quiet"), live.project("loud")
    session = live.session(quiet)
    session.prompt("Something that may be known")
    other = live.session(loud)
    other.prompt("The other project goes on")
    wait_for(lambda: live.call("status")["sessions"] == 2)

    assert 0 == live.handoff("pause", ".", cwd=quiet).returncode
    session.prompt(f"The {PHRASE} of this project")
    fresh = live.session(quiet)
    fresh.prompt(f"A fresh session with the {PHRASE}")
    other.say("Heard as ever.")
    wait_for(lambda: "Heard as ever." in live.document(loud)["now"])
    live.restart()
    wait_for(live.settled)
    assert 0 == live.handoff("unpause", ".", cwd=quiet).returncode
    session.say("Audible once more.")
    fresh.say("Audible too.", timestamp=timestamp(-2))

    wait_for(lambda: "Audible once more." in live.document(quiet)["now"])
    assert nowhere(live, quiet, loud)
    rebuilt(live)
    assert nowhere(live, quiet, loud)


@pytest.mark.parametrize("scope", [[], ["."]])
def test_copies_of_silenced_records_stay_unknown(live, scope):
    """A fork that copies the paused lines into a new file later reveals nothing."""
    project = live.project()
    session = live.session(project)
    session.prompt("A session that will be forked")
    wait_for(lambda: live.call("status")["sessions"] == 1)
    live.handoff("pause", *scope, cwd=project)
    silent = live.session(project)
    silent.prompt(f"The very first words are the {PHRASE}")
    session.edit(f"{project}/{PHRASE}.py")
    live.handoff("unpause", *scope, cwd=project)
    live.session(project).raw(silent.path.read_bytes())
    fork = live.session(project)
    fork.raw(session.path.read_bytes())
    fork.prompt("The fork goes on from here", timestamp=timestamp(-1))

    wait_for(lambda: "The fork goes on from here" in live.document(project)["now"])
    assert nowhere(live, project)


@pytest.mark.parametrize("pieces", [1, 7])
def test_rewritten_file_with_a_silent_part_stays_silent(live, pieces):
    """A transcript rewritten after a pause, at once or bit by bit, reveals nothing of it."""
    project = live.project()
    session = live.session(project)
    session.prompt("The first request of the session")
    wait_for(lambda: live.call("status")["sessions"] == 1)
    live.handoff("pause")
    session.raw(session.line("user", timestamp="", message={"content": f"No time, but {PHRASE}"}))
    session.edit(f"{project}/{PHRASE}.py")
    live.handoff("unpause")
    whole = b'{"type":"mode"}\n' + session.path.read_bytes()
    session.path.write_bytes(b"")
    size = len(whole) // pieces + 1
    for number in range(pieces):
        wait_for(lambda: live.call("status")["replaced"] >= 1)
        session.raw(whole[number * size : (number + 1) * size])
    session.say("Going on.")

    wait_for(lambda: "Going on." in live.document(project)["now"])
    assert nowhere(live, project)
    rebuilt(live)
    assert ["Going on."] == [lane["now"].split(" — ")[-1] for lane in live.show(project)["lanes"]]
    assert nowhere(live, project)


def test_nothing_is_written_while_paused(live):
    """A paused project's handoff.yaml is left alone."""
    project = live.project()
    session = live.session(project)
    session.prompt("The first request of the session")
    wait_for(lambda: "The first request" in live.yaml(project))
    live.handoff("pause")
    before = live.yaml(project)
    live.git(project, "switch", "-q", "-c", "secret-branch")
    session.prompt(f"The {PHRASE} again")
    (project / f"{PHRASE}.txt").write_text("x")
    live.handoff("inject", "--save-state", cwd=project)
    wait_for(lambda: live.call("status")["rescans"] >= 3)

    assert before == live.yaml(project)
    assert "secret-branch" not in str(live.show(project))
    assert PHRASE not in str(live.show(project))
    assert "is paused" in live.handoff("show", cwd=project).stdout


def test_unpausing_one_project_while_everything_is_paused(live):
    """`unpause .` cannot end a pause of everything, and names the command that can."""
    project = live.project()
    live.handoff("pause")
    tried = live.handoff("unpause", ".", cwd=project)

    assert 1 == tried.returncode
    assert "handoff unpause" in tried.stderr


def test_transcript_away_while_the_pause_ends(live):
    """A transcript that is away when a pause ends is read again once it is back, from then on."""
    project = live.project()
    session, other = live.session(project), live.session(live.project("other"))
    session.prompt("Before the pause it is heard")
    other.prompt("Nobody pauses this")
    wait_for(lambda: live.call("status")["records"] == 2)
    assert 0 == live.handoff("pause", str(project)).returncode
    session.prompt(f"Do the {PHRASE} thing")
    away = live.home / "away"
    away.mkdir()
    for path in (session.path, other.path):
        os.rename(path, away / path.name)
    live.process.send_signal(signal.SIGHUP)  # or it would take until the next rescan
    wait_for(lambda: live.call("status")["transcripts"] == 1)
    assert 0 == live.handoff("unpause", str(project)).returncode
    os.rename(away / session.path.name, session.path)
    session.prompt("After the pause it is heard, too")
    wait_for(lambda: live.document(project)["now"] == "After the pause it is heard, too")

    assert nowhere(live, project)
    assert 3 == live.call("status")["records"]


@pytest.mark.quick
def test_excluded_and_disabled_projects(sandbox):
    """Excluded by a glob or switched off in its own config, a project is not learned from."""
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[projects]\nexclude = ["~/code/secret*"]\n')
    secret, off, on = (sandbox.project(name) for name in ("secret-one", "off", "on"))
    (off / ".flow-guardian").mkdir()
    (off / ".flow-guardian/config.yaml").write_text("enabled: false\n")
    for project in (secret, off):
        sandbox.session(project).prompt(f"Work with the {PHRASE} inside")
    sandbox.start()
    sandbox.session(on).prompt("Work that may be known")
    wait_for(lambda: sandbox.document(on)["goal"] == "Work that may be known")
    wait_for(sandbox.settled)

    assert nowhere(sandbox, secret, off)
    assert "excluded" == sandbox.show(secret)["refused"]
    assert "disabled" == sandbox.show(off)["refused"]
    (off / ".flow-guardian/config.yaml").write_text("enabled: true\n")
    wait_for(lambda: PHRASE in sandbox.document(off)["goal"])


def test_task_files_of_a_pause_stay_unknown(live):
    """A task stored during a pause is not taken afterwards either."""
    project = live.project()
    session = live.session(project)
    session.prompt("Before the pause it is heard")
    wait_for(lambda: "Before the pause" in live.yaml(project))
    assert 0 == live.handoff("pause").returncode
    time.sleep(0.05)
    directory = live.transcripts.parent / "tasks" / session.id
    directory.mkdir(parents=True)
    task = {"id": "1", "subject": f"Do {PHRASE}", "status": "pending"}
    (directory / "1.json").write_text(json.dumps(task))
    time.sleep(0.05)
    live.handoff("unpause")
    session.prompt("After the pause it is heard again")

    wait_for(lambda: "After the pause" in live.yaml(project))
    assert nowhere(live, project)
