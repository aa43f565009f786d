"""`handoff forget` erases derived data, to the last byte, and the data does not come back."""

import json
import os
import pty
import re
import select
import sqlite3
import subprocess
import sys
import time

import pytest

from conftest import BIN, contents_below, timestamp, wait_for

WORD = "quixotic-zanzibar-word"
DAY = 24 * 3600


def handoffs(sandbox):
    return sandbox.home / ".claude/handoffs"


def encoded(path) -> str:
    return re.sub(r"[^a-zA-Z0-9-]", "-", str(path))


def holders(sandbox, *projects) -> list[str]:
    """Return every file of ours that has the word."""
    roots = [sandbox.state, handoffs(sandbox), *projects]
    texts = {sandbox.log: sandbox.log.read_bytes()} | contents_below(*roots)
    return [str(path) for path, text in texts.items() if WORD.encode() in text]


def said(sandbox, *projects) -> str:
    """Return all answers of the daemon."""
    texts = [str(sandbox.show(project)) for project in projects]
    texts += [sandbox.handoff("inject", cwd=project).stdout for project in projects]
    return " ".join([*texts, str(sandbox.call("sessions")), str(sandbox.call("status"))])


def gone(sandbox, *projects) -> bool:
    assert [] == holders(sandbox, *projects)
    return WORD not in said(sandbox, *projects)


def work(sandbox, project, text=f"Mend the {WORD} of the shop", **envelope):
    """Let a session work, and wait until all of it is written."""
    session = sandbox.session(project, **envelope)
    session.prompt(text)
    session.say(f"I will look into {text}.")
    session.edit(f"{project}/src/{WORD}.py" if WORD in text else f"{project}/src/other.py")
    wait_for(lambda: session.id in str(sandbox.call("sessions")))
    return session


def written(sandbox, project, word=WORD) -> bool:
    return wait_for(lambda: word in sandbox.yaml(project), what="handoff.yaml is written")


def leave(sandbox, project, session_id, cwd, name="a.md", text=WORD):  # noqa: PLR0913, PLR0917
    """Put a handoff into the place that Claude Code's commands and our daemon use."""
    directory = handoffs(sandbox) / encoded(project)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(
        f"# Handoff — 2025-01-01\n\nsession_id: {session_id}\npurpose: {text}\ncwd: {cwd}\n\n## Done\n- {text}\n"
    )
    return path


def forget(sandbox, *words, cwd=None, code=0):
    done = sandbox.handoff("forget", *words, cwd=cwd)
    assert code == done.returncode, done.stdout + done.stderr
    return done


def rebuild(sandbox):
    sandbox.stop()
    for path in sandbox.state.glob("state.db*"):
        path.unlink()
    sandbox.start()
    wait_for(sandbox.settled)


@pytest.mark.quick
def test_no_byte_is_left_behind(live):
    """A project's words are in no file of ours any more, nor in an answer; the transcript stays."""
    project = live.project()
    session = work(live, project)
    agents = session.path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    line = session.line("user", isSidechain=True, message={"content": f"Find the {WORD}"})
    (agents / "agent-1.jsonl").write_bytes(line)
    for number in range(40):  # so that pages of the database are split, freed and used again
        session.prompt(f"The {WORD} number {number}: {'lorem ipsum ' * number}")
        time.sleep(0.01)
    live.handoff("save", "-m", f"Saving the {WORD}", cwd=project)
    wait_for(lambda: "number 39" in str(live.show(project)))
    written(live, project)
    leave(live, project, session.id, str(project))
    (live.state / "state.db.damaged-2025").write_text(WORD)
    (project / ".flow-guardian/handoff.yaml.unreadable-2025").write_text(WORD)
    assert len(holders(live, project)) > 5

    done = forget(live, "--yes", cwd=project)

    assert gone(live, project)
    assert not (project / ".flow-guardian").exists()
    assert not (handoffs(live) / encoded(project)).exists()
    for said_so in (
        "handoff.yaml",
        "a.md",
        "brief",
        "state.db.damaged-2025",
        "1 session",
        "2 trans",
    ):
        assert said_so in done.stdout, done.stdout
    assert "transcripts are Claude Code's own" in done.stdout
    assert WORD in session.path.read_text()


def test_neither_restart_nor_rebuild_brings_it_back(live):
    """After a restart, and after state.db is made anew from the transcripts, all stays unknown."""
    project = live.project()
    work(live, project)
    work(live, project, f"Another session with the {WORD}")
    written(live, project)
    forget(live, "--yes", cwd=project)
    live.restart()
    wait_for(live.settled)
    assert gone(live, project)
    rebuild(live)

    assert gone(live, project)
    assert "" == live.yaml(project)


@pytest.mark.parametrize("whole", [True, False])
def test_a_live_session_goes_on_with_nothing_known(live, whole):
    """A session's later lines are read; its earlier lines leave no trace."""
    project = live.project()
    session = work(live, project)
    tasks = live.transcripts.parent / "tasks" / session.id
    tasks.mkdir(parents=True)
    (tasks / "1.json").write_text(json.dumps({"id": "1", "subject": f"Do {WORD}"}))
    old = session.path.read_bytes()
    half = session.line("user", message={"content": f"half a {WORD}"})
    session.raw(half[:-20])
    written(live, project)
    forget(live, "--yes", *([] if whole else [session.id]), cwd=project)
    session.raw(half[-20:])
    session.prompt("Now paint the fence green", timestamp=timestamp(-1))
    session.raw(old)  # a client appends old records again
    session.raw(session.line("custom-title", timestamp="", customTitle=f"The {WORD}"))
    written(live, project, "Now paint the fence green")
    wait_for(live.settled)

    assert "Now paint the fence green" == live.document(project)["goal"]
    assert 1 == live.show(project)["lanes"][0]["prompts"]
    assert gone(live, project)
    rebuild(live)
    assert "Now paint the fence green" == live.document(project)["goal"]
    assert gone(live, project)


def test_copies_in_another_session_are_not_folded(live):
    """A fork of a forgotten session reveals nothing of it, and is read from then on."""
    project = live.project()
    session = work(live, project)
    session.raw(session.line("custom-title", timestamp="", customTitle=f"The {WORD}"))
    forget(live, "--yes", cwd=project)
    fork = live.session(project)
    fork.raw(session.path.read_bytes())
    fork.prompt("The fork paints the fence", timestamp=timestamp(-1))
    written(live, project, "The fork paints the fence")

    assert "The fork paints the fence" == live.document(project)["goal"]
    assert gone(live, project)


@pytest.mark.parametrize("whole", [True, False])
def test_a_rewritten_transcript_stays_forgotten(live, whole):
    """A forgotten transcript that is rewritten, so that its bytes move, reveals nothing."""
    project = live.project()
    session = work(live, project)
    forget(live, "--yes", *([] if whole else [session.id]), cwd=project)
    wait_for(live.settled)
    replaced = live.call("status")["replaced"]
    session.path.write_bytes(b'{"type":"mode"}\n' * 99 + session.path.read_bytes())
    wait_for(lambda: live.call("status")["replaced"] > replaced)
    session.prompt("Going on with the fence", timestamp=timestamp(-1))
    written(live, project, "Going on with the fence")

    assert gone(live, project)


@pytest.mark.quick
def test_other_projects_are_untouched(live):
    """Another project keeps its state, its checkpoint and its handoffs."""
    project, other = live.project("shop"), live.project("shop-two")
    work(live, project)
    keeper = work(live, other, "Paint the other fence")
    written(live, project)
    written(live, other, "Paint the other fence")
    theirs = leave(live, other, keeper.id, str(other), text="the other fence")
    shared = leave(live, project, "f00", str(other), "b.md", text="the other fence, elsewhere")
    before = live.yaml(other), live.show(other)["document"]
    forget(live, "--yes", str(project))

    assert gone(live, project, other)
    assert before == (live.yaml(other), live.show(other)["document"])
    assert theirs.exists()
    assert shared.exists()


@pytest.mark.quick
def test_one_session_by_its_beginning(live):
    """A session is forgotten by the first characters of its id; the other session stays."""
    project = live.project()
    keeper = work(live, project, "Paint the fence of the shop")
    written(live, project, "Paint the fence")
    session = work(live, project)
    written(live, project)
    ours = leave(live, project, session.id, str(project))
    others = leave(live, project, keeper.id, str(project), "b.md", text="the fence")
    text = live.yaml(project)
    (project / ".flow-guardian/handoff.yaml").write_text(f"{text}owner: Ann\n")
    wait_for(lambda: live.document(project).get("owner") == "Ann")

    done = forget(live, "--yes", session.id[:7], cwd=live.home)

    assert f"session {session.id}" in done.stdout
    assert not ours.exists()
    assert others.exists()
    assert gone(live, project)
    assert [keeper.id] == [lane["session_id"] for lane in live.show(project)["lanes"]]
    assert "Paint the fence of the shop" == live.document(project)["goal"]
    assert "Paint the fence" in live.yaml(project)
    assert "owner: Ann" in live.yaml(project)
    rebuild(live)
    assert gone(live, project)


def test_the_only_session_takes_the_checkpoint_with_it(live):
    """If nothing else is known of a project, forgetting its session erases the checkpoint."""
    project = live.project()
    session = work(live, project)
    written(live, project)
    forget(live, "--yes", session.id)

    assert gone(live, project)
    assert not (project / ".flow-guardian").exists()


def test_a_session_again(live):
    """Given again, the command still knows a forgotten session's project, and erases the rest."""
    project = live.project()
    session = work(live, project)
    work(live, project, "Paint the fence of the shop")
    written(live, project, "Paint the fence")
    forget(live, "--yes", session.id)
    (live.state / "state.db.damaged-2026").write_text(WORD)
    (project / ".flow-guardian/handoff.yaml.unreadable-2026").write_text(WORD)
    done = forget(live, "--yes", session.id[:8])

    assert "written anew" in done.stdout
    assert gone(live, project)


def test_what_an_argument_means(live):
    """A directory wins over a session's beginning, and that is said.

    A short prefix is no session.
    """
    project = live.project()
    work(live, project, session_id="abcdef00-1111-2222-3333-444444444444")
    work(live, project, session_id="abcdef00-5555-2222-3333-444444444444")
    (live.home / "abcdef00").mkdir()

    assert "the directory is meant" in forget(live, "--yes", "abcdef00").stdout
    assert "2 sessions" in forget(live, "abcdef00", cwd="/", code=4).stderr
    assert "handoff sessions" in forget(live, "abcde", cwd="/", code=1).stderr
    assert "abcdef00-1" in forget(live, "abcdef00-1", cwd="/", code=4).stdout


@pytest.mark.quick
def test_dry_run_changes_nothing(live):
    """Without --yes the list is shown, nothing is erased, and the exit code asks for a choice."""
    project = live.project()
    session = work(live, project)
    written(live, project)
    path = leave(live, project, session.id, str(project))
    wait_for(live.settled)

    def everything():
        tables = (
            "projects",
            "settings",
            "checkpoints",
            "pauses",
            "skips",
            "rewritten",
            "contracts",
        )
        with sqlite3.connect(f"file:{live.state}/core.db?mode=ro", uri=True) as core:
            rows = [core.execute(f"SELECT * FROM {name}").fetchall() for name in tables]
        return rows, live.yaml(project), path.read_text(), live.call("sessions")["total"]

    wait_for(lambda: all(row[1] == row[2] for row in everything()[0][2]), what="it is written")
    before = everything()
    shown = forget(live, cwd=project, code=4)
    asked = json.loads(forget(live, "--json", cwd=project, code=4).stdout)

    assert before == everything()
    assert "Would erase" in shown.stdout
    assert "--yes" in shown.stderr
    assert asked["dry_run"]
    assert [str(path)] == asked["handoffs"]
    assert [session.id] == asked["sessions"]


def answered(sandbox, project, answer: bytes) -> str:
    """Run `handoff forget` on a terminal, and answer its question."""
    here, there = pty.openpty()
    process = subprocess.Popen(
        [str(BIN / "handoff"), "forget"], cwd=project, env=sandbox.environment,
        stdin=there, stdout=there, stderr=there, close_fds=True,
    )  # fmt: skip
    os.close(there)
    text = b""
    while b"[y/N]" not in text:
        assert select.select([here], [], [], 20)[0], text
        text += os.read(here, 4096)
    os.write(here, answer)
    try:
        while part := os.read(here, 4096):
            text += part
    except OSError:  # the other end is closed
        pass
    os.close(here)
    assert 0 == process.wait(90)
    return text.decode()


def test_on_a_terminal_it_asks(live):
    """On a terminal the command lists the affected data and asks; only a yes erases it."""
    project = live.project()
    work(live, project)
    written(live, project)

    assert "Nothing was erased." in answered(live, project, b"\n")
    assert WORD in live.yaml(project)
    assert "Erased" in answered(live, project, b"y\n")
    assert gone(live, project)


@pytest.mark.quick
def test_without_a_daemon(sandbox):
    """The command needs the daemon, and says how to start it."""
    project = sandbox.project()

    assert "handoff up" in forget(sandbox, "--yes", cwd=project, code=3).stderr


def test_handoffs_that_do_not_say_whose_they_are(live):
    """A handoff without a cwd and without a known session is left, and its path is reported."""
    project = live.project()
    session = work(live, project)
    known = leave(live, project, session.id, "", "known.md")
    below = leave(live, project / "src", "elsewhere", f"{project}/src", "below.md")
    foreign = leave(live, project, "someone-else", "", "foreign.md", text="somebody's own")
    done = forget(live, "--yes", cwd=project)

    assert f"{encoded(project)}/foreign.md" in done.stdout.split("Left:")[1]
    assert foreign.exists()
    assert not known.exists()
    assert not below.parent.exists()
    assert gone(live, project)


def test_a_link_of_the_first_encoding_goes_with_its_directory(live):
    """The v1 link to a handoff directory that became empty is removed, too."""
    project = live.project("my_shop")
    session = work(live, project)
    path = leave(live, project, session.id, str(project))
    link = handoffs(live) / str(project).replace("/", "-").replace(".", "-")
    link.symlink_to(path.parent.name)
    forget(live, "--yes", cwd=project)

    assert not path.parent.exists()
    assert not link.is_symlink()


def test_a_persons_own_files_are_left(live):
    """config.yaml, and a .gitignore of the person's own, stay where they are."""
    project = live.project()
    (project / ".flow-guardian").mkdir()
    (project / ".flow-guardian/config.yaml").write_text("enabled: true\n")
    (project / ".flow-guardian/.gitignore").write_text("handoff.yaml\n")
    work(live, project)
    written(live, project)
    forget(live, "--yes", cwd=project)

    assert {"config.yaml", ".gitignore"} == set(os.listdir(project / ".flow-guardian"))
    assert gone(live, project)


def test_while_it_is_being_written(live):
    """Forgetting a project during its work, again and again, never brings old words back."""
    project = live.project()
    session = live.session(project)
    for number in range(8):
        session.prompt(f"Round {number} of the {WORD}")
        live.request("save", cwd=str(project), message=f"Saved {WORD}")
        live.call("forget", cwd=str(project))
        wait_for(live.settled)
        assert [] == [path for path in holders(live, project) if path != str(live.log)], number
    live.run_due()

    assert gone(live, project)


def test_a_project_that_is_paused(live):
    """A project forgotten during a pause is erased, and stays silent until the pause ends."""
    project = live.project()
    session = work(live, project)
    written(live, project)
    live.handoff("pause", ".", cwd=project)
    session.prompt(f"In the pause, the {WORD}")
    forget(live, "--yes", cwd=project)
    session.prompt(f"Still in the pause, the {WORD}")
    assert [str(project)] == live.call("status")["paused"]
    live.handoff("unpause", ".", cwd=project)
    session.prompt("Heard again at last", timestamp=timestamp(-1))
    written(live, project, "Heard again at last")

    assert gone(live, project)
    rebuild(live)
    assert gone(live, project)


RETENTION = """
import asyncio, os, sys
from handoffd import app, config; from handoffd.runtime import clock; from handoffd.privacy import erasure
from handoffd.runtime.directories import make_state_dir
from handoff.common.paths import config_file

async def main():
    context = app.build(make_state_dir(), config_file(), config.load(config_file()), None)
    reading = asyncio.ensure_future(context.daemon.transcript_reader.run())
    context.daemon.transcript_watcher.start()
    await context.daemon.transcript_watcher.rescan()
    await erasure.forget_old(context)
    reading.cancel()
    context.daemon.transcript_watcher.stop()
    context.daemon.state.close()
    context.core.close()

asyncio.run(main())
"""


def retained(sandbox, days: int) -> str:
    """Stop the daemon, run its daily retention once, and return the logged lines."""
    sandbox.stop()
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"[privacy]\nretention_days = {days}\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", RETENTION],
        env=sandbox.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    sandbox.start()
    wait_for(sandbox.settled)
    return done.stdout + done.stderr


def test_retention(live):
    """Data older than `retention_days` is forgotten, also after a rebuild; newer data is not."""
    old, mixed = live.project("old"), live.project("mixed")
    ago = timestamp(40 * DAY)
    gone_sessions = [work(live, project, timestamp=ago) for project in (old, mixed)]
    work(live, mixed, "Paint the fence today")
    written(live, mixed, "Paint the fence today")
    live.handoff("save", "-m", f"Saved {WORD}", cwd=old)
    theirs = leave(live, old, gone_sessions[0].id, str(old), text="a person's own")
    live.stop()
    long_ago = time.time() - 39 * DAY
    for path in (*live.state.glob("briefs/*"), old / ".flow-guardian/handoff.yaml"):
        os.utime(path, (long_ago, long_ago))
    live.start()
    assert holders(live, old)

    assert "" == retained(live, 0)
    assert holders(live, old)
    assert "retention" in retained(live, 30)
    assert gone(live, old, mixed)
    assert "" == live.yaml(old)
    assert theirs.exists()
    assert "Paint the fence today" in live.yaml(mixed)
    assert 1 == live.call("sessions")["total"]
    rebuild(live)
    assert gone(live, old, mixed)
    assert "Paint the fence today" == live.document(mixed)["goal"]


def test_retention_of_a_transcript_that_is_away(live):
    """A session without a dated record is as old as its file, also while its disk is away."""
    session = live.session(live.project())
    session.raw(session.line("system", content="Nothing that anybody said", timestamp=""))
    wait_for(lambda: live.call("status")["records"] == 1)
    os.rename(session.path, live.home / "away.jsonl")
    retained(live, 30)
    os.rename(live.home / "away.jsonl", session.path)
    session.prompt("Go on where it stood")
    wait_for(lambda: live.call("status")["records"] == 1)

    assert 1 == live.call("status")["sessions"]
    assert 0 == live.call("status")["skipped"]["silenced"]
