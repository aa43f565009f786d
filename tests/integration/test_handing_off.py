"""close, open, list, escalate and review: with a daemon, and by the same code without one."""

import json
import os
import subprocess
import time

import pytest

from conftest import BIN, timestamp, wait_for
from written_handoffs import handoff_directory, handoffs, known, text, work

PHRASE = "HUMAN REVIEW NEEDED"


@pytest.mark.quick
@pytest.mark.seed("002", "The primary handoff author. /close gathers context")
def test_close_merges_words_with_what_is_known(world):
    """A worker's words come first, then the facts known of the session."""
    project = world.project()
    session = work(world, project, ago=5)
    known(world, session)
    done = world.handoff(
        "close", "--session", session.id, "--done", "the sums are right",
        "--gotcha", "0.005 rounds to even", "--reflection", "ask earlier", cwd=project,
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr
    found = text(world, project)
    assert "## Done\n- the sums are right\n" in found
    assert "src/tax.py" in found
    assert "## Gotchas\n- 0.005 rounds to even\n" in found
    assert "## Reflection\n- ask earlier\n" in found
    assert f"session_id: {session.id}" in found
    assert [f"{session.id[:8]}.md"] == [path.name for path in handoffs(world, project)]


def test_close_again_completes(world):
    """A second close keeps the words of the first and adds its own."""
    project = world.project()
    session = work(world, project, ago=5)
    known(world, session)
    for words in ("first words", "second words"):
        world.handoff("close", "--session", session.id, "--next", words, cwd=project)

    found = text(world, project)
    assert found.index("first words") < found.index("second words")
    assert 1 == found.count("first words")
    assert 1 == found.count("## Next")
    assert 1 == len(handoffs(world, project))


@pytest.mark.seed("002", "The content matters; the exact headings are flexible.")
def test_close_takes_markdown_on_stdin(world):
    """Sections on stdin are taken as they stand, also those with custom headings."""
    project = world.project()
    words = "## Done\nThe parser:\n\n```sh\nmake parser\n```\n\n## Commands\n- make all\n"
    done = world.handoff("close", cwd=project, input=words)

    assert 0 == done.returncode, done.stderr
    found = text(world, project)
    assert "## Done\nThe parser:\n\n```sh\nmake parser\n```\n" in found
    assert "## Commands\n- make all\n" in found
    assert "no session (nothing is known of it): The parser:" in done.stdout


def test_close_needs_something_to_say(world):
    """Without facts and without words nothing is written, and the remedy is named."""
    project = world.project()
    done = world.handoff("close", cwd=project)

    assert 1 == done.returncode
    assert "nothing to hand off" in done.stderr
    assert "handoff close --done" in done.stderr
    assert handoffs(world, project) == []


@pytest.mark.quick
def test_close_masks_secrets_and_keeps_the_phrase(world):
    """A person's own call for review stays a call; a secret in their words is masked.

    The masking is reported.
    """
    project = world.project()
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    done = world.handoff(
        "close", "--done", f"used {token} for the push", "--risk", f"{PHRASE} on the schema",
        cwd=project,
    )  # fmt: skip

    assert "Masked: 1 secret." in done.stdout
    found = text(world, project)
    assert token not in found
    assert PHRASE in found


def test_phrase_from_a_transcript_is_broken_up(world):
    """`grep -i` does not find the phrase if a transcript only mentions it."""
    project = world.project()
    session = world.session(project)
    session.prompt("Write a page that says superHuman Review Needed in red letters")
    session.edit(f"{project}/page.html")
    session.say("The page says HUMAN  REVIEW  NEEDED now. human\u200b review needed. Done.")
    known(world, session)
    world.handoff("close", "--session", session.id, cwd=project)

    assert "page.html" in text(world, project)
    assert "human review needed" not in text(world, project).lower()


@pytest.mark.quick
@pytest.mark.seed("002", "Filename scheme is not part of the contract.")
@pytest.mark.seed("002", "Does not write a new handoff.")
@pytest.mark.seed("002", "The reflector may add the escalation signal")
def test_escalate_adds_to_the_newest(world):
    """The call goes into the newest handoff, regardless of its author; every other byte stays."""
    project = world.project()
    directory = handoff_directory(world, project)
    directory.mkdir(parents=True)
    (directory / "old.md").write_text("# Handoff — 2026-01-01\n\n## Done\n- old\n")
    os.utime(directory / "old.md", (1, 1))
    words = "# Handoff — 2026-01-02\r\n\r\npurpose: x\r\n\r\n## Done\r\n- new\r\n"
    (directory / "new.md").write_bytes(words.encode())
    done = world.handoff("escalate", "check the sums", cwd=project)
    again = world.handoff("escalate", "check the sums", cwd=project)

    assert 0 == done.returncode, done.stderr
    call = f"{PHRASE}: check the sums\r\n"
    found = (directory / "new.md").read_bytes().decode()
    assert words == found.replace(f"\r\n{call}", "", 1)
    assert 1 == found.count(PHRASE)
    assert "already" in again.stdout
    assert PHRASE not in (directory / "old.md").read_text()
    assert 2 == len(handoffs(world, project))


def test_escalate_without_a_handoff(world):
    """Without a handoff `escalate` says so and writes nothing."""
    project = world.project()
    done = world.handoff("escalate", "look", cwd=project)

    assert 1 == done.returncode
    assert "no handoff yet" in done.stderr
    assert handoffs(world, project) == []


@pytest.mark.quick
@pytest.mark.seed("002", "Presence means the session identified something")
@pytest.mark.seed("002", "Reads the worker's handoff to understand")
def test_review_shows_the_call(world):
    """review shows the newest handoff, and first whether it calls for a person."""
    project = world.project()
    world.handoff("close", "--done", "a thing", "--escalate", "look at the schema", cwd=project)
    shown = world.handoff("review", cwd=project).stdout
    data = json.loads(world.handoff("review", "--json", cwd=project).stdout)

    assert "A person is needed: look at the schema" in shown.split("\n")[1]
    assert "## Done\n- a thing" in shown
    assert ["look at the schema"] == data["handoff"]["escalations"]


@pytest.mark.quick
@pytest.mark.seed("002", "The handoff file is an interface between sessions.")
@pytest.mark.seed("002", "Presence means the session identified something")
@pytest.mark.seed("002", "Discovers the most recent handoff, reads it")
def test_open_is_a_marked_brief(world):
    """Into a pipe, open prints at most 2 KB with our mark, the call first, and the path."""
    project = world.project()
    many = [word for n in range(20) for word in ("--done", f"thing {n} " + "long " * 40)]
    world.handoff("close", *many, "--next", "go on", "--escalate", "look first", cwd=project)
    told = world.handoff("open", cwd=project).stdout

    assert told.startswith("<handoffd-context ")
    assert told.endswith("</handoffd-context>\n")
    assert len(told.encode()) <= 2048
    assert told.index(f"{PHRASE}: look first") < told.index("Last session (just now)")
    assert str(handoffs(world, project)[0]) in told


def test_open_mentions_the_unread(world):
    """Of two sessions that closed together neither is lost; a mention is not repeated."""
    project = world.project()
    world.handoff(
        "close", "--session", "aaaaaaaa-1", "--done", "the one", "--purpose", "one", cwd=project
    )
    world.handoff(
        "close", "--session", "bbbbbbbb-2", "--done", "the two", "--purpose", "two", cwd=project
    )
    first = world.handoff("open", cwd=project).stdout
    second = world.handoff("open", cwd=project).stdout

    assert "): two" in first
    assert "handoff list):\n  just now: one (" in first
    assert "Also unread" not in second


def test_open_elsewhere_is_silent(world):
    """A project without a handoff adds nothing to a session, and tells a person so."""
    project = world.project()
    assert world.handoff("open", cwd=project).stdout == ""
    assert "no handoff yet" in world.handoff("list", cwd=project).stdout


@pytest.mark.quick
@pytest.mark.seed("002", "Used by the handoff index for at-a-glance scanning.")
def test_list_shows_age_and_purpose(world):
    """list shows the newest first, with age, whether it was read, and purpose."""
    project = world.project()
    directory = handoff_directory(world, project)
    directory.mkdir(parents=True)
    (directory / "x.md").write_text("# Handoff — 2026-01-01\n\npurpose: it's old\n")
    hours = time.time() - 3 * 3600
    os.utime(directory / "x.md", (hours, hours))
    world.handoff("close", "--done", "new thing", "--purpose", "the new", cwd=project)
    lines = world.handoff("list", cwd=project).stdout.split("\n")

    assert lines[2].endswith("the new")
    assert "just now" in lines[2]
    assert "3h ago" in lines[3]
    assert lines[3].endswith("it's old")


def test_reading_changes_no_time(world):
    """open, list and review leave every modification time as it was."""
    project = world.project()
    world.handoff("close", "--done", "a thing", cwd=project)
    path = handoffs(world, project)[0]
    os.utime(path, (1_700_000_000, 1_700_000_000))
    for command in ("open", "list", "review"):
        world.handoff(command, cwd=project)

    assert 1_700_000_000 == path.stat().st_mtime


def test_subdirectory_finds_its_projects_handoff(world):
    """A handoff of the project is found from a directory below its root, too."""
    project = world.project()
    (project / "src").mkdir()
    world.handoff("close", "--done", "a thing", "--purpose", "the top", cwd=project)
    world.handoff("close", "--done", "a thing", "--purpose", "below", cwd=project / "src")

    assert "the top" in world.handoff("list", cwd=project / "src").stdout
    assert "below" in world.handoff("list", cwd=project / "src").stdout
    assert len(handoffs(world, project / "src")) == 1


@pytest.mark.seed("002", "Consumers must not depend on filename format")
def test_lossy_name_is_told_apart(world):
    """Two projects that share a handoff directory never see each other's."""
    one, other = world.project("a-b"), world.project("a_b")
    world.handoff("close", "--done", "x", "--purpose", "of the dash", cwd=one)
    world.handoff("close", "--done", "x", "--purpose", "of the underscore", cwd=other)

    assert handoff_directory(world, one) == handoff_directory(world, other)
    assert "of the dash" in world.handoff("open", cwd=one).stdout
    assert "underscore" not in world.handoff("list", cwd=one).stdout
    assert "of the dash" not in world.handoff("list", cwd=other).stdout


def test_old_encoding_leads_to_the_new_directory(world):
    """Where the first encoding differs, a relative link leads its readers to the handoffs."""
    project = world.project("with space_and_more")
    world.handoff("close", "--done", "x", cwd=project)
    old = world.home / ".claude/handoffs" / str(project).replace("/", "-").replace(".", "-")

    assert old.is_symlink()
    assert handoff_directory(world, project).name == os.readlink(old)
    assert handoffs(world, project)[0].name in os.listdir(old)


def test_ended_on_a_question_escalates(live):
    """A program's run that ended on a question calls for a person, by itself."""
    project = live.project()
    session = live.session(project, entrypoint="sdk-cli")
    session.prompt("Round the tax", timestamp=timestamp(200))
    session.edit(f"{project}/a.py", timestamp=timestamp(199))
    session.say("Should I also change the invoices?", timestamp=timestamp(198))

    wait_for(lambda: PHRASE in text(live, project))
    assert "change the invoices" in text(live, project)


def test_commits_made_by_hand_are_done(live):
    """A commit that the person made during the session is listed with its hash."""
    project = live.project()
    session = live.session(project)
    session.prompt("Round the tax", timestamp=timestamp(200))
    session.edit(f"{project}/tax.py", timestamp=timestamp(199))
    session.say("The tax is rounded.", timestamp=timestamp(198))
    (project / "tax.py").write_text("new\n")
    live.git(project, "add", ".")
    live.git(project, "commit", "-qm", "Round the tax by hand")
    sha = live.git(project, "rev-parse", "--short", "HEAD").strip()

    done = live.handoff("close", "--session", session.id, cwd=project)
    assert 0 == done.returncode, done.stderr
    assert f"- Committed during the session: {sha} Round the tax by hand" in text(live, project)


def test_committed_secret_escalates(live):
    """A commit of the session that takes in a secret of a known form calls for a person."""
    project = live.project()
    token = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3i2"
    (project / "deploy.sh").write_text(f"curl -H 'Authorization: token {token}'\n")
    live.git(project, "add", ".")
    live.git(project, "commit", "-qm", "Deploy script")
    sha = live.git(project, "rev-parse", "--short", "HEAD").strip()
    session = work(live, project, ago=200)
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "git commit -m x"}}
    session.raw(
        session.line(
            "assistant",
            message={"role": "assistant", "content": [call]},
            timestamp=timestamp(100),
        )
    )
    result = {"type": "tool_result", "tool_use_id": "c", "content": f"[main {sha}] Deploy script"}
    session.raw(
        session.line("user", message={"role": "user", "content": [result]}, timestamp=timestamp(99))
    )

    wait_for(lambda: PHRASE in text(live, project))
    assert "adds a github-token to deploy.sh" in text(live, project)
    assert token not in text(live, project)


@pytest.mark.quick
def test_settle_takes_the_call_out(world):
    """review --settle takes every call out of the newest handoff, and leaves the rest."""
    project = world.project()
    world.handoff(
        "close", "--done", "a thing", "--escalate", "one", "--escalate", "two", cwd=project
    )
    done = world.handoff("review", "--settle", cwd=project)

    assert "Settled: 2 calls" in done.stdout
    assert PHRASE.lower() not in text(world, project).lower()
    assert "- a thing" in text(world, project)


def test_close_from_elsewhere_belongs_to_the_session(world):
    """A session closed from another project leaves its handoff at home, and is forgotten there."""
    home, other = world.project("home"), world.project("other")
    (other / "stranger.py").write_text("x")
    session = work(world, home, ago=5)
    known(world, session)
    world.handoff("close", "--session", session.id[:8], "--done", "mine", cwd=other)
    if world.process is None:
        world.start()
        wait_for(world.settled)
    world.handoff("forget", str(other), "--yes")

    assert "- mine" in text(world, home)
    assert "stranger.py" not in text(world, home)
    assert f"session_id: {session.id}" in text(world, home)
    assert handoffs(world, other) == []
    assert world.call("sessions")["sessions"]


def test_metadata_of_ones_own_is_kept(world):
    """Lines of a handoff on stdin that look like metadata are not lost."""
    project = world.project()
    words = "# Handoff — 2026-01-01\n\nwarning: never on friday\n\n## Done\n- x\n"
    world.handoff("close", cwd=project, input=words)

    assert "warning: never on friday" in text(world, project)


def test_two_live_sessions_need_a_choice(live):
    """With two live sessions `close` asks for one of them, and writes nothing."""
    project = live.project()
    for file in ("a.py", "b.py"):
        known(live, work(live, project, ago=5, file=file))
    done = live.handoff("close", "--done", "x", cwd=project)

    assert 4 == done.returncode
    assert "--session" in done.stderr
    assert handoffs(live, project) == []


def test_slow_pipe_is_read(live):
    """Words that come late through a pipe are not lost."""
    project = live.project()
    import subprocess

    from conftest import BIN

    script = f"(sleep 0.5; printf '## Done\\n- late words\\n') | {BIN}/handoff close --next y"
    subprocess.run(["sh", "-c", script], cwd=project, env=live.environment, check=True)

    assert "- late words" in text(live, project)


def test_secret_in_a_heading_is_masked(world):
    """A custom heading is masked like all other text."""
    project = world.project()
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    world.handoff("close", cwd=project, input=f"## Rotate {token}\n- soon\n")

    assert token not in text(world, project)
    assert "- soon" in text(world, project)


def test_contested_file_escalates(live):
    """Two live sessions that changed the same file apart call for a person."""
    project = live.project()
    work(live, project, ago=100, file="src/tax.py")
    second = live.session(project)
    second.prompt("Also look at tax, in another window", timestamp=timestamp(101))
    second.edit(f"{project}/src/tax.py", timestamp=timestamp(60))
    second.say("Changed.", timestamp=timestamp(59))

    wait_for(lambda: any(PHRASE in path.read_text() for path in handoffs(live, project)))
    assert "src/tax.py (session " in "".join(path.read_text() for path in handoffs(live, project))


def test_successor_is_no_rival(live):
    """A session that continues with its predecessor's file does not call for a person."""
    project = live.project()
    work(live, project, ago=300)
    work(live, project, ago=100)

    wait_for(lambda: len(handoffs(live, project)) == 2)
    assert all(PHRASE not in path.read_text() for path in handoffs(live, project))


def test_forget_of_an_empty_name(live):
    """An empty name, as of an unset variable, is refused."""
    project = live.project()
    live.handoff("close", "--done", "x", cwd=project)
    done = live.handoff("forget", "", "--yes", cwd=project)

    assert 2 == done.returncode
    assert handoffs(live, project)


def test_foreign_bytes_survive(world):
    """escalate changes no other byte, not even one that is not UTF-8."""
    project = world.project()
    directory = handoff_directory(world, project)
    directory.mkdir(parents=True)
    (directory / "x.md").write_bytes(b"# Handoff \xe2\x80\x94 2026-01-01\n\n## Done\n- caf\xe9\n")
    world.handoff("escalate", "look", cwd=project)

    found = (directory / "x.md").read_bytes()
    assert b"- caf\xe9\n" in found
    assert PHRASE.encode() in found
    assert 0 == world.handoff("review", cwd=project).returncode


def test_open_without_a_handoff_is_one_line(sandbox):
    """Without a handoff `handoff open` says so in one whole line, also at a terminal."""
    ours, theirs = os.openpty()
    words = [BIN / "handoff", "open"]
    subprocess.run(words, env=sandbox.environment, cwd=sandbox.project(), stdout=theirs, check=True)
    os.close(theirs)

    assert b"This project has no handoff yet.\r\n" == os.read(ours, 1000)
    os.close(ours)
