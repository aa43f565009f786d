"""MCP's official inspector, on the command line, over the relay and over HTTP."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from mcp import StdioServerParameters

from conftest import DaemonSandbox
from e2e.claude import program
from mcp_clients import TOOLS, Address, open_listener

PROGRAM = "HANDOFFD_TEST_INSPECTOR"
# As it calls them: with the handshake of 2025-11-25, and without, as of 2026-07-28.
ERAS = ["legacy", "modern"]


class Inspector:
    """The inspector, pointed at the relay or at the HTTP listener."""

    def __init__(self, sandbox: DaemonSandbox, listener: StdioServerParameters | Address):
        self._program = program(PROGRAM)
        self._sandbox = sandbox
        if isinstance(listener, Address):
            self._options = ["--transport", "http", "--header", listener.header]
            self._target = [listener.url]
        else:
            # It gives a server no more of its own environment than any client does.
            given = sandbox.environment.items()
            self._options = [word for name, value in given for word in ("-e", f"{name}={value}")]
            self._target = [listener.command, *listener.args]

    def run(self, era: str, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [
                self._program, "--cli", *self._options, "--protocol-era", era, "--format", "json",
                *words, "--", *self._target,
            ],
            env=self._sandbox.environment, cwd=self._sandbox.home, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def result(self, era: str, *words: str) -> dict:
        done = self.run(era, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["result"]

    def call(self, era: str, tool: str, **given: str) -> dict:
        words = ["--method", "tools/call", "--tool-name", tool]
        return self.result(era, *words, "--tool-args-json", json.dumps(given))


@pytest.fixture(scope="module", params=["stdio", "http"])
def inspector(request, tmp_path_factory) -> Iterator[Inspector]:
    """The inspector, over the relay and over HTTP."""
    program(PROGRAM)
    with open_listener(request.param, tmp_path_factory.mktemp("inspector")) as (sandbox, listener):
        yield Inspector(sandbox, listener)


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_and_calls_the_tools(inspector: Inspector, era: str):
    """The inspector finds the five tools with valid schemas, and calls one."""
    # --strict: a schema that some client could not take would be an error.
    listed = inspector.run(era, "--method", "tools/list", "--strict")
    assert (0, "") == (listed.returncode, listed.stderr)
    assert TOOLS == [tool["name"] for tool in json.loads(listed.stdout)["result"]["tools"]]

    made = inspector.call(era, "create_handoff", title="Auth", content="JWT.")
    assert made["structuredContent"] == json.loads(made["content"][0]["text"])
    thread = made["structuredContent"]["handoff"]["id"]
    got = inspector.call(era, "get_handoff", id=thread, as_client="code")
    assert ["JWT."] == [e["content"] for e in got["structuredContent"]["new_entries"]]


def test_the_inspector_is_told_what_is_wrong(inspector: Inspector):
    """A tool's error reaches the inspector as an error."""
    words = ["--method", "tools/call", "--tool-name", "get_handoff", "--tool-args-json"]
    done = inspector.run("legacy", *words, '{"id": "hof_nobody"}')

    assert "Handoff 'hof_nobody' not found." in done.stdout
