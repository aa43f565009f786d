"""`handoff setup` in a temporary HOME: the entries it adds, leaves alone and refuses to change."""

import json
import os
import re
import resource
import shlex
import sys
import tomllib

import pytest

from conftest import BIN, wait_for
from setup_home import HANDOFF, SETTINGS, Place

pytestmark = pytest.mark.quick

EVENTS = [
    "SessionStart", "UserPromptSubmit", "PreCompact", "PostCompact", "Notification",
    "PermissionRequest", "SessionEnd",
]  # fmt: skip
COMMAND = f"{shlex.quote(HANDOFF)} hook 2>/dev/null || :"


@pytest.fixture
def place(sandbox):
    """A HOME in which nothing was set up."""
    found = Place(sandbox)
    yield found
    found.handoff("down")


def commands_of(groups: list) -> list[str]:
    return [hook["command"] for group in groups for hook in group["hooks"]]


def test_everything_in_an_empty_home(place):
    """Setup adds hooks, MCP, commands and a running daemon, names the next step, adds no more."""
    said = place.setup_all()

    assert EVENTS == list(place.hooks())
    assert {COMMAND} == {word for groups in place.hooks().values() for word in commands_of(groups)}
    assert {
        "type": "stdio", "command": HANDOFF, "args": ["mcp", "--client", "code"], "env": {},
    } == place.server()  # fmt: skip
    assert place.sandbox.answers()
    assert "does not survive a restart of the machine" in " ".join(said.split())
    assert "Next: start Claude Code in a project" in said
    assert [".claude", ".claude.json", ".local"] == sorted(os.listdir(place.home))
    assert 0o600 == place.settings.stat().st_mode & 0o777


def test_again_nothing_changes(place):
    """A second setup says that all is in place, with a terminal or without, and leaves no trace."""
    place.setup_all()
    before, noted = place.tree(), place.noted.read_text()

    assert "Everything is in place.\n" == place.setup_all()
    assert "Everything is in place.\n" == place.does("setup")
    assert "" == place.does("setup", "--dry-run")
    assert (before, noted) == (place.tree(), place.noted.read_text())


def test_existing_settings_are_merged(place):
    """Other hooks and keys keep their order and their spelling; the old file is kept, 0600."""
    place.write(place.settings, SETTINGS)
    place.settings.chmod(0o644)

    place.setup()

    text = place.settings.read_text()
    assert ["date", COMMAND] == commands_of(place.hooks()["SessionStart"])
    assert '    "permissions": {"allow": ["Bash(ls:*)"]}\n}\n' in text
    assert ["model", "hooks", "permissions"] == list(json.loads(text))
    assert 0o644 == place.settings.stat().st_mode & 0o777
    backup = place.noted.parent / "backup" / json.loads(place.noted.read_text())["files"][
        str(place.settings)]["backup"]  # fmt: skip
    assert SETTINGS == backup.read_text()
    assert 0o600 == backup.stat().st_mode & 0o777


def test_a_dry_run_shows_the_diff_and_changes_nothing(place):
    """A dry run shows each file that would be changed or made, and each action."""
    place.write(place.settings, SETTINGS)
    before = place.tree()

    said = place.does("setup", "--dry-run", "--with", "flow")

    assert f"--- {place.settings}\n+++ {place.settings}\n" in said
    assert f"--- /dev/null\n+++ {place.servers}\n" in said
    assert re.search(rf'(?m)^\+ +"command": "{re.escape(COMMAND)}",$', said)
    assert "* start handoffd in the background: handoff up" in said
    assert f"* link {place.home}/.local/bin/flow to {HANDOFF}" in said
    assert before == place.tree()
    assert not place.sandbox.state.exists()


def test_a_diff_shows_no_more_of_the_surroundings_than_it_takes(place):
    """A diff does not show the keys of other servers."""
    servers = {"mcpServers": {"other": {"command": "x", "env": {"KEY": "secret-of-theirs"}}}}
    place.write(place.servers, json.dumps(servers, indent=2))

    said = place.does("setup", "--dry-run")

    assert f"+++ {place.servers}" in said
    assert "secret-of-theirs" not in said


@pytest.mark.slow
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("end", [{}, {"apiKey": "theirs-2"}])
def test_a_secret_is_not_shown(place, indent, end):
    """A secret on our line, or before or after it, is not shown, at setup and at teardown."""
    line = {"type": "command", "command": "~/line.sh"}
    settings = {"env": {"TOKEN": "theirs-1"}, "statusLine": line, **end}
    place.write(place.settings, json.dumps(settings, indent=indent))
    place.write(place.servers, json.dumps({"primaryApiKey": "theirs-3"}, indent=indent))
    shown = [place.does("setup", "--dry-run", "--with", "statusline")]
    shown.append(place.setup("--with", "statusline"))
    place.settings.write_text(json.dumps(json.loads(place.settings.read_text()), indent="\t"))
    shown.append(place.does("teardown", "--dry-run"))
    shown.append(place.teardown())

    assert all(COMMAND in said for said in shown)
    assert all("~/line.sh" in said for said in shown)
    assert all("theirs" not in said for said in shown)
    assert json.dumps(settings, indent=indent) == place.settings.read_text()


def test_a_secret_in_a_broken_file_is_not_shown(place):
    """Content that cannot be merged is not shown; the entries to add by hand are shown."""
    for text in ('{"env": {"TOKEN": "theirs"},}', '{"hooks": [], "env": {"TOKEN": "theirs"}}'):
        place.write(place.settings, text)
        said = place.handoff("setup", "--dry-run")

        assert COMMAND in said.stdout
        assert "theirs" not in said.stdout + said.stderr


def test_nobody_there_to_ask(place):
    """Without a terminal and without --yes setup shows the diff, and names the next command."""
    before = place.tree()

    done = place.handoff("setup")

    assert 4 == done.returncode
    assert "say --yes" in done.stderr
    assert f"+++ {place.settings}" in done.stdout
    assert before == place.tree()


def test_a_person_is_asked(place):
    """A person is asked for the place, for the optional parts, and for consent."""
    code, screen = place.at_terminal(
        "setup",
        answers=[
            ("marked or none? [marked]", "none\n"),
            ("status line? [y/N]", "y\n"),
            ("`flow inject`? [y/N]", "\n"),
            ("Do this? [Y/n]", "\n"),
        ],
    )

    assert 0 == code, screen
    assert "Next: start Claude Code" in screen
    assert {"checkpoint": {"write": "none"}} == tomllib.loads(place.config.read_text())
    assert "statusLine" in json.loads(place.settings.read_text())
    assert not (place.home / ".local/bin/flow").exists()
    assert place.sandbox.answers()


def test_a_person_says_no(place):
    """After a no, or at the end of the answers, nothing is changed."""
    answers = [("marked or none?", "\n"), ("status line?", "n\n"), ("`flow inject`?", "n\n")]
    for last in ("n\n", "\x04"):
        code, screen = place.at_terminal("setup", answers=[*answers, ("Do this?", last)])

        assert 0 == code
        assert "Nothing was changed." in screen
        assert {} == place.tree()


def test_what_is_said_on_the_command_line_is_not_asked(place):
    """Questions answered on the command line, and parts already in place, are not asked about."""
    place.setup("--write", "none", "--with", "statusline", "--with", "flow")

    code, screen = place.at_terminal("setup", "--write", "none", "--without", "service", answers=[])

    assert (0, "Everything is in place.\n") == (code, screen)


def test_a_file_that_changes_while_a_person_reads(place):
    """The agreed change is made to the file as it is then; if it no longer fits, none is made."""
    place.write(place.settings, SETTINGS)
    words = ("setup", "--write", "marked", "--without", "service")
    answers = [("status line?", "n\n"), ("`flow inject`?", "n\n"), ("Do this?", "")]

    def changing(text: str):
        def change() -> str:
            place.settings.write_text(text)
            return "\n"

        return change

    elsewhere = SETTINGS.replace("opus", "sonnet")
    assert 0 == run_changing(place, words, answers, changing(elsewhere))[0]
    assert '"sonnet"' in place.settings.read_text()
    assert COMMAND in place.settings.read_text()

    place.teardown()
    code, screen = run_changing(place, words, answers, changing('{"hooks": {"Stop": []}}'))
    assert 1 == code
    assert "changed meanwhile; nothing was done" in screen
    assert '{"hooks": {"Stop": []}}' == place.settings.read_text()
    assert not place.servers.exists()


def run_changing(place, words, answers, change):
    """Answer the last question only after something was changed."""

    class Late(str):
        __slots__ = ()

        def encode(self, *_given) -> bytes:
            return change().encode()

    *first, (question, _) = answers
    return place.at_terminal(*words, answers=[*first, (question, Late())])


def test_parts_can_be_left_out(place):
    """A part that is left out is not touched."""
    place.setup("--without", "hooks", "--without", "commands")

    assert [".claude.json", ".local"] == sorted(os.listdir(place.home))
    assert 3 == place.handoff("status").returncode


def test_parts_can_be_added_later(place):
    """Only the parts that are added later are installed then."""
    place.setup()
    before = place.tree()

    said = place.setup("--with", "statusline")

    assert ["---", "+++"] == [line[:3] for line in said.splitlines() if "settings.json" in line]
    changed = {name for name, found in place.tree().items() if before.get(name) != found}
    assert {".claude/settings.json"} == changed


def test_a_part_cannot_be_wanted_and_not(place):
    """A part that is both wanted and not wanted is an error."""
    assert "--with and --without flow" in place.refuses("--with", "flow", "--without", "flow")


def test_a_part_that_there_is_not(place):
    """An unknown part is an error that lists the known ones."""
    done = place.handoff("setup", "--with", "nonsense")

    assert 2 == done.returncode
    assert "statusline" in done.stderr


def test_another_directory_of_claude_code(place):
    """$CLAUDE_CONFIG_DIR is respected, and is configured for the service, which does not see it."""
    config = place.home / "work claude"
    place.write(place.config, "# mine\n[log]\nlevel = 'info'\n")

    place.setup_all(CLAUDE_CONFIG_DIR=str(config))

    assert EVENTS == list(json.loads((config / "settings.json").read_text())["hooks"])
    assert (
        HANDOFF
        == json.loads((config / ".claude.json").read_text())["mcpServers"]["handoffd"]["command"]
    )
    assert not (place.home / ".claude").exists()
    assert not place.servers.exists()
    assert place.config.read_text().startswith("# mine\n[log]\nlevel = 'info'\n")
    assert [str(config)] == tomllib.loads(place.config.read_text())["claude"]["config_dirs"]
    assert f"{config}/projects" in [root["path"] for root in place.sandbox.call("status")["roots"]]


def test_a_running_daemon_takes_up_the_configuration(place):
    """A running daemon reads the new place of Claude Code's files at once."""
    place.setup_all()
    config = place.home / "other"
    config.mkdir()

    place.setup_all(CLAUDE_CONFIG_DIR=str(config))

    wait_for(
        lambda: f"{config}/projects" in [r["path"] for r in place.sandbox.call("status")["roots"]],
        what="the directory is read",
    )


def test_the_file_of_an_old_installation(place):
    """Claude Code keeps its servers in ~/.claude/.config.json where that file is."""
    old = place.write(place.home / ".claude/.config.json", "{}")

    place.setup()

    assert "handoffd" in json.loads(old.read_text())["mcpServers"]
    assert not place.servers.exists()


def test_a_server_of_somebody_else_s_stays(place):
    """A foreign server entry stays and is reported, unless the client that it runs is gone."""
    other = place.program("handoff", "exit 0")
    text = json.dumps({"mcpServers": {"handoffd": {"command": str(other), "args": ["mcp"]}}})
    place.write(place.servers, text)

    said = place.setup()

    assert "of somebody else's, which stays" in said
    assert text == place.servers.read_text()
    assert EVENTS == list(place.hooks())
    other.unlink()
    place.setup()
    assert HANDOFF == place.server()["command"]


def test_claude_desktop_if_it_is_there(place):
    """Claude Desktop's configuration gets a server for Chat; a missing one is not made."""
    desktop = place.home / ".config/Claude/claude_desktop_config.json"
    place.setup()
    assert not desktop.exists()
    place.write(desktop, '{"globalShortcut": ""}\n')

    place.setup()

    found = json.loads(desktop.read_text())
    assert {"command": HANDOFF, "args": ["mcp"]} == found["mcpServers"]["handoffd"]
    assert "" == found["globalShortcut"]


def test_commands_name_the_program(place):
    """The commands run the program by its path, because Claude Code may have another PATH."""
    place.setup(PATH=str(BIN))
    path, track = place.commands / "open.md", place.commands / "conductor-handoff.md"
    assert f"!`{HANDOFF} slash open" in path.read_text()
    assert f"Bash(handoff review:*), Bash({HANDOFF} review:*)\n" in path.read_text()
    assert f"\n{HANDOFF} slash conductor-handoff - " in track.read_text()


def test_a_command_of_the_user_s_stays(place):
    """A command of the user's stays, and so does one of setup's that a person edited."""
    mine = place.write(place.commands / "open.md", "mine\n")

    assert f"{mine} is not setup's, and stays as it is" in place.setup()
    assert "mine\n" == mine.read_text()

    mine.unlink()
    place.setup()
    mine.write_text(mine.read_text() + "and mine\n")
    assert f"{mine} is not setup's, and stays as it is" in place.setup()
    assert mine.read_text().endswith("and mine\n")


@pytest.mark.parametrize("name", ["open", "close"])
def test_a_skill_of_the_same_name_is_said(place, name):
    """Claude Code runs a skill before a command of its name, so setup says that ours is shadowed."""
    skill = place.home / f".claude/skills/{name}"
    place.write(skill / "SKILL.md", "---\ndescription: mine\n---\n")
    said = place.does("setup", "--dry-run")

    assert f"{skill} is a skill of the same name, and /{name} runs it" in said
    assert 1 == said.count("of the same name")


def test_a_plugin_s_command_of_the_same_name_is_said(place):
    """Other installed plugins with an /open or /close are named; ours and broken notes are not."""
    other, ours = place.home / "p/bon", place.home / "p/ours"
    place.write(other / "skills/open/SKILL.md", "x")
    place.write(ours / "commands/open.md", "x")
    plugins = {
        "bon@shop": [{"installPath": str(other)}],
        "handoffd@handoffd": [{"installPath": str(ours)}],
        "odd@shop": 1,
        "older@shop": {"installPath": None},
    }
    place.write(
        place.home / ".claude/plugins/installed_plugins.json", json.dumps({"plugins": plugins})
    )
    said = place.does("setup", "--dry-run")

    assert ["bon@shop"] == re.findall(r"The plugin (\S+) has a /open, too", said)


def test_the_status_line_beside_the_user_s(place):
    """The user's status line is kept as an argument, with its other keys."""
    line = {"type": "command", "command": "~/line.sh 'a b'", "padding": 0}
    place.write(place.settings, json.dumps({"statusLine": line}))

    place.setup("--with", "statusline")

    found = json.loads(place.settings.read_text())["statusLine"]
    assert 0 == found["padding"]
    assert [HANDOFF, "statusline", "--beside", "~/line.sh 'a b'"] == shlex.split(found["command"])


def test_a_status_line_that_ours_cannot_be_beside(place):
    """A status line that ours cannot be beside stays, and the rest is done."""
    place.write(place.settings, '{"statusLine": "text"}')

    said = place.setup("--with", "statusline")

    assert "statusLine" in said
    assert "text" == json.loads(place.settings.read_text())["statusLine"]
    assert EVENTS == list(place.hooks())


def test_the_link_flow(place):
    """The link `flow` is made beside the `handoff` that is on PATH, and it works."""
    programs = place.home / "bin"
    programs.mkdir()
    (programs / "handoff").symlink_to(HANDOFF)

    place.setup("--with", "flow", PATH=f"{programs}:/usr/bin:/bin")

    assert "handoff" == os.readlink(programs / "flow")
    done = place.sandbox.handoff(
        "save", "-m", "x", cwd=place.sandbox.project(), program=programs / "flow"
    )
    assert 0 == done.returncode, done.stderr


def test_another_program_flow_stays(place):
    """Another program `flow` stays, on the PATH or in the link's place."""
    other = place.program("flow", "exit 0")

    assert f"{other} is another program" in place.setup("--with", "flow")
    assert not (place.home / ".local/bin/flow").exists()

    other.unlink()
    there = place.write(place.home / ".local/bin/flow", "")
    assert f"{there} is there already" in place.setup("--with", "flow")


def test_the_path_that_lasts_is_written(place):
    """A link in ~/.local/bin survives an upgrade, so it is the path that settings get."""
    link = place.home / ".local/bin/handoff"
    link.parent.mkdir(parents=True)
    link.symlink_to(HANDOFF)

    place.setup()

    assert str(link) == place.server()["command"]


def test_hooks_that_tell_the_same_are_pointed_out(place):
    """Hooks of an installation by hand that tell the same are reported."""
    hook = {"hooks": [{"type": "command", "command": "~/.local/bin/handoff inject"}]}
    place.write(place.settings, json.dumps({"hooks": {"SessionStart": [hook]}}))

    assert "`handoff inject`, which tell a session the same" in place.setup()


# Impossible cases


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{\n  "a": 1,\n}',
            "is broken JSON: Expecting property name enclosed in double quotes: line 3",
        ),
        ('{"x": NaN}', "is broken JSON: NaN is no JSON"),
        ('{"x": [-Infinity]}', "is broken JSON: -Infinity is no JSON"),
        ("\ufeff{}", "is broken JSON: Unexpected UTF-8 BOM"),
        ('{"x": %s}' % ("1" * 10_000), "is broken JSON: Exceeds the limit (4300 digits)"),
        ("[]", "it is no JSON object"),
        ('{"hooks": {}, "hooks": 7}', "`hooks` is no object"),
        ('{"hooks": []}', "`hooks` is no object"),
        ('{"hooks": {"SessionStart": {}}}', "`hooks.SessionStart` is no list"),
    ],
)
def test_settings_that_cannot_be_merged(place, text, said):
    """The file is named, with its fault and a remedy.

    A dry run shows the entries to add by hand.
    """
    place.write(place.settings, text)

    told = place.refuses()

    assert f"{place.settings}" in told
    assert said in told
    assert "--without hooks" in told
    done = place.handoff("setup", "--dry-run")
    assert 1 == done.returncode
    assert f'"command": "{COMMAND}"' in done.stdout
    place.setup("--without", "hooks")
    assert text == place.settings.read_text()


ODD = (
    '{"hooks": null, "mcpServers": null, "statusLine": null}',
    '{"hooks": {"SessionStart": null}, "x": 1e999}',
    '{"hooks": [], "hooks": {}}',
    '{"\\udfff": "\\ud800", "statusLine": {"type": "command", "command": "echo \\ud83d"}}',
    "",
)


@pytest.mark.parametrize("text", ODD)
def test_odd_settings_are_merged(place, text):
    """Nulls, lone surrogates, a key twice and an empty file are kept by setup and by teardown."""
    for path in (place.settings, place.servers):
        place.write(path, text)
    place.setup("--with", "statusline")

    settings = json.loads(place.settings.read_text())
    assert COMMAND in json.dumps(settings["hooks"]["SessionStart"])
    assert place.server()
    assert "statusline" in settings["statusLine"]["command"]
    done = place.handoff("teardown", "--yes")
    assert 0 == done.returncode, done.stderr
    assert [text, text] == [path.read_text() for path in (place.settings, place.servers)]


def test_settings_that_break_after_setup(place):
    """Teardown names a file that is no longer JSON, and leaves it as it is."""
    place.setup()
    place.settings.write_text(broken := place.settings.read_text().replace("{", '{"x": NaN, ', 1))
    done = place.handoff("teardown", "--yes")

    assert f"{place.settings} is broken JSON: NaN is no JSON" in done.stderr
    assert "Traceback" not in done.stderr
    assert broken == place.settings.read_text()


def test_settings_that_are_a_link(place):
    """A dotfiles manager's links are followed and reported; teardown restores the files."""
    files = {place.settings: SETTINGS, place.servers: '{"mcpServers": {}}\n'}
    reals = {path: place.home / "dotfiles" / path.name.lstrip(".") for path in files}
    for path, text in files.items():
        place.write(reals[path], text)
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(reals[path])

    said = place.setup()

    for path, real in reals.items():
        assert f"Note: {path} is a link: {real} is changed, and the link stays." in said
        assert "handoff" in real.read_text()
    done = place.handoff("teardown", "--yes")
    assert 0 == done.returncode, done.stderr
    assert f"Note: {place.settings} is a link: {reals[place.settings]} is changed" in done.stdout
    assert list(files.values()) == [real.read_text() for real in reals.values()]
    assert [str(real) for real in reals.values()] == [os.readlink(path) for path in files]
    assert sorted(reals.values()) == sorted((place.home / "dotfiles").iterdir())


def test_settings_that_are_a_link_to_a_shared_place(place):
    """A link to a place that others can write is not followed, and nothing is changed."""
    real = place.write(place.home / "shared/settings.json", SETTINGS)
    real.parent.chmod(0o777)
    place.settings.parent.mkdir()
    place.settings.symlink_to(real)

    told = place.refuses()

    assert f"{place.settings} leads by a link to {real}, and others can write" in told
    assert "--without hooks" in told


def test_settings_that_are_read_only(place):
    """A file without any write bit is refused as read-only for every user."""
    place.write(place.settings, SETTINGS).chmod(0o444)

    assert f"{place.settings} is read-only." in place.refuses()


def test_a_directory_that_is_read_only(place):
    """In a read-only directory no file can be made."""
    place.settings.parent.mkdir()
    place.settings.parent.chmod(0o555)

    assert f"Nothing can be made in {place.settings.parent}" in place.refuses()
    place.settings.parent.chmod(0o755)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_something_else_in_place_of_the_settings(place, make):
    """A FIFO in place of the settings does not block setup."""
    place.settings.parent.mkdir()
    make(place.settings)

    before = sorted(os.listdir(place.home))
    done = place.handoff("setup", "--yes")

    assert 1 == done.returncode
    assert f"{place.settings} is no file." in done.stderr
    assert before == sorted(os.listdir(place.home))


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="gives a file to another user, which only root may do: run the tests as root",
)
def test_another_user_s_settings(place):
    """Another user's settings are named with their owner."""
    os.chown(place.write(place.settings, SETTINGS), 61000, 61000)

    assert "another user (id 61000)" in place.refuses()


def test_a_second_file_s_problem_keeps_the_first_from_being_changed(place):
    """All files are checked before any is changed."""
    place.write(place.settings, SETTINGS)
    place.write(place.servers, "{")

    assert f"{place.servers} is broken JSON" in place.refuses()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[checkpoint", "The configuration is broken"),
        ("[checkpoint]\nwrite = 'everywhere'\n", "The configuration is broken"),
        ("checkpoint = { write = 'marked' }\n", "cannot be set without rewriting"),
    ],
)
def test_a_configuration_that_cannot_be_set(place, text, said):
    """A configuration that cannot be set is left, and so is all the rest."""
    place.write(place.config, text)

    assert said in place.refuses("--write", "none")


def test_where_to_write_is_set_by_its_line(place):
    """The line is written only if it differs from the value in force; comments stay."""
    text = "# mine\n[checkpoint]\nwrite_tracked = true # yes\n"
    place.write(place.config, text)

    place.setup("--write", "marked")
    assert text == place.config.read_text()

    place.setup("--write", "none")
    assert (
        '# mine\n[checkpoint]\nwrite = "none"\nwrite_tracked = true # yes\n'
        == place.config.read_text()
    )


def test_a_failure_half_way_is_undone(place):
    """If a program fails after files were written and the daemon started, all is undone."""
    place.write(place.settings, SETTINGS)
    place.program("handoff", "exit 0")
    place.program("claude", 'case "$*" in *install*) echo broken >&2; exit 1;; esac')

    told = place.refuses("--with", "plugin", "--with", "statusline", "--write", "none")

    assert "`claude plugin install handoffd@handoffd` failed.\nbroken\n" in told
    assert "What was done before that was undone; nothing has changed." in told
    assert 3 == place.handoff("status").returncode
    assert not place.noted.exists()
    assert "nothing that `handoff setup` put in" in place.does("teardown")


def test_secrets_in_words_of_claude_code_are_masked(place):
    """A token in an error message of Claude Code's program is not shown."""
    token = "ghp_" + "b7Xq2LmZ9rTn4KdVw8YhPc3sJf6GaEu1oBiR"
    place.program("handoff", "exit 0")
    place.program("claude", f"echo 'no access with {token}' >&2; exit 1")

    told = place.refuses("--with", "plugin", "--without", "service")

    assert token not in told
    assert "no access with [redacted:" in told


# The changes that Claude Code makes to its files when a marketplace is added and removed.
SCRIPTED_CLAUDE = """
import json, os, sys
config = os.environ["HOME"] + "/.claude"
os.makedirs(config + "/plugins", exist_ok=True)
words = sys.argv[2:]
path = config + "/settings.json"
settings = json.load(open(path)) if os.path.exists(path) else {}
if words[0] == "install":
    sys.exit("no space left")
known = {"handoffd": {}} if words[1] == "add" else {}
settings["extraKnownMarketplaces"] = known
json.dump(settings, open(path, "w"), indent=2)
json.dump(known, open(config + "/plugins/known_marketplaces.json", "w"))
"""


@pytest.mark.parametrize("had_settings", [True, False])
def test_a_plugin_that_cannot_be_installed_leaves_nothing(place, had_settings):
    """Claude Code's rewritten settings get their former bytes if the plugin cannot be installed."""
    place.program("handoff", "exit 0")
    script = place.write(place.home / "bin/claude.py", SCRIPTED_CLAUDE)
    place.program("claude", f'exec {shlex.quote(sys.executable)} {script} "$@"')
    if had_settings:
        place.write(place.settings, SETTINGS)
        place.setup()
    before = place.tree()

    done = place.handoff("setup", "--yes", "--without", "service", "--with", "plugin")

    assert 1 == done.returncode
    assert "no space left" in done.stderr
    assert "nothing has changed" in done.stderr
    left = {name: found for name, found in place.tree().items() if "plugins" not in name}
    assert before == {
        name: found for name, found in left.items() if had_settings or name != ".claude"
    }


def test_a_disk_that_is_full(place):
    """On a full disk everything stays as it was, and the reason is given."""
    place.write(place.settings, json.dumps({"long": "x" * 200_000}, indent=2))
    before = place.tree()
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # noqa: E731

    done = place.sandbox.handoff(
        "setup", "--yes", "--without", "service", env=place.environment, preexec_fn=limit
    )

    assert 1 == done.returncode
    assert "File too large" in done.stderr
    assert "nothing has changed" in done.stderr
    assert before == place.tree()


def test_a_claude_that_hangs_is_not_waited_for(place, monkeypatch):
    """The run of the plugin's program is limited in time."""
    from handoff.common.errors import HandoffError
    from handoff.setup import plugin

    monkeypatch.setattr(plugin, "CLAUDE_SECONDS", 0.2)
    hanging = place.program("claude", "exec sleep 30")

    with pytest.raises(HandoffError, match="did not end within"):
        plugin.run(str(hanging), str(place.home), "install", "x")


def test_the_plugin_without_claude_code(place):
    """The absence of `claude` is reported, with an alternative that does the same."""
    place.program("handoff", "exit 0")

    told = place.refuses("--with", "plugin")

    assert "`claude` is not on PATH" in told
    assert "hooks and MCP do the same" in told


def test_the_plugin_where_it_would_not_find_the_client(place):
    """The plugin's hooks look on PATH and in ~/.local/bin; without the client setup refuses."""
    place.program("claude", "exit 0")

    told = place.refuses("--with", "plugin")

    assert "it is in neither" in told
    assert f"ln -s {HANDOFF}" in told


def test_an_enabled_plugin_brings_hooks_and_mcp(place):
    """With the plugin, our hooks and MCP entry are left out or removed, so nothing fires twice."""
    place.write(place.settings, SETTINGS)
    place.setup("--with", "statusline")
    settings = json.loads(place.settings.read_text())
    settings["enabledPlugins"] = {"handoffd@handoffd": True}
    place.settings.write_text(json.dumps(settings, indent=2))

    said = place.setup()

    assert "so that nothing fires twice" in said
    assert ["date"] == commands_of(place.hooks()["SessionStart"])
    assert ["SessionStart"] == list(place.hooks())
    assert place.server() is None
    assert "statusLine" in json.loads(place.settings.read_text())


def test_two_at_once(place):
    """A second setup at the same time says that the first is at work."""
    import fcntl

    place.setup("--without", "hooks")
    with (place.noted.parent / "lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)

        assert "is at work" in place.refuses()


def test_words_of_others_never_run(place, sandbox):
    """A HOME with a quote, a dollar and a space in its path is only a path."""
    odd = place.home / "o'dd $(touch gone) `x` & y"
    odd.mkdir()
    link = odd / ".local/bin/handoff"
    link.parent.mkdir(parents=True)
    link.symlink_to(HANDOFF)

    place.setup("--with", "statusline", HOME=str(odd))

    settings = json.loads((odd / ".claude/settings.json").read_text())
    command = settings["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    assert [str(link), "hook"] == shlex.split(command)[:2]
    assert [str(link), "statusline"] == shlex.split(settings["statusLine"]["command"])
    assert "Everything is in place.\n" == place.setup("--with", "statusline", HOME=str(odd))
    place.teardown(HOME=str(odd))
    assert not (odd / ".claude").exists()
    assert not list(place.home.rglob("gone"))
