"""The real Claude Code, run by `claude -p` in a temporary HOME, with a scripted model behind it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import House
from e2e.model import Model

VERSIONS = ["197", "325"]
# Nothing but the model's address is spoken to.
QUIET = {
    "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}  # fmt: skip
# On a busy machine it would go on without a server that takes longer than two seconds to start.
PATIENT = {"MCP_CONNECTION_NONBLOCKING": "false", "MCP_CONNECT_TIMEOUT_MS": "30000"}
# The client's own name for our tools.
TOOL = "mcp__handoffd__"


def program(variable: str) -> Path:
    """Return a real program; without one the test is skipped, and fails where all must run."""
    path = os.environ.get(variable, "")
    if not path:
        reason = f"{variable} names no program (.ci/mcp installs one)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return Path(path)


class Claude:
    """Claude Code on a person's machine: the HOME is the one in which the daemon is."""

    def __init__(self, version: str, house: House, model: Model, cwd: Path):
        self.version = version
        self.program = program(f"HANDOFFD_TEST_CLAUDE_{version}")
        self.model = model
        self.cwd = cwd
        self.config = house.home / ".claude"
        self.config.mkdir(exist_ok=True)
        temporary = house.home / "tmp"
        temporary.mkdir(exist_ok=True)
        # Whatever else is set where the tests run, an account's key above all, stays out.
        self.environment = {
            **QUIET, **PATIENT, **house.environment, "PATH": "/usr/local/bin:/usr/bin:/bin",
            "CLAUDE_CONFIG_DIR": str(self.config), "CLAUDE_CODE_TMPDIR": str(temporary),
            "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-scripted",
        }  # fmt: skip

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess:
        """Run it with these words, to its end."""
        return subprocess.run(
            [str(self.program), *words],
            env={**self.environment, **environment}, cwd=self.cwd, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def does(self, *words: str) -> str:
        """Run it, and return what it printed; it must succeed."""
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
