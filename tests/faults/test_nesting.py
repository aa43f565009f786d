"""Foreign documents that are nested without end: ignored, or refused with a message."""

import json

import pytest

from conductor_projects import TRACK, configure, settings, track
from conftest import wait_for
from http_clients import open_listener
from raw_socket import exchange

DEPTHS = (101, 150, 950, 60_000)
SEQUENCE = ("[", "]")
MAPPING = ('{"a":', "}")


def nested(depth: int, pair: tuple[str, str] = SEQUENCE, inner: str = "1") -> str:
    return pair[0] * depth + inner + pair[1] * depth


def plant(sandbox, project, depth: int) -> None:
    """Put a nested document wherever the daemon reads one that others wrote."""
    deep, value = nested(depth), nested(depth, MAPPING)
    directory = track(project)
    (directory / "metadata.json").write_text(f'{{"track_id": "{TRACK}", "x": {deep}}}')
    (directory / "parallel_state.json").write_text(value)
    settings(project, f"  enabled: {deep}\n")
    (project / ".beads").mkdir()
    (project / ".beads/issues.jsonl").write_text(f'{{"id": "a", "title": {value}}}\n')
    (project / ".beads/metadata.json").write_text(value)
    session = sandbox.session(project)
    session.prompt("Round the tax per line")
    line = session.line("assistant", message={"role": "assistant", "content": [5]}, toolUseResult=6)
    for text in (deep, value):
        session.raw(line.replace(b":[5]", f":{text}".encode()))
        call = f'[{{"type":"tool_use","id":"t","name":"Bash","input":{text}}}]'
        session.raw(line.replace(b"[5]", call.encode()))
        session.raw(line.replace(b":6", f":{text}".encode()))
        session.raw(text.encode() + b"\n")
    tasks = sandbox.home / ".claude/tasks" / session.id
    tasks.mkdir(parents=True)
    (tasks / "1.json").write_text(value)
    sessions = sandbox.home / ".claude/sessions"
    sessions.mkdir(exist_ok=True)
    (sessions / "1.json").write_text(deep)
    session.say("Next, I'll look at the sum.")


def test_the_daemon_reads_on(live, record_property):
    """Nested YAML, JSON and transcripts of a repository neither end the daemon nor hide the rest."""
    for number, depth in enumerate(DEPTHS):
        project = live.project(f"shop{number}")
        plant(live, project, depth)
        wait_for(lambda p=project: "Round the tax" in live.yaml(p), what=f"depth {depth}")
        (project / ".flow-guardian/handoff.yaml").write_text(f"goal: {nested(depth)}\n")
        (project / ".flow-guardian/config.yaml").write_text(f"enabled: {nested(depth)}\n")
        frame = f'{{"jsonrpc":"2.0","id":1,"method":"show","params":{nested(depth, MAPPING)}}}\n'
        assert "error" in exchange(live, frame.encode())
        hook = f'{{"session_id": "x", "cwd": "{project}", "tool_input": {nested(depth)}}}'
        assert 0 == live.handoff("hook", input=hook, cwd=project).returncode
        live.request("show", cwd=str(project))
        live.request("resume", cwd=str(project))
        assert live.alive()
    live.handoff("resume", cwd=project)
    wait_for(live.settled)
    status = live.call("status")

    assert 0 == status["skipped"]["transcripts"]
    assert "traceback" not in live.log.read_text()
    record_property("figure", f"{len(DEPTHS)} depths up to {max(DEPTHS):,}: the daemon reads on")


@pytest.mark.parametrize("depth", DEPTHS)
def test_setup_refuses_in_words(sandbox, depth):
    """Setup, teardown and doctor report that a file of Claude Code is nested too deeply."""
    path = sandbox.home / ".claude/settings.json"
    path.parent.mkdir(parents=True)
    text = f'{{"hooks": {{}}, "x": {nested(depth)}}}'
    path.write_text(text)
    (sandbox.home / ".claude.json").write_text(text)
    plugins = sandbox.home / ".claude/plugins"
    plugins.mkdir()
    for name in ("installed_plugins.json", "known_marketplaces.json"):
        (plugins / name).write_text(text)
    project = sandbox.project()
    (project / "package.json").write_text(text)
    (project / "pyproject.toml").write_text(f"x = {nested(depth)}\n")
    (project / "Dockerfile").write_text(f"FROM x\nCOPY {nested(depth)}\n")
    done = [
        sandbox.handoff(*words, cwd=project)
        for words in (
            ("setup", "--yes", "--without", "service"),
            ("teardown", "--yes"),
            ("doctor",),
        )
    ]
    said = [one.stdout + one.stderr for one in done]

    assert "Traceback" not in "".join(said)
    assert 1 == done[0].returncode
    assert "nested more than 100 levels deep" in said[0]
    assert text == path.read_text()


@pytest.mark.parametrize("depth", DEPTHS)
def test_configuration_that_is_nested(sandbox, depth):
    """A configuration nested too deeply is refused with a message, at a start and at a reload."""
    configure(sandbox, f"x = {nested(depth)}\n")
    done = sandbox.handoff("up")

    assert 1 == done.returncode
    assert "nested more than 100 levels deep" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(sandbox.handoff("status", "--json").stdout or "{}") == {}


def test_http_reads_on(sandbox):
    """A nested body over HTTP is refused, and the next one answered."""
    visitor = open_listener(sandbox)
    for depth in DEPTHS:
        call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_handoff","arguments":%s}}'
        for body in (nested(depth), call % nested(depth, MAPPING)):
            reply = visitor.post(body.encode())
            assert reply.status == 400 or "error" in reply.json or reply.result["isError"]

    assert {} == visitor.ask("ping")
    assert "traceback" not in sandbox.log.read_text()
