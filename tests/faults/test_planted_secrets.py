"""Secrets in every input channel: none of them is in a file, an answer or a message of ours."""

import itertools
import json
import random
import re
import subprocess
import threading

import pytest

from conductor_projects import QUICK, command, configure, run_after, track, with_beads
from conftest import BIN, DaemonSandbox, contents_below, timestamp, wait_for
from listings import LISTINGS, ed25519, parts, parts_left, rsa
from mail_server import MailServer
from mcp_socket_client import Mcp
from planted_secrets import FORMATS, draw

# A name of a file, a branch or a flag cannot hold every character.
NAMEABLE = re.compile(r"[\w.-]{20,120}")
EACH = 20


class Planter:
    """Draws secrets, other ones for each channel, and knows them all."""

    def __init__(self):
        self._chance = random.Random(49)
        self._forms = [(kind, form) for kind, forms in FORMATS.items() for form in forms]
        self.planted: list[tuple[str, str, str]] = []

    def draw(self, channel: str, number: int = EACH, *, nameable: bool = False) -> list[str]:
        found: list[str] = []
        at = len(self.planted)
        while len(found) < number:
            kind, form = self._forms[at % len(self._forms)]
            at += 1
            secret = draw(form, self._chance)
            if "\n" in secret or (nameable and not NAMEABLE.fullmatch(secret)):
                continue
            found.append(secret)
            self.planted.append((channel, kind, secret))
        return found

    def text(self, channel: str, number: int = EACH) -> str:
        return "\n".join(f"Please use {secret} for it" for secret in self.draw(channel, number))

    def found_in(self, data: bytes) -> list[tuple[str, str]]:
        """Return the channel and the kind of each secret that a text holds to a large part."""
        return [
            (channel, kind)
            for channel, kind, secret in self.planted
            if secret.encode() in data or secret[4:28].encode() in data
        ]


def tool(session, name, given, result):
    call = {"type": "tool_use", "id": f"t{len(result)}", "name": name, "input": given}
    session.raw(
        session.line("assistant", message={"role": "assistant", "id": "m", "content": [call]})
    )
    block = {"type": "tool_result", "tool_use_id": call["id"], "content": result, "is_error": True}
    message = {"role": "user", "content": [block]}
    session.raw(session.line("user", message=message, toolUseResult={"stderr": result}))


def plant_in_transcripts(sandbox, project, planter):
    session = sandbox.session(project)
    session.prompt(f"Round tax per line\n{planter.text('prompt')}")
    for secret in planter.draw("prompts"):
        session.prompt(f"Then do {secret} and tell nobody")
        session.say(f"I suspect {planter.draw('suspicion', 1)[0]} is wrong. Next, I'll look at it.")
    session.say(f"I'll do that next.\n{planter.text('assistant')}")
    for secret in planter.draw("tool input"):
        tool(session, "Bash", {"command": f"deploy {secret}", "description": secret}, "Error: no")
    tool(session, "Bash", {"command": "pytest -q"}, f"1 failed\n{planter.text('tool output')}")
    for secret in planter.draw("path", nameable=True):
        session.edit(f"{project}/{secret}/notes.md")
    todos = [{"content": s, "status": "pending", "activeForm": s} for s in planter.draw("todo")]
    tool(session, "TodoWrite", {"todos": todos}, "ok")
    tool(session, "ExitPlanMode", {"plan": planter.text("plan")}, "User has approved your plan")
    question = {"question": planter.text("question", 1), "options": [{"label": s} for s in planter.draw("option")]}  # fmt: skip
    tool(session, "AskUserQuestion", {"questions": [question]}, planter.text("refusal"))
    for secret in planter.draw("title"):
        session.raw(session.line("ai-title", aiTitle=f"About {secret}"))
        session.raw(session.line("custom-title", customTitle=f"Named {secret}"))
        session.raw(session.line("summary", summary=f"It was {secret}", leafUuid="x"))
    summary = f"This session is being continued.\n1. Primary Request:\n{planter.text('summary')}"
    session.prompt(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)
    command(session, "ci", planter.draw("slash command", 1)[0])
    for secret in planter.draw("branch in the transcript", nameable=True):
        session.say("Going on.", gitBranch=secret)
    plant_in_files_of_claude_code(sandbox, session, planter)
    return session


def plant_in_files_of_claude_code(sandbox, session, planter):
    agents = session.path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    words = {"role": "user", "content": planter.text("sub-agent")}
    (agents / "agent-1.jsonl").write_bytes(session.line("user", isSidechain=True, message=words))
    tasks = sandbox.home / ".claude/tasks" / session.id
    tasks.mkdir(parents=True)
    for number, secret in enumerate(planter.draw("task file")):
        task = {"id": str(number), "subject": secret, "status": "pending", "description": secret}
        (tasks / f"{number}.json").write_text(json.dumps(task))


def plant_in_git(sandbox, project, planter):
    for secret in planter.draw("commit message", 6):
        sandbox.git(project, "commit", "-q", "--allow-empty", "-m", f"Add {secret}")
    for secret in planter.draw("file name", nameable=True):
        (project / secret).write_text("x")
    (branch,) = planter.draw("branch", 1, nameable=True)
    sandbox.git(project, "checkout", "-q", "-b", f"fix/{branch.strip('.')}")


def plant_by_commands(sandbox, project, session, planter):
    for option in ("-m", "--goal", "--now", "--hypothesis", "--outcome", "--tag"):
        for secret in planter.draw(f"save {option}", 4):
            done = sandbox.handoff("save", option, f"with {secret}", cwd=project)
            assert 0 == done.returncode, done.stderr
    for option in ("--done", "--next", "--gotcha", "--risk", "--reflection", "--escalate"):
        words = [f"with {secret}" for secret in planter.draw(f"close {option}", 2)]
        done = sandbox.handoff("close", "--session", session.id, option, words[0], cwd=project)
        assert 0 == done.returncode, done.stderr
    said = {"session_id": session.id, "cwd": str(project), "transcript_path": str(session.path)}
    for event in ("UserPromptSubmit", "Notification", "PermissionRequest", "PreCompact", "SessionStart"):  # fmt: skip
        (secret,) = planter.draw(f"hook {event}", 1)
        given = said | {"hook_event_name": event, "prompt": secret, "message": f"wants {secret}"}
        given |= {"tool_name": "Bash", "tool_input": {"command": secret}, "source": "startup"}
        done = sandbox.handoff("hook", cwd=project, input=json.dumps(given))
        assert [] == planter.found_in((done.stdout + done.stderr).encode())


def replies(sandbox, project, session):
    """Return the answers of every method, and the output of the commands."""
    at = {"cwd": str(project)}
    for method in ("status", "show", "sessions", "open", "list", "review", "triggers", "doctor", "statusline"):  # fmt: skip
        yield method, json.dumps(sandbox.request(method, **at), ensure_ascii=False)
    for level in ("L0", "L1", "L2", "L3"):
        yield level, json.dumps(sandbox.request("inject", level=level, **at), ensure_ascii=False)
    fields = ("goal", "now", "status", "next.0", "files.0", "dead_ends.0", "questions.0", "decisions.0", "tests.0")  # fmt: skip
    for field in fields:
        yield f"why {field}", json.dumps(sandbox.request("why", field=field, **at))
    for words in (("show", "--receipts"), ("resume",), ("triggers", "--all"), ("trigger", "idle", "--dry-run")):  # fmt: skip
        done = sandbox.handoff(*words, cwd=project)
        yield " ".join(words), done.stdout + done.stderr
    with Mcp(sandbox, "code", project) as mcp:
        yield "mcp", json.dumps(mcp.request("tools/list"))


def written_by_us(sandbox: DaemonSandbox, project) -> dict:
    roots = [project / ".flow-guardian", sandbox.home / ".claude/handoffs", sandbox.state, project / "conductor/handoffs"]  # fmt: skip
    return contents_below(*roots) | {sandbox.log: sandbox.log.read_bytes()}


@pytest.mark.timeout(300)
def test_secrets_in_every_channel(sandbox, tmp_path_factory, record_property):
    """Planted in 40 channels, not one of hundreds of secrets is in a file, log, reply, note or mail."""
    planter = Planter()
    with MailServer() as server:
        config = f'[log]\nlevel = "debug"\n[mail]\nurl = "{server.url}"\n'
        beads = with_beads(sandbox, "current", tmp_path_factory, config, how="scripted")
        project = beads.root
        plant_in_git(sandbox, project, planter)
        epic = beads.epic(f"Login with {planter.draw('epic', 1)[0]}")
        for secret in planter.draw("issue"):
            beads.child(epic, f"Use {secret}")
        plan = "".join(f"- [ ] Use {secret}\n" for secret in planter.draw("track plan"))
        track(project, plan=f"# Plan\n\n## Phase 1\n{plan}", beads={"epicId": epic}, description=planter.text("metadata", 2))  # fmt: skip
        run_after(sandbox, QUICK).start()
        heard = watch(sandbox)
        session = plant_in_transcripts(sandbox, project, planter)
        wait_for(lambda: "redacted:" in sandbox.yaml(project))
        path = project / ".flow-guardian/handoff.yaml"
        notes = "".join(f"note_{n}: use {s}\n" for n, s in enumerate(planter.draw("handoff.yaml")))
        path.write_text(path.read_text() + notes)
        wait_for(lambda: "note_19" in str(sandbox.show(project)))
        plant_by_commands(sandbox, project, session, planter)
        said = [sandbox.handoff(*w, cwd=project) for w in (("create",), ("trigger", "design-end"))]
        session.prompt("And that is that", timestamp=timestamp(-1))
        wait_for(sandbox.settled)
        wait_for(lambda: server.messages, what="a mail was sent")
        wait_for(lambda: beads.notes(epic), what="a note was made")
        leaks = [
            (name, leak)
            for name, text in replies(sandbox, project, session)
            for leak in planter.found_in(text.encode())
        ]
        leaks += [("create", leak) for leak in planter.found_in(str(said).encode())]
        assert heard, "changes were told"
        leaks += [("watch", leak) for leak in planter.found_in("".join(heard).encode())]
        leaks += [("mail", leak) for leak in planter.found_in(str(server.seen).encode())]
        leaks += [("note", leak) for leak in planter.found_in(str(beads.notes(epic)).encode())]
        sandbox.stop()
    written = written_by_us(sandbox, project)
    leaks += [(str(p), leak) for p, text in written.items() for leak in planter.found_in(text)]
    assert [] == leaks
    channels = {channel for channel, _, _ in planter.planted}
    kinds = {kind for _, kind, _ in planter.planted}
    assert len(kinds) > 100
    record_property(
        "figure",
        f"0 of {len(planter.planted)} secrets of {len(kinds)} kinds from {len(channels)} channels, "
        f"in {len(written)} files, replies, notes and mails",
    )


def watch(sandbox):
    """Read every notification of a change, in a thread, as it comes."""
    heard: list[str] = []
    process = subprocess.Popen(
        [BIN / "handoff", "watch", "--json"],
        env=sandbox.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    threading.Thread(target=lambda: heard.extend(process.stdout), daemon=True).start()
    return heard


def show_key(session, text):
    session.prompt(f"Use this for the deployment of the shop:\n{text}")
    session.say(f"I suspect that the key is wrong:\n{text}\nNext, I'll look at {text}")
    for _ in range(3):
        tool(session, "Bash", {"command": f"deploy <<X\n{text}\nX"}, f"Error: exit 1\n{text}")
    tool(session, "Bash", {"command": "pytest -q"}, f"FAILED test_a.py::test_b - {text}\n1 failed")
    tool(session, "ExitPlanMode", {"plan": f"# Deploy\n1. {text}"}, "User has approved your plan")


@pytest.mark.timeout(300)
def test_private_keys_in_every_listing(sandbox, record_property):
    """No part of a key in any listing, in tool output, prompts and answers, is in our files."""
    chance = random.Random(19)
    project = sandbox.project()
    configure(sandbox, '[log]\nlevel = "debug"\n')
    sandbox.start()
    keys = []
    for make, listing in itertools.product((rsa, ed25519), LISTINGS.values()):
        keys.append(make(chance))
        # A session each: every text is the last of its kind in one of them, and is kept.
        session = sandbox.session(project)
        show_key(session, listing(keys[-1]))
    wait_for(lambda: "redacted:private-key" in sandbox.yaml(project))
    wait_for(sandbox.settled, 60)
    said = sandbox.handoff("create", cwd=project)
    answers = [text for _, text in replies(sandbox, project, session)] + [said.stdout + said.stderr]
    ours = written_by_us(sandbox, project)
    sandbox.stop()
    written = [*ours.values(), *written_by_us(sandbox, project).values()]
    texts = [*answers, *(data.decode("utf-8", "replace") for data in written)]
    assert len(keys) < sum(text.count("redacted:private-key") for text in texts)
    secret = set().union(*map(parts, keys))
    assert [] == [part for text in texts for part in parts_left(secret, text)]
    figure = f"0 of {len(keys)} keys in {len(LISTINGS)} listings, in {len(ours)} files and replies"
    record_property("figure", figure)
