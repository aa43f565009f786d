"""`handoff slash`: a slash command's output reaches stdout whole, and it never fails."""

import json
import subprocess

import pytest

from conductor_projects import TRACK, records, track
from conftest import BIN, wait_for
from written_handoffs import handoffs, known, work

pytestmark = pytest.mark.quick


def slash(world, name, *words, cwd, env=None, **run):
    """Run a slash command as Claude Code runs it; return its output."""
    done = world.handoff("slash", name, *words, cwd=cwd, env=env, **run)
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


def at_work(world, project):
    """Make a session that worked here, and return the variables of its shell."""
    session = work(world, project, ago=5)
    known(world, session)
    if world.process:
        wait_for(lambda: world.call("sessions")["sessions"][0]["records"] == 3)
    return {"CLAUDE_CODE_SESSION_ID": session.id, "CLAUDECODE": "1"}


def test_words_come_on_stdin(world):
    """Behind - the words come on stdin, split as a shell would, or else at blanks."""
    project = world.project()
    track(project)
    said = slash(world, "create_handoff", "-", cwd=project, input="--phase 'Phase 2: the form'\n")
    assert "✅ Handoff created successfully." in said
    assert "- Phase: Phase 2: the form\n" in records(project)[0].read_text()
    said = slash(world, "resume_handoff", "-", cwd=project, input="it's auth\n")
    assert "unrecognized arguments: auth" in said
    assert 1 == len(records(project))
    # Another agent quotes all of it as one word.
    assert f"📋 Resuming: {TRACK}" in slash(world, "conductor-handoff", "resume auth", cwd=project)


@pytest.mark.parametrize("name", ["nosuch", "", "../open"])
def test_unknown_name(sandbox, name):
    """An unknown name is reported, with the known ones."""
    said = slash(sandbox, name, cwd=sandbox.project())

    assert f"There is no slash command {name}. There are: conductor-handoff, " in said


def test_any_locale(world):
    """The output is UTF-8 even if the locale is not, as Claude Code reads it."""
    project = world.project()
    track(project)

    assert "✅ Handoff" in slash(world, "create_handoff", cwd=project, env={"LC_ALL": "POSIX"})


def test_a_lost_directory(world):
    """If the current directory is gone, the output says so."""
    project = world.project()
    gone = project / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$0" slash open', str(BIN / "handoff")],
        env=world.environment, cwd=gone, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == done.returncode
    assert "The current directory no longer exists." in done.stdout


def test_close_shows_what_is_known(world):
    """/close shows the session's handoff as it would be, and writes nothing."""
    project = world.project()
    shell = at_work(world, project)
    said = slash(world, "close", "it's", "done", cwd=project, env=shell)

    assert "Nothing was written. This much is known by itself:\n\n# Handoff — " in said
    assert f"session_id: {shell['CLAUDE_CODE_SESSION_ID']}\n" in said
    assert "- Edited src/tax.py" in said
    assert [] == handoffs(world, project)


def test_close_dry_run_as_json(world):
    """With --json the text is in the object, and no path is."""
    project = world.project()
    shell = at_work(world, project)
    done = world.handoff("close", "--dry-run", "--json", cwd=project, env=shell)
    data = json.loads(done.stdout)

    assert ("", True) == (data["path"], data["known"])
    assert data["text"].startswith("# Handoff — ")
    assert [] == handoffs(world, project)


def test_first_message(world):
    """For a slash command, a session's first message is the one that is not written yet."""
    project = world.project()
    track(project)
    world.handoff("create", cwd=project)
    fresh = {"CLAUDE_CODE_SESSION_ID": "11111111-2222-4333-8444-555555555555", "CLAUDECODE": "1"}
    said = slash(world, "conductor-handoff", cwd=project, env=fresh)
    assert "Resume: the session is at its first message." in said

    said = slash(world, "conductor-handoff", cwd=project, env=at_work(world, project))
    assert "Create: the session is at its message 2." in said


def test_the_choice_repeats_what_was_asked(world):
    """The command of each answer has the given words, also in the JSON."""
    project = world.project()
    state = track(project) / "parallel_state.json"
    state.write_text(json.dumps({"workers": [{"name": "one", "status": "running"}]}))
    words = ["--phase", "it's late", "--bead", "shop-1", "--trigger", "epic-end", "--strict"]
    again = f"handoff create --track {TRACK} --bead shop-1 --phase 'it'\"'\"'s late' --trigger epic-end --strict"
    said = slash(world, "create_handoff", *words, cwd=project)

    assert f"\n\nSay which:\n  A: {again} --if-parallel wait\n" in said
    done = world.handoff("create", *words, "--json", cwd=project)
    assert (
        f"{again} --if-parallel cancel" == json.loads(done.stdout)["choice"]["commands"]["cancel"]
    )
