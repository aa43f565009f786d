"""The plugin in the real Claude Code: checked, installed from its marketplace, switched, removed."""

import json
import shutil
from pathlib import Path

import pytest

import handoff
from conftest import BIN, REPOSITORY, DaemonSandbox
from e2e.claude import Claude, program
from e2e.model import Model, say, tools, words
from handoff import __version__
from mcp_clients import TOOLS

PLUGIN = "handoffd@handoffd"
TOOL = "mcp__plugin_handoffd_handoffd__"
# The same layout in a checkout and in an installation.
PLACES = {"checkout": REPOSITORY, "installed": Path(handoff.__file__).parent / "marketplace"}
LOGGING = """#!/bin/sh
echo "$1 ${CLAUDE_PLUGIN_ROOT:-nowhere}" >>"%s"
exec "%s" "$@"
"""


class Installed:
    """Claude Code with the plugin; every program of ours that it starts is written down."""

    def __init__(self, claude: Claude, sandbox: DaemonSandbox, market: Path):
        self.claude, self.model, self.sandbox, self.market = claude, claude.model, sandbox, market
        self.settings = claude.config / "settings.json"
        self.log = sandbox.home / "started"
        self.log.touch()
        # Not on the PATH: the plugin finds it all the same.
        client = sandbox.home / ".local/bin/handoff"
        client.parent.mkdir(parents=True)
        client.write_text(LOGGING % (self.log, BIN / "handoff"))
        client.chmod(0o755)

    def plugin(self, *given: str) -> str:
        return self.claude.does("plugin", *given)

    def install(self) -> "Installed":
        self.plugin("marketplace", "add", str(self.market))
        self.plugin("install", PLUGIN)
        return self

    def asked(self, prompt: str) -> dict:
        """Begin a session with a prompt, and return the request to the model."""
        self.log.write_text("")
        self.model.will(say("Ok."))
        self.claude.asked(prompt, ENABLE_TOOL_SEARCH="false")
        return self.model.requests[-1]

    def hooks(self) -> list[str]:
        """Return the origins of the hooks of the last session, one per fired hook."""
        started = [line.split(" ", 1) for line in self.log.read_text().splitlines()]
        return [place for command, place in started if command == "hook"]

    def assert_at_work(self) -> None:
        """Check that a session has hooks, tools and commands of the plugin."""
        request = self.asked("/handoffd:open")
        assert "tax rounds per line" in words(request)
        assert {f"{TOOL}{name}" for name in TOOLS} <= tools(request).keys()
        assert len(self.hooks()) >= 3, self.log.read_text()
        assert {str(self.market / "client/plugin")} == set(self.hooks())
        assert "✔ Connected" in self.claude.does("mcp", "list")

    def assert_gone(self) -> None:
        """Check that a session has none of it."""
        request = self.asked("Hello")
        assert [] == [name for name in tools(request) if name.startswith(TOOL)]
        assert "handoffd-context" not in words(request)
        assert "" == self.log.read_text()
        assert "plugin:handoffd" not in self.claude.does("mcp", "list")


@pytest.fixture
def market(tmp_path: Path) -> Path:
    """A marketplace that may be changed."""
    place = tmp_path / "market"
    shutil.copytree(PLACES["installed"], place)
    return place


def left(sandbox: DaemonSandbox, project: Path) -> None:
    """Leave a handoff."""
    done = sandbox.handoff("close", "--done", "tax rounds per line", cwd=project)
    assert 0 == done.returncode, done.stderr


@pytest.mark.both
@pytest.mark.parametrize("place", PLACES)
def test_it_is_valid(version: str, place: str, sandbox: DaemonSandbox, model: Model):
    """The plugin and its marketplace pass the strict check of both versions, wherever they lie."""
    claude = Claude(version, sandbox, model, sandbox.project())
    for directory in (PLACES[place], PLACES[place] / "client/plugin"):
        assert "✔ Validation passed" in claude.does(
            "plugin", "validate", "--strict", str(directory)
        )


def test_it_is_fit_for_a_directory(sandbox: DaemonSandbox, model: Model):
    """The plugin also passes the newer version's checks of a plugin that is to be listed."""
    program("HANDOFFD_TEST_CLAUDE_325")
    claude = Claude("325", sandbox, model, sandbox.project())
    shown = claude.does(
        "plugin", "validate", "--profile", "directory", str(REPOSITORY / "client/plugin")
    )

    assert "✔ Validation passed" in shown


def test_installed_from_the_checkout(claude: Claude, live: DaemonSandbox):
    """From the repository itself: the server connects, hooks fire, and the commands work."""
    left(live, claude.cwd)
    Installed(claude, live, REPOSITORY).install().assert_at_work()


def test_its_life(claude: Claude, live: DaemonSandbox, market: Path):
    """Installed, disabled, enabled, upgraded or removed: all of the plugin is there, or nothing."""
    left(live, claude.cwd)
    found = Installed(claude, live, market).install()
    found.assert_at_work()

    found.plugin("disable", PLUGIN)
    found.assert_gone()
    found.plugin("enable", PLUGIN)
    found.assert_at_work()

    manifest = market / "client/plugin/.claude-plugin/plugin.json"
    manifest.write_text(manifest.read_text().replace(__version__, "99.0.0"))
    found.plugin("marketplace", "update", "handoffd")
    assert f"from {__version__} to 99.0.0" in found.plugin("update", PLUGIN)
    assert "99.0.0" == json.loads(found.plugin("list", "--json"))[0]["version"]
    found.assert_at_work()

    found.plugin("uninstall", PLUGIN)
    found.plugin("marketplace", "remove", "handoffd")
    found.assert_gone()
    assert "handoffd" not in found.settings.read_text()
