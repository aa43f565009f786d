"""A HOME that `handoff setup` changes, and `handoff teardown` restores."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from conftest import BIN, DaemonSandbox, paths_below

SETTINGS = """{
    "model": "opus",
    "hooks": {
        "SessionStart": [{"hooks": [{"type": "command", "command": "date"}]}]
    },
    "permissions": {"allow": ["Bash(ls:*)"]}
}
"""
HANDOFF = str(BIN / "handoff")
# Our state and logs are not among the files that setup changes.
OUR_OWN = (".local/state/handoffd",)


class Place:
    """A HOME, without a service manager, as a container has it."""

    def __init__(self, sandbox: DaemonSandbox):
        self.sandbox = sandbox
        self.home = sandbox.home
        self.settings = self.home / ".claude/settings.json"
        self.servers = self.home / ".claude.json"
        self.commands = self.home / ".claude/commands"
        self.config = self.home / ".config/handoffd/config.toml"
        self.noted = sandbox.state / "setup/setup.json"
        # Neither our program nor systemctl is on PATH.
        self.environment = {"PATH": str(self.home / "bin")}

    def handoff(self, *words: str, **environment: str) -> subprocess.CompletedProcess:
        return self.sandbox.handoff(*words, env={**self.environment, **environment})

    def does(self, *words: str, **environment: str) -> str:
        """Run a command; it must succeed, without a message on stderr."""
        done = self.handoff(*words, **environment)
        assert (0, "") == (done.returncode, done.stderr), (words, done.stdout, done.stderr)
        return done.stdout

    def setup(self, *words: str, **environment: str) -> str:
        """Set up all parts but the service, which is slow to start."""
        return self.does("setup", "--yes", "--without", "service", *words, **environment)

    def setup_all(self, *words: str, **environment: str) -> str:
        return self.does("setup", "--yes", *words, **environment)

    def refuses(self, *words: str, **environment: str) -> str:
        """Run a setup that must fail, and assert that it changed nothing."""
        before = self.tree()
        done = self.handoff("setup", "--yes", *words, **environment)
        assert 1 == done.returncode, done.stdout
        assert before == self.tree()
        assert "Traceback" not in done.stderr
        return done.stderr

    def teardown(self, **environment: str) -> str:
        return self.does("teardown", "--yes", **environment)

    def hooks(self) -> dict:
        return json.loads(self.settings.read_text())["hooks"]

    def server(self) -> dict | None:
        return json.loads(self.servers.read_text()).get("mcpServers", {}).get("handoffd")

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name: str, text: str) -> Path:
        """Put a program on the PATH."""
        path = self.write(self.home / "bin" / name, f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def tree(self) -> dict[str, object]:
        """Return everything in the HOME but our own state: content, mode, targets of links."""
        found: dict[str, object] = {}
        for path in sorted({*paths_below(self.home)} - {self.home}):
            name = str(path.relative_to(self.home))
            if name.startswith((".local/state", *OUR_OWN)) or name == ".local":
                continue
            found[name] = _content(path)
        return found

    def at_terminal(self, *words: str, answers: Sequence[tuple[str, str]]) -> tuple[int, str]:
        """Run it at a terminal and answer its questions; return exit code and output."""
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [HANDOFF, *words], stdin=follower, stdout=follower, stderr=follower,
            env={**self.sandbox.environment, **self.environment}, cwd=self.home,
            start_new_session=True,
        )  # fmt: skip
        os.close(follower)
        screen = _Screen(leader)
        for question, answer in answers:
            screen.until(question)
            os.write(leader, answer.encode())
        screen.until(None)
        os.close(leader)
        return process.wait(90), screen.text


# Runs commands one after the other, each in a process of its own, that have loaded everything
# already. A command is killed at its n-th change that others can see, before or after it is made.
FORKING = """
import json, os, signal, sys
from handoff import local
from handoff.cli import main
from handoff.commands import setup, teardown
local.daemon_code()
def counted(real):
    def call(*given, **named):
        count()
        found = real(*given, **named)
        count()
        return found
    return call
def count():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
for name in ("rename", "unlink", "mkdir", "rmdir", "symlink"):
    setattr(os, name, counted(getattr(os, name)))
for line in sys.stdin:
    left, *words = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        code = main("handoff", words)
        sys.stdout.flush()
        os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(1, b"%d\\n" % status)
"""


class Killable:
    """Commands that can be killed at any change they make."""

    def __init__(self, place: Place):
        self.said = place.home.parent / "said"
        with self.said.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", FORKING],
                env={**place.sandbox.environment, **place.environment}, cwd=place.home,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, text=True,
            )  # fmt: skip

    def run(self, *words: str, killed_at: int = 0) -> bool:
        """Run a command, and return True if it was killed."""
        self.process.stdin.write(json.dumps([killed_at, *words]) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline() or "1")
        assert code in (0, -9), self.said.read_text()
        return code == -9

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(90)


def _content(path: Path) -> object:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    mode = path.stat().st_mode
    return (oct(mode), path.read_bytes() if path.is_file() else None)


class _Screen:
    def __init__(self, handle: int):
        self.handle = handle
        self.text = ""
        self.seen = 0

    def until(self, words: str | None) -> None:
        """Read until words are shown that were not seen before, or to the end."""
        deadline = time.monotonic() + 30
        while words is None or words not in self.text[self.seen :]:
            assert time.monotonic() < deadline, self.text
            if not select.select([self.handle], [], [], 1)[0]:
                continue
            try:
                more = os.read(self.handle, 1 << 16)
            except OSError:  # the other side is closed
                more = b""
            if not more:
                assert words is None, (words, self.text)
                return
            self.text += more.decode(errors="replace").replace("\r\n", "\n")
        self.seen = self.text.index(words, self.seen) + len(words)
