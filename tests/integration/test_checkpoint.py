"""handoff.yaml of a real project: the precedence of its writers, and the values that survive."""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import time

import pytest
import yaml

from conductor_projects import run_after
from conftest import allowed, contents_below, timestamp, wait_for


def begin(sandbox, name="shop", goal="Add a discount code field"):
    """Make a project with a session that has stated a goal, and wait for its file."""
    project = sandbox.project(name)
    session = sandbox.session(project)
    session.prompt(goal)
    wait_for(lambda: goal in sandbox.yaml(project))
    return project, session


@pytest.mark.seed("001", "| `branch` | string | No")
@pytest.mark.seed("001", '"branch": git_state.get("branch")')
def test_git_switch_shows_without_a_transcript_line(live):
    """A `git switch` shows in `handoff show` within a second, and in the file soon after."""
    project, _ = begin(live)
    live.git(project, "switch", "-q", "-c", "feature/codes")

    wait_for(lambda: live.document(project)["branch"] == "feature/codes", allowed(1))
    wait_for(lambda: "branch: feature/codes" in live.yaml(project), allowed(6))


@pytest.mark.quick
def test_a_stop_between_the_checkpoint_and_its_brief(live):
    """A daemon stopped as soon as the file is there leaves a brief that matches it."""
    project, _ = begin(live)
    live.stop()
    event = f'{{"hook_event_name": "SessionStart", "source": "startup", "cwd": "{project}"}}'

    assert "Add a discount code field" in live.handoff("hook", cwd=project, input=event).stdout


@pytest.mark.quick
def test_worktree_branch(live):
    """A worktree is a project of its own, with its own branch."""
    project, _ = begin(live)
    (project / "a").write_text("a")
    live.git(project, "add", "a")
    live.git(project, "commit", "-qm", "a")
    tree = live.home / "code/tree"
    live.git(project, "worktree", "add", "-q", "-b", "side", str(tree))
    live.session(tree).prompt("Work on the side branch here")

    wait_for(lambda: "branch: side" in live.yaml(tree))
    assert "branch: main" in live.yaml(project)


@pytest.mark.quick
@pytest.mark.seed("001", "| `files` | list[string] | No")
@pytest.mark.seed("001", '"files": git_state.get("uncommitted_files", [])')
def test_uncommitted_files_show(live):
    """Files that git sees as changed are answered, and listed after the session's own."""
    project, session = begin(live)
    (project / "notes with space.txt").write_text("x")
    session.edit(f"{project}/src/a.py")

    wait_for(lambda: live.show(project)["uncommitted"] == ["notes with space.txt"])
    assert ["src/a.py", "notes with space.txt"] == live.document(project)["files"]


@pytest.mark.quick
def test_persons_edit_stands(live):
    """A goal edited in the file shows within a second and survives the session's next words."""
    project, session = begin(live)
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(path.read_text().replace("Add a discount code field", "Ship version two"))

    wait_for(lambda: live.document(project)["goal"] == "Ship version two", allowed(1))
    session.prompt("Now rename the field to voucher")
    wait_for(lambda: "now: Now rename the field" in live.yaml(project))

    assert "goal: Ship version two" in live.yaml(project)


@pytest.mark.quick
def test_comments_and_unknown_keys_survive(live):
    """A person's comments and keys we do not know are in the file after our next write."""
    project, session = begin(live)
    path = project / ".flow-guardian/handoff.yaml"
    text = path.read_text().replace("status: in_progress", "status: in_progress  # or so I hope")
    path.write_text(f"# mine\n{text}reviewer: Zoë\nnumbers: [1, 2.5, 010, no]\n")
    session.say("Going on with the form.")

    wait_for(lambda: "Going on with the form." in live.yaml(project))
    written = live.yaml(project)

    assert written.startswith("# mine\n")
    assert "# or so I hope" in written
    assert "reviewer: Zoë" in written
    assert "numbers: [1, 2.5, 010, no]" in written


@pytest.mark.quick
def test_new_session_states_a_new_goal(live):
    """A new session's goal replaces the goal that a person set, which is kept as previous."""
    project, _ = begin(live)
    live.handoff("save", "--goal", "The goal I set by hand", cwd=project)
    wait_for(lambda: "The goal I set by hand" in live.yaml(project))
    live.session(project).prompt("Write the documentation instead", timestamp=timestamp(-1))

    wait_for(lambda: "goal: Write the documentation instead" in live.yaml(project))
    assert "previous_goal: The goal I set by hand" in live.yaml(project)


@pytest.mark.quick
def test_save_outlives_a_rebuild(live):
    """A saved goal is in core.db: it stands after state.db is lost."""
    project, _ = begin(live)
    live.handoff("save", "--goal", "The goal I set by hand", cwd=project)
    live.stop()
    for path in live.state.glob("state.db*"):
        path.unlink()
    live.start()
    wait_for(lambda: live.call("status")["records"] == 1)

    assert "The goal I set by hand" == live.document(project)["goal"]


def test_edit_made_while_the_daemon_was_down(live):
    """An edit made while the daemon was down is found at the next start."""
    project, _ = begin(live)
    live.stop()
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(path.read_text().replace("Add a discount code field", "Edited in the dark"))
    live.start()

    wait_for(lambda: live.document(project)["goal"] == "Edited in the dark")


def test_own_values_are_not_taken_for_a_persons(live):
    """After a restart the daemon's own values are still its own: the session replaces them."""
    project, session = begin(live)
    live.restart()
    session.say("Something else now.")

    wait_for(lambda: "Something else now." in live.yaml(project))


def test_old_file_yields_to_a_running_session(sandbox):
    """A handoff.yaml from before our time does not override the session of today."""
    project = sandbox.project()
    (project / ".flow-guardian").mkdir()
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(
        "goal: Last month's work\nstatus: in_progress\nnow: nothing\ntimestamp: 2026-01-17T10:30:00Z\n"
    )
    os.utime(path, (time.time() - 86400 * 30,) * 2)
    sandbox.session(project).prompt("Today we do something else")
    sandbox.start()

    wait_for(lambda: "goal: Today we do something else" in sandbox.yaml(project))
    assert "previous_goal: Last month's work" in sandbox.yaml(project)


@pytest.mark.quick
def test_not_written_in_unmarked_places(live):
    """Without a marker nothing is written, but the state is answered; `save` still works."""
    project = live.project(git=False)
    live.session(project).prompt("Work in a plain directory")
    wait_for(lambda: live.document(project)["goal"] == "Work in a plain directory")
    live.run_due()
    before = os.listdir(project)
    saved = live.handoff("save", "-m", "by hand", cwd=project)

    assert [] == before
    assert 0 == saved.returncode
    assert "now: by hand" in live.yaml(project)


def test_marker_in_home_captures_nothing(live):
    """A .git in HOME is no project's root, and HOME itself is never written to."""
    live.git(live.home, "init", "-q")
    live.session(live.home).prompt("Tidy the dot files of mine")
    below = live.project(git=False)
    live.session(below).prompt("Work below a marked home")
    wait_for(lambda: live.call("status")["sessions"] == 2)
    live.run_due()

    assert str(below) == live.show(below)["project"]
    assert not (live.home / ".flow-guardian").exists()
    assert not (below / ".flow-guardian").exists()


def test_not_written_where_git_tracks_it(live):
    """A project that tracks handoff.yaml is left alone, with a warning."""
    project = live.project()
    (project / ".flow-guardian").mkdir()
    (project / ".flow-guardian/handoff.yaml").write_text("goal: Tracked\nstatus: blocked\nnow: x\n")
    live.git(project, "add", "-f", ".flow-guardian/handoff.yaml")
    live.git(project, "commit", "-qm", "x")
    live.session(project).prompt("Please work on this project")
    wait_for(lambda: "tracked" in str(live.request("status")["result"]["warnings"]))
    live.run_due()

    assert "goal: Tracked" in live.yaml(project)
    assert "git tracks" in live.show(project)["not_written"]


def test_deleted_project_is_not_made_again(live):
    """A project directory that was deleted stays deleted."""
    import shutil

    project, session = begin(live)
    shutil.rmtree(project)
    session.say("Talking to nobody.")
    wait_for(lambda: "Talking to nobody." in live.document(project)["now"])
    live.run_due()

    assert not project.exists()


@pytest.mark.quick
def test_write_none(sandbox):
    """With `write = "none"` nothing is written, and everything is answered."""
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[checkpoint]\nwrite = "none"\n')
    sandbox.start()
    project = sandbox.project()
    sandbox.session(project).prompt("Nothing of this is written")
    wait_for(lambda: sandbox.document(project)["goal"] == "Nothing of this is written")
    sandbox.run_due()

    assert "" == sandbox.yaml(project)


@pytest.mark.quick
def test_symlinked_directory_is_refused(live):
    """A .flow-guardian that is a symlink is never written through; the error is shown."""
    project = live.project()
    victim = live.home / "victim"
    victim.mkdir()
    (project / ".flow-guardian").symlink_to(victim)
    live.session(project).prompt("Write through the link, will you")
    wait_for(lambda: "write_failed" in str(live.request("status")["result"]["warnings"]))
    saved = live.handoff("save", "-m", "x", cwd=project)

    assert 1 == saved.returncode
    assert "symlink" in saved.stderr
    assert [] == os.listdir(victim)


def test_old_work_is_not_written_at_the_first_start(sandbox):
    """The first start writes for sessions of the last day only."""
    project = sandbox.project()
    session = sandbox.session(project)
    session.prompt("Work of the week before last", timestamp=timestamp(10 * 86400))
    os.utime(session.path, (time.time() - 10 * 86400,) * 2)
    sandbox.start()
    wait_for(lambda: sandbox.document(project)["goal"] == "Work of the week before last")
    sandbox.run_due()

    assert "" == sandbox.yaml(project)
    session.prompt("And today it goes on here")
    wait_for(lambda: "now: And today it goes on here" in sandbox.yaml(project))


@pytest.mark.quick
def test_files_are_private_and_ignored(live):
    """The directory is 0700, its files 0600, and git never sees them."""
    project, _ = begin(live)
    directory = project / ".flow-guardian"
    modes = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}

    assert 0o700 == directory.stat().st_mode & 0o777
    assert {0o600} == set(modes.values())
    assert "*\n" == (directory / ".gitignore").read_text()
    assert "" == live.git(project, "status", "--porcelain")


@pytest.mark.seed("001", "# In daemon.py after extracting insights")
def test_never_more_than_two_seconds_stale(live):
    """While records keep coming, the file is written at most every two seconds and no less."""
    project, session = begin(live)
    before = live.call("status")["writes"]
    started = time.monotonic()
    number = 0
    times = [time.monotonic()]
    behind = 0.0
    while time.monotonic() - started < 5:
        number += 1
        session.say(f"Step {number} is done.")
        times.append(time.monotonic())
        time.sleep(0.05)
        written = re.search(r"Step (\d+) is done", live.yaml(project))
        if written:
            behind = max(
                behind,
                time.monotonic() - times[int(written[1]) + 1 if int(written[1]) < number else -1],
            )
    wait_for(lambda: f"Step {number} is done." in live.yaml(project), allowed(4))

    assert 2 <= live.call("status")["writes"] - before <= 5
    assert behind < allowed(3), "two seconds, and what a busy machine adds"


@pytest.mark.quick
def test_secrets_never_reach_the_file(live):
    """A token in a prompt and in a saved message is masked in every output."""
    token = "ghp_" + "a1B2" * 9
    project = live.project()
    session = live.session(project)
    session.prompt(f"Use the token {token} for the upload")
    session.edit(f"{project}/{token}.py")
    wait_for(lambda: "redacted:github-token" in live.yaml(project))
    live.handoff("save", "-m", f"with {token}", cwd=project)

    outputs = [
        live.yaml(project),
        str(live.show(project)),
        live.handoff("inject", cwd=project).stdout,
    ]
    outputs += [text.decode("latin1") for text in contents_below(live.state).values()]
    assert not any(token in text for text in outputs)
    assert 2 <= live.call("status")["redacted"]


def test_own_words_are_never_evidence(live):
    """Text with our mark, in a prompt, a summary or a quotation, changes nothing."""
    project, session = begin(live)
    brief = live.handoff("inject", cwd=project).stdout
    session.prompt(f"{brief}\n")
    session.prompt(f"{brief}\nNow a real request of mine")
    session.say(f"I was told: {brief}")
    session.raw(
        session.line("user", isCompactSummary=True, message={"content": f"Summary: {brief}"})
    )

    wait_for(lambda: "Now a real request of mine" in live.document(project)["now"])
    found = live.show(project)["lanes"][0]
    assert 2 == found["prompts"]
    assert "Add a discount code field" == found["goal"]


@pytest.mark.seed("001", "YAML checkpoints that track session state")
@pytest.mark.seed("001", "# .flow-guardian/handoff.yaml goal:")
@pytest.mark.seed("001", "| `session_id` | string | No")
def test_document_is_valid_for_any_yaml_reader(live):
    """A plain YAML 1.1 loader reads the seed's nine fields in their order."""
    project, _ = begin(live)
    data = yaml.safe_load(live.yaml(project))

    assert list(data)[:9] == [
        "goal",
        "status",
        "now",
        "hypothesis",
        "outcome",
        "files",
        "branch",
        "timestamp",
        "session_id",
    ]
    assert isinstance(data["timestamp"], str)


@pytest.mark.quick
def test_edits_back_and_forth_stand(live):
    """A value changed and changed back is the one the person wrote last; null clears for good."""
    project, _ = begin(live)
    path = project / ".flow-guardian/handoff.yaml"
    live.handoff("save", "--hypothesis", "a theory", "--now", "Doing A", cwd=project)

    def rewrite(old, new):
        path.write_text(path.read_text().replace(old, new))
        wait_for(
            lambda: (
                (
                    live.show(project)["document"]
                    and new.split(": ")[1] in str(live.document(project))
                )
                or new.endswith("null")
            )
        )
        live.run_due()

    rewrite("now: Doing A", "now: Doing B")
    rewrite("now: Doing B", "now: Doing A")
    assert "now: Doing A" in live.yaml(project)
    rewrite("hypothesis: a theory", "hypothesis: null")

    assert "hypothesis: null" in live.yaml(project)
    assert live.document(project)["hypothesis"] is None


@pytest.mark.quick
def test_file_that_is_no_yaml_is_left_alone(live):
    """An unreadable file of a person is not touched, and that is reported."""
    project, session = begin(live)
    path = project / ".flow-guardian/handoff.yaml"
    broken = path.read_text() + "notes: [half a list\n"
    path.write_text(broken)
    session.say("Going on meanwhile.")
    wait_for(lambda: "unreadable" in str(live.request("status")["result"]["warnings"]))
    live.run_due()
    assert broken == path.read_text()

    path.write_text(broken.replace("[half a list", "[a list]"))
    wait_for(lambda: "Going on meanwhile." in live.yaml(project))
    assert "notes:" in live.yaml(project)


# An editor that empties the file, and fills it again right before the daemon writes it.
FILL_BEFORE_WRITING = """
import os
from handoffd.checkpoint.checkpoint_writer import CheckpointWriter
write = CheckpointWriter._write
async def fill_then_write(self, active, view):
    path = f"{active.project.root.path}/.flow-guardian/handoff.yaml"
    if os.path.exists(f"{path}.full") and not os.path.getsize(path):
        os.rename(f"{path}.full", path)
    await write(self, active, view)
CheckpointWriter._write = fill_then_write
"""


def test_an_emptied_file_that_is_filled_again_holds_no_edits(sandbox):
    """Values of ours that an editor's save brings back do not count as set by a person."""
    live = run_after(sandbox, FILL_BEFORE_WRITING).start()
    project, session = begin(live)
    path = project / ".flow-guardian/handoff.yaml"
    whole = path.read_text()
    path.write_text(f"{whole}notes: [half a list\n")  # so that the next words are not written yet
    session.say("Going on after the save.")
    wait_for(lambda: "unreadable" in str(live.request("status")["result"]["warnings"]))
    wait_for(lambda: "after the save" in live.document(project)["now"])
    path.with_name("handoff.yaml.full").write_text(whole)
    path.write_text("")

    wait_for(lambda: "now: Going on after the save." in live.yaml(project), 30)


def test_a_deleted_file_clears_nothing(live):
    """A file that is deleted while a session has a theory does not count as clearing the theory."""
    project, session = begin(live)
    session.say("I suspect that the cache key lacks the user id.")
    wait_for(lambda: live.document(project)["hypothesis"])
    stated = live.document(project)["hypothesis"]
    wait_for(lambda: "hypothesis: I" in live.yaml(project) or stated[:20] in live.yaml(project))
    (project / ".flow-guardian/handoff.yaml").unlink()
    session.say("Looking at the cache module now.")
    wait_for((project / ".flow-guardian/handoff.yaml").exists)
    live.run_due()

    assert stated == live.document(project)["hypothesis"]


def test_own_keys_are_shown(live):
    """A person's own keys and lists are in `show`, and at level L3 in the brief."""
    project, _ = begin(live)
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(path.read_text() + "next:\n- write the docs\nreviewer: Ann\n")

    wait_for(lambda: "Ann" in live.handoff("show", cwd=project).stdout)
    assert "- write the docs" in live.handoff("inject", cwd=project).stdout
    assert "**reviewer:** Ann" in live.handoff("inject", "--level", "L3", cwd=project).stdout


@pytest.mark.parametrize(
    "line",
    [
        "x: !!binary aGVsbG8=",
        "x: !!set {a, b}",
        "goal: !!timestamp foo",
        "x: !!bool maybe",
        "due: 2026-02-30  # a date that is none",
        "status: done",
    ],
)
def test_no_file_ends_the_daemon(live, line):
    """No line in handoff.yaml ends the daemon, and its other projects go on."""
    project, session = begin(live)
    other, second = begin(live, "other", "Work in the other project")
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(path.read_text() + line + "\n")
    session.say("Going on here.")
    second.say("Going on there.")

    wait_for(lambda: "Going on there." in live.yaml(other))
    wait_for(lambda: "Going on here." in live.document(project)["now"])
    live.restart()
    assert live.answers()


def test_project_that_becomes_a_file(live):
    """A root that is suddenly a regular file is one project's problem, not the daemon's."""
    project, session = begin(live)
    shutil.rmtree(project)
    project.write_text("no directory")
    session.say("Still talking.")

    wait_for(lambda: "Still talking." in live.document(project)["now"])
    assert live.answers()


@pytest.mark.parametrize("seconds", [0.03, 0.5])
def test_editor_that_renames_the_file_away_first(live, seconds):
    """A value set by a person survives an editor that moves the file away before it writes it."""
    project, _ = begin(live)
    live.handoff("save", "--goal", "The goal I set by hand", cwd=project)
    path = project / ".flow-guardian/handoff.yaml"
    for _ in range(3):
        text = path.read_text()
        os.rename(path, path.with_suffix(".bak"))
        live.show(project)
        time.sleep(seconds)
        path.write_text(text.replace("hand", "hand!") if "hand!" not in text else text)
        time.sleep(0.3)

    assert live.document(project)["goal"].startswith("The goal I set by hand")


def test_deleted_file_forgets_what_was_set(live):
    """Deleting handoff.yaml discards the values set in it; then the daemon writes it again."""
    project, session = begin(live)
    live.handoff("save", "--goal", "The goal I set by hand", cwd=project)
    (project / ".flow-guardian/handoff.yaml").unlink()

    wait_for(lambda: live.document(project)["goal"] == "Add a discount code field")
    session.say("A new beginning.")
    wait_for(lambda: "A new beginning." in live.yaml(project))


def test_previous_goal_survives_questions(live):
    """The old goal is kept as previous, however often the state is asked for meanwhile."""
    project, _ = begin(live)
    live.handoff("save", "--goal", "The goal I set by hand", cwd=project)
    live.session(project).prompt("Write the documentation instead", timestamp=timestamp(-1))
    for _ in range(50):
        live.show(project)
        time.sleep(0.05)

    wait_for(lambda: "previous_goal: The goal I set by hand" in live.yaml(project))


def test_secret_in_a_persons_file_is_kept_nowhere_else(live):
    """A token that a person wrote into handoff.yaml is masked there and in nothing of ours."""
    token = "ghp_" + "c3D4" * 9
    project, session = begin(live)
    path = project / ".flow-guardian/handoff.yaml"
    path.write_text(path.read_text() + f"notes: use {token}\n")
    wait_for(lambda: "notes" in str(live.show(project)))
    session.say("Going on.")
    wait_for(lambda: "Going on." in live.yaml(project))
    (project / f"{token}.txt").write_text("x")
    session.say("Once more.")
    wait_for(lambda: "Once more." in live.yaml(project))

    assert token not in str(live.show(project))
    assert [] == [p for p, text in contents_below(live.state).items() if token.encode() in text]


@pytest.mark.quick
def test_next_comes_and_goes(live):
    """The next step is written while it is open, and removed when it is done."""
    project, session = begin(live)
    session.raw(
        session.line(
            "assistant",
            message={
                "content": [
                    {
                        "type": "tool_use",
                        "id": "t",
                        "name": "TodoWrite",
                        "input": {"todos": [{"content": "Write the test", "status": "pending"}]},
                    }
                ]
            },
        )
    )
    wait_for(lambda: "next:\n- Write the test" in live.yaml(project))
    session.raw(
        session.line(
            "assistant",
            message={
                "content": [
                    {
                        "type": "tool_use",
                        "id": "t",
                        "name": "TodoWrite",
                        "input": {"todos": [{"content": "Write the test", "status": "completed"}]},
                    }
                ]
            },
        )
    )
    session.say("Everything is done now.")

    wait_for(lambda: "Everything is done now." in live.yaml(project))
    assert "next:" not in live.yaml(project)


def test_a_project_that_failed_is_told_with_the_remedy(live):
    """If a person's edit cannot be stored, the log names the project, the reason and the remedy."""
    project = live.project()
    live.session(project).prompt("Round the tax per line")
    wait_for(lambda: "Round the tax" in live.yaml(project))
    with contextlib.closing(sqlite3.connect(live.state / "core.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        path = project / ".flow-guardian/handoff.yaml"
        path.write_text(path.read_text().replace("Round the tax", "Mind the tax"))
        wait_for(lambda: "project_failed" in live.log.read_text())

    lines = [json.loads(line) for line in live.log.read_text().splitlines() if "project_f" in line]
    assert str(project) == lines[0]["project"]
    why = (
        "its handoff.yaml could not be looked at: The store cannot be written: database is locked."
    )
    assert (why, "Try again.") == (lines[0]["why"], lines[0]["remedy"])
    # It is looked at again by the rescan, after a minute at the latest.
    wait_for(lambda: live.document(project)["goal"].startswith("Mind the tax"), 75)
