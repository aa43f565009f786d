"""conductor/ as people and their agents keep it, and the records made of it."""

import contextlib
import json
import os
import pty
import re
import select
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import yaml

import beads_world
from conftest import BIN, paths_below, wait_for

TRACK = "auth_20260301"
PLAN = """# Plan

## Phase 1: Tokens
- [x] Choose the algorithm
- [x] Rotate the keys
- [~] Write the signer

## Phase 2: Login
- [ ] Build the form
- [ ] Test the form
"""
STEPS = ["1", "1a", "2", "3", "4", "5", "6", "7", "8", "9"]


def track(project, track_id=TRACK, *, plan=PLAN, **metadata):
    """Make a track that is worked on; returns its directory."""
    directory = project / "conductor/tracks" / track_id
    directory.mkdir(parents=True)
    said = {"track_id": track_id, "type": "feature", "status": "in_progress", **metadata}
    (directory / "metadata.json").write_text(json.dumps(said, indent=2) + "\n")
    (directory / "spec.md").write_text("# Spec\n")
    (directory / "plan.md").write_text(plan)
    return directory


def mark(project, box, track_id=TRACK, title="Log in with signed tokens"):
    """Mark a track in conductor/tracks.md, as Conductor-Beads does."""
    path = project / "conductor/tracks.md"
    text = path.read_text() if path.exists() else "# Project Tracks\n\nAll major work.\n"
    link = f"./conductor/tracks/{track_id}/"
    if link in text:
        parts = text.split("\n---\n")
        here = next(number for number, part in enumerate(parts) if link in part)
        parts[here] = re.sub(r"## \[.\]", f"## [{box}]", parts[here])
        path.write_text("\n---\n".join(parts))
    else:
        path.write_text(f"{text}\n---\n\n## [{box}] Track: {title}\n*Link: [{link}]({link})*\n")


def commit(sandbox, project, message="a commit"):
    sandbox.git(project, "add", "-A")
    sandbox.git(project, "commit", "-q", "--allow-empty", "-m", message)
    return sandbox.git(project, "rev-parse", "--short=7", "HEAD").strip()


def settings(project, text):
    """Write a project's own settings."""
    (project / "conductor").mkdir(exist_ok=True)
    (project / "conductor/workflow.md").write_text(f"# Workflow\n\n```yaml\nhandoff:\n{text}```\n")


# The made records


def records(project, track_id=TRACK):
    """Return the record files of a track, the oldest first."""
    found = sorted((project / "conductor/handoffs" / track_id).glob("*.md"))
    return [path for path in found if path.name != "index.md"]


def handoff(project, track_id=TRACK):
    """Return the handoff section of a track's metadata.json."""
    path = project / "conductor/tracks" / track_id / "metadata.json"
    return json.loads(path.read_text()).get("handoff", {})


def history(project, track_id=TRACK):
    return handoff(project, track_id).get("history", [])


def triggers(project, track_id=TRACK):
    """Return the triggers of a track's history, in order."""
    return [entry["trigger"] for entry in history(project, track_id)]


def rows(project, track_id=TRACK):
    """Return the files that the index of a track has a row for, in order."""
    path = project / "conductor/handoffs" / track_id / "index.md"
    return re.findall(r"\]\(\./(.+?)\) \|", path.read_text()) if path.exists() else []


def front(path):
    return yaml.load(path.read_text().split("---\n")[1], Loader=yaml.BaseLoader)


def assert_whole(project, track_id=TRACK):
    """Check that files, history and index tell of the same records, each once; returns them."""
    names = [path.name for path in records(project, track_id)]
    assert names == sorted(entry["file"] for entry in history(project, track_id))
    assert names == sorted(rows(project, track_id))
    sections = [entry["section"] for entry in history(project, track_id)]
    assert list(range(1, len(names) + 1)) == sections
    assert [] == temporary(project)
    return names


def temporary(project):
    """Return the temporary files that a writer of ours left behind."""
    return [path for path in paths_below(project) if path.name.endswith("handoffd-tmp")]


def tree(directory):
    """Return every file below a directory with its bytes, and every directory."""
    found = {}
    for path in sorted({*paths_below(directory)} - {directory}):
        with contextlib.suppress(FileNotFoundError):  # a daemon that runs may have removed it
            found[str(path.relative_to(directory))] = path.read_bytes() if path.is_file() else None
    return found


# Commands


def asked(sandbox, *words, cwd, code=0, **run):
    """Run a command with --json; return its output."""
    done = sandbox.handoff(*words, "--json", cwd=cwd, **run)
    assert code == done.returncode, done.stdout + done.stderr
    return json.loads(done.stdout)


def outcomes(data):
    return {step["number"]: step["outcome"] for step in data["steps"]}


def said(data, number):
    return next(step["text"] for step in data["steps"] if step["number"] == number)


def at_terminal(sandbox, *words, cwd, answers):
    """Run a command at a terminal; `answers` has the text typed, or the action, per question."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(BIN / "handoff"), *words], env=sandbox.environment, cwd=cwd,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    screen, deadline = "", time.monotonic() + 90
    waiting = list(answers)
    try:
        while True:
            assert time.monotonic() < deadline, screen
            if not select.select([ours], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            screen += data.decode()
            while waiting and waiting[0][0] in screen:
                answer = waiting.pop(0)[1]
                if callable(answer):
                    answer()
                else:
                    os.write(ours, answer.encode() + b"\n")
        return process.wait(90), screen.replace("\r\n", "\n")
    finally:
        os.close(ours)
        process.kill()
        process.wait()


def at_rest(sandbox):
    """Return True if nothing is pending, and nothing waits to be sent."""
    found = sandbox.call("triggers", cwd="/", all=True)
    return not found["letters"] and not any(item["pending"] for item in found["triggers"])


# Its daemon and its HOME


def configure(sandbox, text):
    path = sandbox.home / ".config/handoffd/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def beads_section(program):
    """Return the configuration of a program; one that is a script cannot be confined."""
    with program.open("rb") as stream:
        confine = "false" if stream.read(2) == b"#!" else "true"
    return f'[beads]\ncommand = "{program}"\nconfine = {confine}\n'


def with_beads(sandbox, line, factory, config="", how="real"):
    """Make a project with a Beads of a line, and say in the configuration where it is."""
    (sandbox.home / "code").mkdir()
    found = beads_world.fresh(f"{how} {line}", sandbox.home / "code", factory)
    configure(sandbox, config + beads_section(found.program))
    sandbox.transcripts.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(found.root / ".git", ignore_errors=True)  # one line makes a repository of its own
    sandbox.git(found.root, "init", "-q", "-b", "main")
    return found


def beads_left(world):
    """Return the processes that work on the Beads of a project."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            about = (place / "environ").read_bytes()
            if b"\0BEADS_DIR=" in about and f"={world.root.parents[1]}/".encode() in about:
                found.append((place / "cmdline").read_bytes())
    return found


def claim(sandbox, session, process):
    """Write the client's file that claims a session for a process."""
    path = sandbox.home / ".claude/sessions" / f"{process.pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"pid": process.pid, "sessionId": session.id, "kind": "interactive"})
    )
    return path


def command(session, name, arguments="", **fields):
    """Give a slash command, as a person does."""
    session.prompt(
        f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
        f"<command-args>{arguments}</command-args>",
        **fields,
    )


def call_tool(session, call="t1", **fields):
    """Begin a call of a tool that goes on."""
    block = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "make all"}}
    message = {"role": "assistant", "id": "msg_2", "content": [block], "stop_reason": "tool_use"}
    session.raw(session.line("assistant", message=message, **fields))


def end_tool(session, call="t1", **fields):
    block = {"type": "tool_result", "tool_use_id": call, "content": "ok"}
    session.raw(session.line("user", message={"role": "user", "content": [block]}, **fields))


def fired(sandbox, project=None):
    """Return the triggers that fired, the oldest first."""
    found = sandbox.call("triggers", cwd=str(project or "/"), all=project is None, limit=1000)
    return list(reversed(found["triggers"]))


def names_fired(sandbox, project=None):
    return [item["trigger"] for item in fired(sandbox, project)]


class Witness:
    """A project in which a trigger fires: by then every other project was looked at."""

    def __init__(self, sandbox):
        self.sandbox, self.looks = sandbox, 0
        self.project = sandbox.project("witness")
        (self.project / "conductor/tracks").mkdir(parents=True)
        settings(self.project, "  quiet: true\n")
        self.session = sandbox.session(self.project)
        self.session.prompt("Look at the tracks of this project, please")

    def look(self, times=1):
        """Wait until the daemon has looked at everything that was there before."""
        wait_for(lambda: is_seen(self.sandbox, self.project), what="the witness is known")
        for _ in range(times):
            self.looks += 1
            name = f"look-{self.looks}"
            # As one that is made elsewhere and moved here: all of it at once.
            made = track(self.project.parent / "aside", name)
            made.rename(self.project / "conductor/tracks" / name)
            wait_for(lambda n=name: records(self.project, n), what="the daemon looked")


def is_seen(sandbox, project):
    """Return True if the tracks of a project have been looked at."""
    query = "SELECT 1 FROM seen JOIN projects ON id = project_id WHERE root = ? AND kind = 'track'"
    return bool(stored(sandbox, query, str(project)))


def stored(sandbox, query, *values):
    """Query core.db, as the daemon left it."""
    with contextlib.closing(sqlite3.connect(sandbox.state / "core.db")) as db:
        found = db.execute(query, values).fetchall()
        db.commit()
    return found


# A daemon whose looks come more often.
QUICK = """
import handoffd.app, handoffd.tracks.record_maker, handoffd.triggers.trigger_detector
handoffd.tracks.record_maker.RETRY_SECONDS = 1.0
handoffd.app.LOOK_SECONDS = handoffd.app.RECORD_SECONDS = 0.5
handoffd.triggers.trigger_detector.BARE_SECONDS = 2.0
"""


def run_after(sandbox, prelude):
    """Run the sandbox's daemon with some code before it; an empty text changes nothing."""
    code = f"{prelude}\nimport sys\nsys.argv = ['handoffd', 'run']\nfrom handoffd.__main__ import main\nmain()\n"

    def spawn(**popen):
        with sandbox.log.open("ab") as stream:
            return subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                env=sandbox.environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                cwd="/", **popen,
            )  # fmt: skip

    sandbox.spawn = spawn
    return sandbox
