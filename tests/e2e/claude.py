"""The real Claude Code in a temporary HOME, with a scripted model behind it; here by `claude -p`."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import BIN, REPOSITORY, DaemonSandbox
from e2e.model import Model

OLDER = "197"
VERSIONS = [OLDER, "325"]
# No host but the model's address is contacted.
QUIET = {
    "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}  # fmt: skip
# On a busy machine it would go on without a server that takes longer than two seconds to start.
PATIENT = {"MCP_CONNECTION_NONBLOCKING": "false", "MCP_CONNECT_TIMEOUT_MS": "30000"}
# The client's own name for our tools.
TOOL = "mcp__handoffd__"
KEY = "sk-ant-scripted"
HOOK = f"{BIN}/handoff hook 2>/dev/null || :"


def program(variable: str) -> Path:
    """Return a real program; without one the test is skipped, and fails where all must run."""
    path = os.environ.get(variable, "")
    if not path:
        reason = (
            f"{variable} names no program: `.ci/mcp` installs it and prints the variable to set"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return Path(path)


class Claude:
    """Claude Code on a person's machine: the HOME is the one in which the daemon is."""

    def __init__(self, version: str, sandbox: DaemonSandbox, model: Model, cwd: Path):
        self.version = version
        self.program = program(f"HANDOFFD_TEST_CLAUDE_{version}")
        self.model = model
        self.cwd = cwd
        self.config = sandbox.home / ".claude"
        self.config.mkdir(exist_ok=True)
        temporary = sandbox.home / "tmp"
        temporary.mkdir(exist_ok=True)
        # No other variable of the test environment, above all an account's key, is passed on.
        self.environment = {
            **QUIET, **PATIENT, **sandbox.environment, "PATH": "/usr/local/bin:/usr/bin:/bin",
            "CLAUDE_CONFIG_DIR": str(self.config), "CLAUDE_CODE_TMPDIR": str(temporary),
            "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": KEY,
        }  # fmt: skip
        self._settle_in()

    def _settle_in(self) -> None:
        """Answer the questions of a first start, and of a new folder, beforehand."""
        with self.changing(".claude.json") as found:
            found["hasCompletedOnboarding"] = True
            found["fullscreenUpsellSeenCount"] = 3
            found["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
            trusted = {"hasTrustDialogAccepted": True}
            found.setdefault("projects", {})[str(self.cwd)] = trusted

    @contextlib.contextmanager
    def changing(self, name: str) -> Iterator[dict]:
        """Yield a file of its configuration to be changed; a running client may rewrite it."""
        path = self.config / name
        found = json.loads(path.read_text()) if path.exists() else {}
        yield found
        replacement = path.with_suffix(".new")
        replacement.write_text(json.dumps(found, indent=2))
        replacement.rename(path)

    def hook(self, command: str = HOOK) -> None:
        """Put the hooks into its settings, as `handoff setup` does."""
        given = json.loads((REPOSITORY / "client/plugin/hooks/hooks.json").read_text())["hooks"]
        for groups in given.values():
            for group in groups:
                group["hooks"] = [{**hook, "command": command} for hook in group["hooks"]]
        with self.changing("settings.json") as settings:
            settings["hooks"] = given

    def transcript(self, session_id: str) -> Path:
        (found,) = self.config.glob(f"projects/*/{session_id}.jsonl")
        return found

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess:
        """Run it with these words, to its end."""
        return subprocess.run(
            [str(self.program), *words],
            env={**self.environment, **environment}, cwd=self.cwd, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen:
        """Run it with these words, and go on."""
        return subprocess.Popen(
            [str(self.program), *words],
            env=self.environment, cwd=self.cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def does(self, *words: str) -> str:
        """Run it, and return its output; it must succeed."""
        done = self.run(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def asked(self, prompt: str, *words: str, **environment: str) -> str:
        """Give it a prompt, and return its last words; the model's script must have been played."""
        done = self.run(
            "-p", prompt, "--output-format", "json", "--allowedTools", TOOL.rstrip("_"), *words,
            **environment,
        )  # fmt: skip
        told = (self.model.problems, done.stdout, done.stderr)
        assert (done.returncode, len(self.model.script)) == (0, 0), told
        return json.loads(done.stdout)["result"]
