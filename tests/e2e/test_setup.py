"""`handoff setup` and `handoff teardown` around the real Claude Code."""

import json

import pytest

from conftest import BIN, DaemonSandbox, wait_for
from e2e.claude import Claude
from e2e.model import say, words
from e2e.terminal import Terminal
from setup_home import SETTINGS, Place

CONTEXT = "<handoffd-context"
GOAL = "Round the tax per line in the invoice module"
SERVERS = {"numStartups": 3, "mcpServers": {"other": {"type": "stdio", "command": "false"}}}


class Home(Place):
    """A HOME in which Claude Code is installed, and handoffd is not yet."""

    def __init__(self, claude: Claude, sandbox: DaemonSandbox):
        super().__init__(sandbox)
        self.claude = claude
        # As most have it: the servers are in ~/.claude.json.
        del claude.environment["CLAUDE_CONFIG_DIR"]
        programs = self.home / ".local/bin"
        programs.mkdir(parents=True)
        (programs / "claude").symlink_to(claude.program)
        (programs / "handoff").symlink_to(BIN / "handoff")
        keep = ("DISABLE", "CLAUDE_CODE")
        quiet = {k: v for k, v in claude.environment.items() if k.startswith(keep)}
        self.environment = {**quiet, "PATH": "/usr/bin:/bin"}

    def starts(self) -> str:
        """Run Claude Code once, and return the first text that the model was told."""
        model = self.claude.model
        model.requests.clear()
        model.will(say("Done."))
        self.claude.asked("Go on")
        return words(model.requests[0])

    def used(self) -> bytes:
        """Make files that Claude Code has seen: it rewrites some settings its own way, once."""
        self.write(self.settings, SETTINGS)
        self.write(self.servers, json.dumps(SERVERS, indent=2))
        self.claude.does("mcp", "list")
        return self.settings.read_bytes()

    def settings_now(self) -> dict:
        return json.loads(self.settings.read_text())

    def servers_now(self) -> dict:
        return json.loads(self.servers.read_text())


@pytest.fixture
def home(claude: Claude, live: DaemonSandbox) -> Home:
    """A project with a past that the daemon knows."""
    session = live.session(claude.cwd)
    session.prompt(GOAL)
    session.say("I will look at src/tax.py first.")
    session.edit(f"{claude.cwd}/src/tax.py")
    wait_for(lambda: live.document(claude.cwd)["goal"] == GOAL, what="the goal is known")
    return Home(claude, live)


@pytest.mark.both
def test_claude_code_is_connected_and_told(home: Home):
    """After setup it says that our server is connected, and a session opens knowing the goal."""
    assert GOAL not in home.starts()

    home.setup()

    program = home.home / ".local/bin/handoff"
    assert f"handoffd: {program} mcp --client code - ✔ Connected" in home.claude.does("mcp", "list")
    told = home.starts()
    assert GOAL in told
    assert 1 == told.count(CONTEXT)


def test_the_status_line(home: Home):
    """If setup was told to, the goal stands below the prompt, beside the former status line."""
    theirs = {"type": "command", "command": "echo mine"}
    home.write(home.settings, json.dumps({"statusLine": theirs}))
    # Without the variable that named their place, the first start's questions are asked again.
    (home.claude.config / ".claude.json").rename(home.servers)
    home.setup("--with", "statusline")
    home.claude.model.will(say("Done."))
    with Terminal(home.claude, "Go on") as terminal:
        terminal.played()
        # Below the box in which is typed.
        terminal.sees(r"(?s)\n❯\s+─+\n(?!.*❯).*mine")
        terminal.sees(rf"(?s)\n❯\s+─+\n(?!.*❯).*{GOAL}")


@pytest.mark.both
def test_nothing_of_ours_is_left(home: Home):
    """After a session and a teardown the files are as before, but for Claude Code's own changes."""
    before = home.used()
    home.setup("--with", "statusline")
    assert GOAL in home.starts()
    rewritten = home.servers_now()

    home.teardown()

    assert before == home.settings.read_bytes()
    assert SERVERS["mcpServers"] == home.servers_now()["mcpServers"]
    del rewritten["mcpServers"]["handoffd"]
    assert rewritten == home.servers_now()
    assert "handoff" not in home.servers.read_text().replace(str(home.home), "")
    assert not (home.home / ".claude/commands").exists()
    assert GOAL not in home.starts()


def test_files_that_were_not_there(home: Home):
    """Claude Code takes up the files that setup makes; after teardown only its own is left."""
    home.setup()
    assert GOAL in home.starts()

    home.teardown()

    assert not home.settings.exists()
    assert "mcpServers" not in home.servers_now()
    assert GOAL not in home.starts()


def test_another_directory_of_claude_code(home: Home):
    """Setup and teardown work in $CLAUDE_CONFIG_DIR as well."""
    config = home.home / "other"
    home.claude.environment["CLAUDE_CONFIG_DIR"] = str(config)
    home.setup(CLAUDE_CONFIG_DIR=str(config))

    assert "✔ Connected" in home.claude.does("mcp", "list")
    assert GOAL in home.starts()
    home.teardown(CLAUDE_CONFIG_DIR=str(config))
    assert not (config / "settings.json").exists()
    assert "mcpServers" not in json.loads((config / ".claude.json").read_text())


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/open", "This project has no handoff yet."),
        ("/conductor-handoff resume nothing", "It says what is wrong"),
        ("/close", "This much is known of the session"),
    ],
)
def test_bare_commands(home: Home, typed: str, said: str):
    """A command is typed by its bare name, its program runs, and the model reads its output."""
    home.setup()
    model = home.claude.model
    model.will(say("Done."))

    home.claude.asked(typed)

    assert said in words(model.requests[0])


def test_the_plugin_instead_of_hooks(home: Home):
    """The plugin brings hooks and MCP; each fires once; teardown removes it by Claude Code."""
    before = home.used()
    home.setup()

    home.setup("--with", "plugin")

    assert {"handoffd@handoffd": True} == home.settings_now()["enabledPlugins"]
    assert json.loads(SETTINGS)["hooks"] == home.settings_now()["hooks"]
    assert "handoffd" not in home.servers_now().get("mcpServers", {})
    assert "plugin:handoffd:" in home.claude.does("mcp", "list")
    assert 1 == home.starts().count(CONTEXT)
    assert "Everything is in place.\n" in home.setup()

    home.teardown()

    assert before == home.settings.read_bytes()
    assert "handoffd" not in home.claude.does("plugin", "list")
    assert "handoffd" not in home.claude.does("plugin", "marketplace", "list")
    assert GOAL not in home.starts()


def test_the_plugin_where_no_settings_were(home: Home):
    """The settings file that Claude Code made for the plugin is removed as well."""
    home.setup("--with", "plugin")
    assert GOAL in home.starts()

    home.teardown()

    assert not home.settings.exists()
