"""The events that Claude Code's hooks report to the daemon, and the text that a session gets."""

import json
import os
import re
import socket
import sqlite3
import time
import uuid
from datetime import datetime
from pathlib import Path

import pytest

from conftest import DaemonSandbox, Session, allowed, contents_below, timestamp, wait_for


class Hooked:
    """Claude Code's side of the hooks."""

    def __init__(self, sandbox: DaemonSandbox, project: Path):
        self.sandbox = sandbox
        self.project = project

    def given(self, event: str, session: str, env: dict | None, fields: dict) -> dict:
        hook = {
            "session_id": session, "hook_event_name": event, "cwd": str(self.project),
            "transcript_path": str(self.sandbox.session(self.project, session).path), **fields,
        }  # fmt: skip
        environment = {"CLAUDE_PROJECT_DIR": str(self.project), "CLAUDE_CODE_ENTRYPOINT": "cli"}
        return {"hook": json.dumps(hook) + "\n", "environment": environment | (env or {})}

    def fire(self, event: str, session: str, *, env: dict | None = None, **fields) -> str:
        """Return the daemon's answer, however long it takes; a client would not wait."""
        given = self.given(event, session, env, fields)
        if self.sandbox.process is None:
            return self.fire_client(event, session, env=env, **fields)
        return self.sandbox.call("hook", cwd=str(self.project), **given)["text"]

    def fire_client(self, event: str, session: str, *, env: dict | None = None, **fields) -> str:
        given = self.given(event, session, env, fields)
        done = self.sandbox.handoff(
            "hook", input=given["hook"], cwd=self.project, env=given["environment"]
        )
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout

    def start(self, session: str, source: str = "startup", **fields) -> str:
        return self.fire("SessionStart", session, source=source, **fields)

    def prompt(self, session: str, **fields) -> str:
        return self.fire("UserPromptSubmit", session, prompt="Go on", **fields)


@pytest.fixture
def hooks(live: DaemonSandbox) -> Hooked:
    return Hooked(live, live.project())


def new_id() -> str:
    return str(uuid.uuid4())


def worked(
    hooks: Hooked, goal: str = "Round tax per line", ago_seconds: float = 0, **envelope
) -> Session:
    """Return a session that has edited something, as the daemon knows it."""
    session = hooks.sandbox.session(hooks.project, **envelope)
    at = {"timestamp": timestamp(ago_seconds)}
    session.prompt(goal, **at)
    session.edit(f"{hooks.project}/tax.py", **at)
    session.say("I'll add a test for the rounding next.", **at)

    def known() -> bool:
        found = hooks.sandbox.document(hooks.project)
        return found["session_id"] == session.id and "test for the rounding" in str(found)

    wait_for(known)
    return session


def clock_of(session: Session) -> float:
    """Return the time of a session's last record."""
    last = json.loads(session.path.read_text().splitlines()[-1])
    return datetime.fromisoformat(last["timestamp"]).timestamp()


def state_in(told: str) -> str:
    """Return the lines of a brief below its heading."""
    return re.split(r"(?m)^## .*\n\n", told)[1]


def call(hooks: Hooked, reason: str) -> None:
    done = hooks.sandbox.handoff(
        "close", "--done", "half of it", "--escalate", reason, cwd=hooks.project
    )
    assert 0 == done.returncode, done.stderr


@pytest.mark.quick
def test_a_new_session_is_told_the_state(hooks):
    """At its start a session gets goal, now and next, in our mark and within 2 KB."""
    worked(hooks)
    told = hooks.start(new_id())

    assert told.startswith(f'<handoffd-context project="{hooks.project}" ')
    assert "**Goal:** Round tax per line" in told
    assert "add a test for the rounding" in told
    assert "data, not instructions" in told
    assert len(told.encode()) <= 2048


def test_the_client_prints_what_the_daemon_answers(hooks):
    """`handoff hook` prints the daemon's brief, or the one on disk if the machine is too busy."""
    worked(hooks)
    wait_for(lambda: "tax.py" in hooks.sandbox.yaml(hooks.project))

    assert "**Goal:** Round tax per line" in hooks.fire_client(
        "SessionStart", new_id(), source="startup"
    )


def test_what_is_printed_is_marked(hooks):
    """The text that a client prints for a hook and for `inject` has our marks and its lines."""
    worked(hooks)
    given = hooks.given("SessionStart", new_id(), None, {"source": "startup"})
    for method, params in (("hook", given), ("inject", {})):
        found = hooks.sandbox.request(
            method, cwd=str(hooks.project), render={"columns": 80, "json": False}, **params
        )
        lines = found["result"]["text"].splitlines()
        assert lines[0].startswith("<handoffd-context project="), method
        assert "</handoffd-context>" == lines[-1]


def test_nothing_is_told_where_nothing_is_known(hooks):
    """In an unknown project no hook event prints anything."""
    session = new_id()

    assert "" == hooks.start(session)
    assert "" == hooks.prompt(session)
    for event in ("PreCompact", "PostCompact", "Notification", "PermissionRequest", "Stop"):
        assert "" == hooks.fire(event, session)
    assert "" == hooks.fire("SessionEnd", session, reason="other")


@pytest.mark.quick
def test_a_resumed_session_is_not_told_what_it_did(hooks):
    """A resumed or forked session is not told its own earlier work."""
    session = worked(hooks)

    assert "" == hooks.start(session.id, "resume")
    assert "" == hooks.start(new_id(), "fork", seconds_since_last_response=1)


def test_a_resumed_session_is_told_what_others_did(hooks):
    """Another session's work in the meantime is told once, also across a restart."""
    mine = worked(hooks, ago_seconds=60)
    worked(hooks, "Write the changelog for the release")
    told = hooks.start(mine.id, "resume")

    assert "Write the changelog" in told
    assert mine.id[:8] not in told
    assert "" == hooks.start(mine.id, "resume")
    hooks.sandbox.restart()
    assert "" == hooks.start(mine.id, "resume")


@pytest.mark.quick
def test_a_compacted_session_is_told_its_own_state(hooks):
    """After a compaction a session is told its own work, although another one wrote last."""
    mine = worked(hooks, ago_seconds=60)
    other = worked(hooks, "Write the changelog for the release")
    told = hooks.start(mine.id, "compact")

    assert "**Goal:** Round tax per line" in told
    assert f"**Also live:** session {other.id[:8]}: " in told
    assert "" == hooks.start(mine.id, "compact")  # twice at once: a plugin, and the settings


RULE = "Never store amounts as floats."
SUMMARY = (
    "1. Primary Request and Intent:\n   Round tax per line, and add a test for the rounding.\n"
)


def ruled(hooks: Hooked) -> Session:
    """Return a session with a rule of its person, as the daemon knows it."""
    session = hooks.sandbox.session(hooks.project)
    session.prompt(f"Round tax per line. {RULE}")
    session.edit(f"{hooks.project}/tax.py")
    session.say("I'll add a test for the rounding next.")
    wait_for(lambda: [RULE] == hooks.sandbox.document(hooks.project).get("rules"))
    return session


def compact(hooks: Hooked, session: Session) -> None:
    """Write a compaction and its summary, as the client does after its hooks."""
    session.raw(session.line("system", subtype="compact_boundary", compactMetadata={}))
    session.prompt(SUMMARY, isCompactSummary=True)
    wait_for(lambda: RULE in dropped(hooks))


def dropped(hooks: Hooked) -> str:
    return hooks.sandbox.handoff("show", "--dropped", cwd=hooks.project).stdout


@pytest.mark.quick
def test_a_rule_that_the_summary_lacks_is_told(hooks):
    """The brief after a compaction lists what the summary lacks, once and within 2 KB."""
    session = ruled(hooks)
    compact(hooks, session)
    told = hooks.start(session.id, "compact")

    assert f"\n**Not in the summary:**\n- rule: {RULE}\n" in told
    assert "**Rules:**" not in told
    assert len(told.encode()) <= 2048
    assert "" == hooks.prompt(session.id)


def test_the_next_prompt_tells_what_the_brief_did_not(hooks):
    """A client may write the summary after the brief: the next prompt tells the rest, once."""
    session = ruled(hooks)
    compact(hooks, session)
    told = hooks.prompt(session.id)

    assert 1 == len(told.splitlines())
    assert f"Not in the summary: rule: {RULE}" in told
    assert "" == hooks.prompt(session.id)
    hooks.sandbox.restart()
    assert "" == hooks.prompt(session.id)


def test_a_brief_that_told_the_rule_is_enough(hooks):
    """A rule that the brief before the summary had is not told again by the next prompt."""
    session = ruled(hooks)
    assert RULE in hooks.start(session.id, "compact")
    compact(hooks, session)

    assert RULE in dropped(hooks)
    assert "" == hooks.prompt(session.id)


def test_the_hook_after_a_compaction_compares_its_summary(hooks):
    """PostCompact answers by the summary in its input; the analysis before it does not count."""
    session = ruled(hooks)
    raw = f"<analysis>{RULE}</analysis>\n<summary>\n{SUMMARY}</summary>"
    told = hooks.fire("PostCompact", session.id, trigger="auto", compact_summary=raw)

    assert f"Not in the summary: rule: {RULE}" in told
    whole = f"<summary>{SUMMARY}{RULE}</summary>"
    assert "" == hooks.fire("PostCompact", session.id, trigger="auto", compact_summary=whole)
    assert "" == hooks.fire("PostCompact", session.id, agent_id="a1", compact_summary=raw)


@pytest.mark.quick
def test_the_dropped_items_are_listed_with_their_sources(hooks):
    """`show --dropped` lists each item with its kind and its record, and says if there is none."""
    session = ruled(hooks)
    assert "No compaction is known." in dropped(hooks)
    compact(hooks, session)
    found = dropped(hooks)
    listed = hooks.sandbox.handoff("show", "--dropped", "--json", cwd=hooks.project).stdout
    (item,) = json.loads(listed)["dropped"]

    assert f"Not in the summary of session {session.id[:8]}:\n  rule    {RULE}\n" in found
    assert item["receipt"]["uuid"] in found
    assert (session.id, "rule", RULE) == (item["session_id"], item["kind"], item["text"])
    assert session.id == item["receipt"]["transcript"]
    session.say(f"I keep to the rule: {RULE}")
    wait_for(lambda: "The last summary mentions every open item." in dropped(hooks))


def test_two_live_sessions_are_both_named(hooks):
    """A third session is told of both that are live, by their ids."""
    first = worked(hooks)
    second = worked(hooks, "Write the changelog for the release")
    told = hooks.start(new_id())

    assert f"\n## Live: session {second.id[:8]} is at work here, last active just now\n" in told
    assert "**It edits:** tax.py\n" in told
    assert f"**Also live:** session {first.id[:8]}: " in told
    assert "(edits tax.py)" in told


def test_a_cleared_session_is_told_again(hooks):
    """After /clear the new session gets the whole brief, although the old one has had it."""
    worked(hooks)
    told = hooks.start(new_id())

    assert told == hooks.start(new_id(), "clear")


@pytest.mark.parametrize("days", [8, 0], ids=["old", "completed"])
def test_past_work_is_one_line(hooks, days):
    """Completed work, and work older than a week, is told in one line."""
    ago = timestamp(days * 86400)
    session = hooks.sandbox.session(hooks.project)
    session.prompt("Round tax per line", timestamp=ago)
    session.edit(f"{hooks.project}/tax.py", timestamp=ago)
    session.say("I'll add a test for the rounding next.", timestamp=ago)
    wait_for(lambda: hooks.sandbox.document(hooks.project)["session_id"] == session.id)
    if not days:
        done = hooks.sandbox.handoff("save", "--status", "completed", cwd=hooks.project)
        assert 0 == done.returncode
    told = hooks.start(new_id())

    (line,) = state_in(told).splitlines()[:-1]
    assert line.startswith("**Goal:** Round tax per line")
    assert ("completed" in line) == (not days)


@pytest.mark.quick
def test_the_newest_handoff_is_told(hooks):
    """A handoff that a person left by `handoff close` is told, and then counts as read."""
    session = worked(hooks)
    done = hooks.sandbox.handoff(
        "close", "--gotcha", "totals are in cents", "--next", "ask Ann about shipping",
        "--session", session.id, cwd=hooks.project,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    told = hooks.start(new_id())

    assert "- Watch out: totals are in cents" in told
    assert "- Next: ask Ann about shipping" in told
    listed = json.loads(hooks.sandbox.handoff("list", "--json", cwd=hooks.project).stdout)
    assert [True] == [item["read"] for item in listed["handoffs"]]


def test_what_was_not_shown_is_not_read(hooks):
    """For completed work only one line is told: a handoff left in words stays unread."""
    session = worked(hooks)
    for words in (
        ("close", "--next", "call the bank first", "--session", session.id),
        ("save", "--status", "completed"),
    ):
        assert 0 == hooks.sandbox.handoff(*words, cwd=hooks.project).returncode
    told = hooks.start(new_id())
    listed = json.loads(hooks.sandbox.handoff("list", "--json", cwd=hooks.project).stdout)

    assert "the bank" not in told
    assert [False] == [item["read"] for item in listed["handoffs"]]


def test_what_nobody_got_was_not_told(hooks):
    """A client that left before the answer got nothing: the text is told the next time."""
    mine = worked(hooks, "Write the changelog for the release", ago_seconds=60)
    worked(hooks)
    given = hooks.given("SessionStart", mine.id, None, {"source": "resume"})
    frame = {"jsonrpc": "2.0", "id": 1, "method": "hook", "params": given}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(hooks.sandbox.socket_path)
        connection.sendall(json.dumps(frame).encode() + b"\n")
    wait_for(lambda: "SessionStart" in hooks.sandbox.call("status")["hooks"])

    assert "Round tax per line" in hooks.start(mine.id, "resume")


def test_a_call_for_a_person_comes_first(hooks):
    """A handoff that calls for a person says so first; a busy session is told in one line."""
    worked(hooks)
    session = new_id()
    hooks.start(session)
    call(hooks, "the key in CI has expired")
    line = hooks.prompt(session)
    told = hooks.start(new_id())

    assert 1 == line.count("\n")
    assert "HUMAN REVIEW NEEDED: the key in CI has expired" in line
    assert "" == hooks.prompt(session)
    mine = wait_for(lambda: hooks.sandbox.document(hooks.project)["session_id"])
    assert "" == hooks.prompt(mine)  # it called itself
    assert state_in(told).startswith(
        "**HUMAN REVIEW NEEDED:** the key in CI has expired\n**Goal:**"
    )


def test_what_moved_since_is_told(hooks):
    """A session is told of another branch, and of commits since the last work."""
    sandbox, project = hooks.sandbox, hooks.project
    sandbox.git(project, "commit", "-q", "--allow-empty", "-m", "first")
    session = worked(hooks)
    wait_for(lambda: int(time.time()) > clock_of(session) + 1)
    sandbox.git(project, "switch", "-q", "-c", "feature/rounding")
    sandbox.git(project, "commit", "-q", "--allow-empty", "-m", "Round shipping, too")
    hooks.fire("SessionEnd", session.id, reason="other")

    def told(source: str, name: str) -> str:
        found = hooks.start(name, source)
        return found if "feature/rounding" in found and "shipping" in found else ""

    found = wait_for(lambda: told("startup", new_id()))
    assert "**Since then:** the branch is feature/rounding, it was main\n" in found
    assert re.search(r"\*\*Since then:\*\* 1 new commit: [0-9a-f]+ Round shipping, too\n", found)
    resumed = told("resume", session.id)
    assert 1 == resumed.count("\n")
    assert "" == hooks.start(session.id, "resume")


@pytest.mark.quick
def test_unread_entries_are_told_once(hooks):
    """A busy session is told once, in one line, that a thread has unread entries."""
    sandbox, session = hooks.sandbox, worked(hooks).id
    by_code = {"cwd": hooks.project, "env": {"CLAUDECODE": "1"}}
    thread = sandbox.handoff("thread", "create", "Auth", "JWT?", **by_code).stdout.strip()
    hooks.start(session, "resume")
    assert "" == hooks.prompt(session)
    sandbox.handoff("thread", "add", thread, "decision", "Yes.", cwd=hooks.project)
    line = hooks.prompt(session)

    assert f"{thread} (1)" in line
    assert 1 == line.count("\n")
    assert "" == hooks.prompt(session)
    assert "" == hooks.prompt(new_id(), agent_id="a1")
    sandbox.handoff("thread", "read", thread, **by_code)
    sandbox.handoff("thread", "add", thread, "decision", "And RS256.", cwd=hooks.project)
    assert f"{thread} (1)" in hooks.prompt(session)
    sandbox.handoff("thread", "add", thread, "decision", "And a salt.", cwd=hooks.project)
    assert f"{thread} (2)" in hooks.prompt(session)
    sandbox.handoff("thread", "read", thread, "--up-to", "2", **by_code)
    assert "" == hooks.prompt(session)


@pytest.mark.quick
def test_blocked_while_a_person_is_asked(hooks):
    """While the client asks for a permission the status is blocked, until the session goes on."""
    session = worked(hooks)
    document = hooks.sandbox.document
    hooks.fire(
        "PermissionRequest", session.id, tool_name="Bash", tool_input={"command": "make deploy"}
    )
    asked = document(hooks.project)
    hooks.fire("Notification", session.id, message="Claude needs your permission")

    assert ("blocked", "Waiting for permission: Bash make deploy") == (
        asked["status"],
        asked["now"],
    )
    assert asked["now"] == document(hooks.project)["now"]
    why = hooks.sandbox.handoff("why", "now", cwd=hooks.project).stdout
    assert f"{session.id}, a hook of its client" in " ".join(why.split())
    wait_for(lambda: "status: blocked" in hooks.sandbox.yaml(hooks.project))
    session.say("Deployed. I'll look at the logs next.", timestamp=timestamp(-1))
    wait_for(lambda: document(hooks.project)["status"] == "in_progress")


@pytest.mark.quick
def test_the_end_of_a_session_leaves_its_handoff(hooks):
    """SessionEnd ends the session at once, and its handoff is there; late lines change nothing."""
    session = worked(hooks)
    hooks.fire("SessionEnd", session.id, reason="prompt_input_exit")
    shelf = hooks.sandbox.home / ".claude/handoffs"

    wait_for(lambda: [*shelf.glob("*/*.md")], allowed(3))
    assert [False] == [lane["live"] for lane in hooks.sandbox.show(hooks.project)["lanes"]]
    session.raw(b'{"type":"cost-state"}\n')
    wait_for(lambda: hooks.sandbox.call("status")["waiting_bytes"] == 0)
    assert [False] == [lane["live"] for lane in hooks.sandbox.show(hooks.project)["lanes"]]


def test_an_ended_session_stays_ended(hooks):
    """After a restart a session that ended is not live again, until it says something."""
    first, second = worked(hooks), worked(hooks, "Write the changelog for the release")
    for session in (first, second):
        hooks.fire("SessionEnd", session.id, reason="other")
    hooks.sandbox.restart()
    wait_for(hooks.sandbox.settled)
    assert "Also live" not in hooks.start(new_id())

    first.say("One more thing.")
    wait_for(lambda: any(lane["live"] for lane in hooks.sandbox.show(hooks.project)["lanes"]))


def test_a_paused_project_is_told_nothing(hooks):
    """A paused project's sessions are told nothing, with and without a daemon; later they are."""
    worked(hooks)
    wait_for(lambda: hooks.sandbox.yaml(hooks.project))
    assert 0 == hooks.sandbox.handoff("pause", ".", cwd=hooks.project).returncode
    assert "" == hooks.start(new_id())
    hooks.sandbox.stop()
    assert "" == hooks.start(new_id())

    hooks.sandbox.start()
    assert 0 == hooks.sandbox.handoff("unpause", ".", cwd=hooks.project).returncode
    assert "Round tax per line" in hooks.start(new_id())


def test_forgetting_takes_what_was_told(hooks):
    """`handoff forget` erases the record of everything that the project's sessions were told."""
    session = worked(hooks)
    other = new_id()
    assert hooks.start(other)
    hooks.fire("SessionEnd", session.id, reason="other")
    done = hooks.sandbox.handoff("forget", str(hooks.project), "--yes", cwd=hooks.project)
    assert 0 == done.returncode, done.stderr

    with sqlite3.connect(hooks.sandbox.state / "state.db") as state:
        assert [] == state.execute("SELECT * FROM told").fetchall()
        assert [] == state.execute("SELECT * FROM ended").fetchall()
    kept = contents_below(hooks.sandbox.state)
    assert [] == [
        path for path, text in kept.items() if "state.db" in path.name and other.encode() in text
    ]


def test_a_pipe_for_a_plugin_holds_nobody_up(hooks, tmp_path):
    """A pipe in the place of the plugin's description blocks neither hooks nor other requests."""
    directory = tmp_path / "plugin/.claude-plugin"
    directory.mkdir(parents=True)
    os.mkfifo(directory / "plugin.json")
    hooks.start(new_id(), env={"CLAUDE_PLUGIN_ROOT": str(directory.parent)})

    wait_for(lambda: "SessionStart" in hooks.sandbox.call("status")["hooks"])


def test_blocked_no_longer_when_the_client_goes_on(hooks, client):
    """The client's own status ends the wait for a permission, also if the command takes long."""
    session = worked(hooks)
    directory = hooks.sandbox.home / ".claude/sessions"
    directory.mkdir()
    path = directory / f"{client.pid}.json"

    def says(status: str) -> None:
        claim = {"pid": client.pid, "sessionId": session.id, "status": status}
        path.write_text(json.dumps(claim | {"waitingFor": "permission"}))

    says("waiting")
    hooks.fire("PermissionRequest", session.id, tool_name="Bash", tool_input={"command": "make"})
    assert "blocked" == hooks.sandbox.document(hooks.project)["status"]
    hooks.sandbox.run_due()  # looks at the running clients
    assert "blocked" == hooks.sandbox.document(hooks.project)["status"]
    says("busy")
    wait_for(lambda: hooks.sandbox.document(hooks.project)["status"] == "in_progress")


def test_the_very_first_session_leaves_its_handoff(sandbox):
    """The first session ever gets its handoff, although its end arrives before its directory."""
    sandbox.start()
    hooks = Hooked(sandbox, sandbox.project())
    session = sandbox.session(hooks.project)
    session.prompt("Round tax per line")
    session.edit(f"{hooks.project}/tax.py")
    session.say("Tax is rounded per line.")
    hooks.fire("SessionEnd", session.id, reason="other")

    wait_for(lambda: [*(sandbox.home / ".claude/handoffs").glob("*/*.md")])


@pytest.mark.parametrize("entrypoint", ["cli", "sdk-cli"])
def test_a_question_displaces_no_work(hooks, entrypoint):
    """A question in passing, or a session that was only opened, does not displace the real work."""
    worked(hooks, entrypoint=entrypoint)
    asked = hooks.sandbox.session(hooks.project, entrypoint=entrypoint)
    asked.prompt("What does tax.py do with empty lines?")
    asked.say("It skips them.")
    opened = hooks.sandbox.session(hooks.project, entrypoint=entrypoint)
    opened.prompt("<command-message>open</command-message>\n<command-name>/open</command-name>")
    opened.say("Tax was rounded per line.")
    wait_for(lambda: len(hooks.sandbox.call("sessions")["sessions"]) == 3)
    wait_for(lambda: hooks.sandbox.call("status")["waiting_bytes"] == 0)

    assert "Round tax per line" == hooks.sandbox.document(hooks.project)["goal"]
    assert "**Goal:** Round tax per line" in hooks.start(new_id())


def test_a_session_without_a_transcript_never_was_one(hooks):
    """`claude mcp list` ends a session that never began: nothing is recorded."""
    hooks.fire("SessionEnd", new_id(), reason="other")

    assert [] == hooks.sandbox.show(hooks.project)["lanes"]


def test_compaction_writes_the_state(hooks):
    """PreCompact prints nothing unless instructions for the summary are configured."""
    session = worked(hooks)
    assert "" == hooks.fire("PreCompact", session.id, trigger="manual", custom_instructions="")

    config = hooks.sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[hooks]\ncompact_instructions = "Keep the names of tests."\n')
    hooks.sandbox.restart()
    assert "Keep the names of tests." == hooks.fire("PreCompact", session.id, trigger="auto")


def test_programs_are_told_unless_it_is_switched_off(hooks):
    """A `claude -p` gets the brief of a person's session; with `headless = false` it gets none."""
    worked(hooks)
    program = {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}
    assert "Round tax" in hooks.start(new_id(), env=program)

    config = hooks.sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[hooks]\nheadless = false\n")
    hooks.sandbox.restart()
    assert "" == hooks.start(new_id(), env=program)
    assert "Round tax" in hooks.start(new_id())


def test_what_was_heard_is_known(hooks, tmp_path):
    """`status` has the time and the plugin of each event, also after a restart."""
    plugin = tmp_path / "plugin/.claude-plugin"
    plugin.mkdir(parents=True)
    (plugin / "plugin.json").write_text('{"name": "handoffd", "version": "9.8.7"}')
    hooks.start(new_id(), env={"CLAUDE_PLUGIN_ROOT": str(plugin.parent)})
    hooks.prompt(new_id())
    wait_for(lambda: len(hooks.sandbox.call("status")["hooks"]) == 2)
    hooks.sandbox.restart()
    heard = hooks.sandbox.call("status")["hooks"]

    assert ["SessionStart", "UserPromptSubmit"] == list(heard)
    assert ["9.8.7", None] == [found["plugin"] for found in heard.values()]
    assert heard["SessionStart"]["seconds"] < 60


@pytest.mark.parametrize(
    "given",
    [
        "",
        "{",
        "[]",
        '{"hook_event_name": 7, "session_id": {}}',
        "[" * 100_000,
        "\x00\xff",
        r'{"hook_event_name": "SessionStart", "session_id": "\ud800", "cwd": "/\udfff"}',
    ],
    ids=["nothing", "half", "list", "types", "deep", "bytes", "half a character"],
)
def test_whatever_comes_a_hook_is_silent(live, given):
    """Input that is not a hook's JSON is answered with no output and exit code 0."""
    project = live.project()
    done = live.handoff("hook", input=given, cwd=project)

    assert (0, "") == (done.returncode, done.stdout)


def test_an_excluded_project_is_told_nothing(hooks):
    """An excluded project's sessions are told nothing, and its hooks are not stored."""
    worked(hooks)
    wait_for(lambda: hooks.sandbox.yaml(hooks.project))
    (hooks.project / ".flow-guardian/config.yaml").write_text("enabled: false\n")

    assert "" == hooks.start(new_id())
    hooks.sandbox.stop()
    assert "" == hooks.start(new_id())


@pytest.mark.quick
def test_without_a_daemon_the_brief_on_disk_is_told(hooks):
    """Without a daemon a new session is told the brief on disk; a resumed one is told nothing."""
    session = worked(hooks)
    wait_for(lambda: "Round tax" in hooks.sandbox.yaml(hooks.project))
    hooks.sandbox.stop()
    told = hooks.start(new_id())

    assert "**Goal:** Round tax per line" in told
    assert told == hooks.start(session.id, "compact") == hooks.start(new_id(), "clear")
    assert "" == hooks.start(session.id, "resume")
    assert "" == hooks.prompt(session.id)
    assert "" == hooks.fire("SessionEnd", session.id, reason="other")


# The status line


def given_line(hooks: Hooked, session: str) -> str:
    return json.dumps({"session_id": session, "cwd": str(hooks.project), "version": "2.1.325"})


def line(hooks: Hooked, session: str = "", columns: int = 80) -> str:
    """Return the daemon's line, however long it takes; a client would not wait."""
    style = {"columns": columns, "colour": False, "json": False}
    found = hooks.sandbox.request(
        "statusline", cwd=str(hooks.project), hook=given_line(hooks, session), render=style
    )
    return found["result"]["text"].strip()


def client_line(hooks: Hooked, *words: str) -> str:
    done = hooks.sandbox.handoff(
        "statusline", *words, input=given_line(hooks, ""), cwd=hooks.project
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.quick
def test_the_status_line_shows_the_goal(hooks):
    """The line has the goal, the status and the last handoff's age, in the terminal's width."""
    session = worked(hooks)
    assert "Round tax per line" == line(hooks)
    call(hooks, "the key in CI has expired")

    assert "Round tax per line · handoff just now" == line(hooks, session.id)
    assert "Round tax per… · handoff just now" == line(hooks, session.id, 34)


def test_the_status_line_counts_what_is_unread(hooks):
    """The line counts the entries of all threads used here that Code has not read."""
    worked(hooks)
    by_code = {"cwd": hooks.project, "env": {"CLAUDECODE": "1"}}
    thread = hooks.sandbox.handoff("thread", "create", "Auth", "JWT?", **by_code).stdout.strip()
    for text in ("Yes.", "RS256."):
        hooks.sandbox.handoff("thread", "add", thread, "decision", text, cwd=hooks.project)

    assert "Round tax per line · 2 unread" == line(hooks)


def test_the_status_line_shows_the_tracks_progress(hooks):
    """The line has the session's track and its progress."""
    session = worked(hooks)
    track = hooks.project / "conductor/tracks/auth_20260301"
    track.mkdir(parents=True)
    (track / "metadata.json").write_text('{"track_id": "auth_20260301"}')
    (track / "plan.md").write_text("- [x] one\n- [ ] two\n- [ ] three\n")
    done = hooks.sandbox.handoff("create", "--session", session.id, cwd=hooks.project)
    assert 0 == done.returncode, done.stderr

    assert "auth_20260301 33%" in line(hooks, session.id)


def test_the_status_line_keeps_a_persons_own(hooks):
    """A person's own command gets the same JSON, and its line stands above ours."""
    worked(hooks)
    shown = {
        'read -r json; echo "mine ${json#*version}"': 'mine ": "2.1.325"}\nRound tax per line',
        "exit 3": "Round tax per line",
        "echo oops; exit 3": "oops\nRound tax per line",
    }
    for own, expected in shown.items():
        # On a busy machine ours may be late.
        wait_for(lambda own=own, said=expected: said == client_line(hooks, "--beside", own))


def test_the_status_line_without_a_daemon(hooks):
    """Without a daemon the line says so, beside a person's own line."""
    hooks.sandbox.stop()

    off = "handoffd is not running (handoff up)"
    assert off == client_line(hooks)
    assert f"x\n{off}" == client_line(hooks, "--beside", "echo x")
