"""`handoff teardown` in a temporary HOME removes setup's entries, and no others, after any kill."""

import json
import os
import shutil

import pytest

from conftest import contents_below, wait_for
from setup_home import HANDOFF, SETTINGS, Killable, Place

ALL = ("--with", "statusline", "--with", "flow", "--write", "none")
SETUP = ("setup", "--yes", "--without", "service", *ALL)


@pytest.fixture
def place(sandbox):
    """A HOME in which Claude Code and Claude Desktop were used."""
    found = Place(sandbox)
    found.write(found.settings, SETTINGS).chmod(0o644)
    found.write(found.servers, '{"numStartups":3,"mcpServers":{"other":{"command":"x"}}}')
    found.write(found.home / ".config/Claude/claude_desktop_config.json", "{\n}\n")
    found.write(found.config, "# mine\n")
    yield found
    found.handoff("down")


@pytest.mark.quick
def test_all_is_as_it_was(place):
    """Every file has its former bytes and mode, new files are gone, and the daemon has ended."""
    before = place.tree()
    place.setup_all(*ALL)
    assert place.sandbox.answers()
    assert len(place.tree()) > len(before)

    said = place.teardown()

    assert before == place.tree()
    assert 3 == place.handoff("status").returncode
    assert not place.noted.parent.exists()
    assert f"rm -r {place.sandbox.state}" in said
    assert "There is nothing that `handoff setup` put in.\n" == place.teardown()


@pytest.mark.quick
def test_an_empty_home_is_empty_again(place):
    """Directories that setup made are removed if they are otherwise empty."""
    for path in (place.settings.parent, place.home / ".config"):
        shutil.rmtree(path)
    place.servers.unlink()
    place.setup(*ALL)
    (place.commands / "mine.md").write_text("")

    place.teardown()

    assert [".claude", ".claude/commands", ".claude/commands/mine.md"] == list(place.tree())


@pytest.mark.quick
def test_a_dry_run_and_nobody_to_ask(place):
    """Without a person to ask, the planned removals are shown and nothing is removed."""
    place.setup(*ALL)
    before = place.tree()

    assert f"+++ {place.settings}" in place.does("teardown", "--dry-run")
    done = place.handoff("teardown")

    assert 4 == done.returncode
    assert "say --yes" in done.stderr
    assert before == place.tree()


def test_a_person_is_asked(place):
    """A no leaves everything; a yes removes it."""
    before = place.tree()
    place.setup()
    after = place.tree()

    assert "Nothing was changed." in place.at_terminal("teardown", answers=[("[Y/n]", "n\n")])[1]
    assert after == place.tree()
    code, screen = place.at_terminal("teardown", answers=[("Take this out? [Y/n]", "y\n")])
    assert 0 == code, screen
    assert before == place.tree()


@pytest.mark.quick
def test_files_that_changed_since_lose_our_entries_only(place):
    """Later changes by others stay, in the file's own indent; our entries go without a trace."""
    line = {"type": "command", "command": "~/line.sh 'a b'", "padding": 0}
    place.settings.write_text(json.dumps({**json.loads(SETTINGS), "statusLine": line}, indent=4))
    place.setup(*ALL)
    for path in (place.settings, place.servers):
        found = json.loads(path.read_text())
        path.write_text(json.dumps({"newer": [1], **found}, indent="\t"))

    place.teardown()

    assert (
        json.dumps({"newer": [1], **json.loads(SETTINGS), "statusLine": line}, indent="\t")
    ) == place.settings.read_text()
    servers = {"newer": [1], "numStartups": 3, "mcpServers": {"other": {"command": "x"}}}
    assert json.dumps(servers, indent="\t") == place.servers.read_text()
    assert 0o644 == place.settings.stat().st_mode & 0o777


def test_a_file_that_was_only_rewritten_gets_its_former_bytes(place):
    """A file that Claude Code only rewrote in its own indent gets its former bytes."""
    place.setup(*ALL)
    place.settings.write_text(json.dumps(json.loads(place.settings.read_text()), indent=2))

    place.teardown()

    assert SETTINGS == place.settings.read_text()


def test_setups_one_after_the_other(place):
    """Teardown after several setups keeps the others' changes between them, and none of ours."""
    place.setup()
    place.settings.write_text(place.settings.read_text().replace("opus", "sonnet"))
    place.setup("--with", "statusline")
    place.setup(*ALL)

    place.teardown()

    assert SETTINGS.replace("opus", "sonnet") == place.settings.read_text()


def test_an_edited_command_stays(place):
    """An edited command counts as a person's: it stays, and that is reported."""
    place.setup()
    path = place.commands / "open.md"
    path.write_text(path.read_text() + "and mine\n")

    said = place.teardown()

    assert f"{path} was changed since, and stays as it is" in said
    assert path.read_text().endswith("and mine\n")


def test_an_edited_configuration_stays(place):
    """An edited configuration is the user's and stays."""
    place.setup("--write", "none")
    place.config.write_text(place.config.read_text() + "[log]\nlevel = 'debug'\n")
    before = place.config.read_text()

    assert f"{place.config} was changed since" in place.teardown()
    assert before == place.config.read_text()


def test_our_entry_in_an_edited_configuration_goes(place):
    """In an edited configuration only the entry that setup wrote is removed."""
    config = str(place.home / "other")
    place.setup("--write", "none", CLAUDE_CONFIG_DIR=config)
    assert config in place.config.read_text()
    place.config.write_text(place.config.read_text() + "[log]\nlevel = 'debug'\n")

    said = place.teardown(CLAUDE_CONFIG_DIR=config)

    assert f"{place.config} was changed since: what else is in it stays." in said
    assert (
        "# mine\n\n[checkpoint]\nwrite = \"none\"\n[log]\nlevel = 'debug'\n"
        == place.config.read_text()
    )


def kept(place) -> str:
    """Return the content of our own state."""
    texts = contents_below(place.sandbox.state).values()
    return "\n".join(text.decode(errors="replace") for text in texts)


@pytest.mark.parametrize(
    "servers",
    [
        '{"history": "mine", "mcpServers": {"other": {"command": "x"}}}',
        '{"history": "mine", "mcpServers": { }}',
        '{\n\t"mcpServers": {\n\t},\n\t"history": "mine ü"\n}\n',
        '{"history": "mine"}',
        "{ }",
        "",
    ],
)
def test_no_copy_of_claude_code_s_memory_is_kept(place, servers):
    """Prompts and keys are not copied, and an unchanged file gets its bytes back."""
    place.write(place.servers, servers)
    place.setup(*ALL)
    assert place.server()
    assert "mine" not in kept(place).replace("# mine", "")
    place.setup("--with", "flow", PATH=str(place.home / ".local/bin"))
    found = place.teardown()

    assert servers == place.servers.read_text()
    assert "is kept" not in found


def test_claude_code_s_memory_that_was_changed_since(place):
    """Teardown leaves no copy of changed memory either, nor a new place for servers."""
    place.write(place.servers, '{"history": "mine"}')
    place.setup(*ALL)
    found = json.loads(place.servers.read_text())
    place.write(place.servers, json.dumps({**found, "more": 1}, indent=2))
    said = place.teardown()

    assert {"history": "mine", "more": 1} == json.loads(place.servers.read_text())
    assert "is kept" not in said
    assert not place.noted.parent.exists()


def test_a_copy_that_was_made_before(place):
    """By notes that name a copy the file gets its bytes back, also after another setup."""
    before = place.servers.read_bytes()
    place.setup(*ALL)
    noted = json.loads(place.noted.read_text())
    record = noted["files"][str(place.servers)]
    place.write(place.noted.parent / "backup/old", before.decode())
    noted["files"][str(place.servers)] = {**record, "backup": "old", "reversals": {}} | {
        "outline": None
    }
    place.noted.write_text(json.dumps(noted))
    place.setup(PATH=str(place.home / ".local/bin"))

    place.teardown()

    assert before == place.servers.read_bytes()
    assert not place.noted.parent.exists()


def test_a_backup_that_stays_is_named(place):
    """The former content of a file is kept only if the file could not be restored."""
    place.setup(*ALL)
    place.settings.write_text(place.settings.read_text().replace("opus", "sonnet"))
    said = place.teardown()
    (path,) = (place.noted.parent / "backup").iterdir()

    assert f"What it was before setup is kept: {path}\n" in said
    assert SETTINGS == path.read_text()


def test_a_link_that_leads_elsewhere_stays(place):
    """A link that leads elsewhere than setup's stays."""
    place.setup("--with", "flow")
    link = place.home / ".local/bin/flow"
    link.unlink()
    link.symlink_to("/bin/true")

    done = place.handoff("teardown", "--yes")

    assert 1 == done.returncode
    assert f"{link} is no longer the link that setup made" in done.stderr
    assert "/bin/true" == os.readlink(link)
    assert SETTINGS == place.settings.read_text()


def test_what_cannot_be_taken_out_is_said_and_the_rest_goes(place):
    """A broken file is left and reported, the rest is removed; a second run finishes later."""
    place.setup(*ALL)
    good = place.settings.read_text()
    place.settings.write_text(good[:-3])

    done = place.handoff("teardown", "--yes")

    assert 1 == done.returncode
    assert f"{place.settings} is broken JSON" in done.stderr
    assert "Run it again when this is mended" in done.stderr
    assert good[:-3] == place.settings.read_text()
    assert place.server() is None
    place.settings.write_text(good)
    place.teardown()
    assert SETTINGS == place.settings.read_text()


def test_a_file_that_is_gone_is_no_problem(place):
    """A file that a person removed is no problem."""
    place.setup(*ALL)
    place.settings.unlink()

    place.teardown()

    assert not place.settings.exists()


def test_without_notes_our_entries_are_known_by_what_they_run(place):
    """Without the state directory, hooks, servers, status line and commands are removed, too."""
    place.write(place.home / ".config/Claude/claude_desktop_config.json", "{}\n")
    before = place.tree()
    place.setup("--with", "statusline")
    shutil.rmtree(place.sandbox.state)

    place.teardown()

    assert {**before, ".claude/commands": place.tree()[".claude/commands"]} == place.tree()
    assert [] == list(place.commands.iterdir())


def test_a_second_setup_without_notes_changes_nothing(place):
    """A second setup without notes finds everything in place."""
    place.setup()
    shutil.rmtree(place.sandbox.state)

    assert "Everything is in place.\n" == place.setup()


def test_notes_that_are_broken(place):
    """Broken notes count as none."""
    place.setup("--without", "commands")
    place.noted.write_text('{"files": 3}')

    place.teardown()

    assert SETTINGS == place.settings.read_text()
    assert place.server() is None


def test_nothing_was_put_in(place):
    """Without a setup teardown says so, and touches nothing."""
    before = place.tree()

    assert "There is nothing that `handoff setup` put in.\n" == place.does("teardown")
    assert before == place.tree()


def test_a_daemon_that_setup_did_not_start_runs_on(place):
    """A daemon that setup did not start runs on, and the command that ends it is named."""
    place.does("up")
    place.setup_all()

    assert "To end it: handoff down" in place.teardown()
    assert place.sandbox.answers()


def test_the_daemon_reads_its_former_configuration(place):
    """A daemon that runs on does not keep the configuration that setup wrote."""
    place.does("up")
    place.setup(CLAUDE_CONFIG_DIR=str(place.home / "other"))
    roots = lambda: [root["path"] for root in place.sandbox.call("status")["roots"]]  # noqa: E731
    wait_for(lambda: f"{place.home}/other/projects" in roots(), what="it is read")

    place.teardown()

    wait_for(lambda: f"{place.home}/other/projects" not in roots(), what="it is no longer read")


@pytest.fixture
def killable(place):
    found = Killable(place)
    yield found
    found.close()


@pytest.mark.parametrize("second", ["", "setup"])
def test_a_setup_that_is_killed_at_any_moment(place, killable, second):
    """After a kill at any step, `teardown` restores everything, also after a second setup."""
    before, number, was_killed = place.tree(), 0, True
    while was_killed:
        number += 1
        was_killed = killable.run(*SETUP, killed_at=number)
        _wait_for_lock(place)
        if second:
            killable.run(*SETUP)
        killable.run("teardown", "--yes")

        assert before == place.tree(), number
        shutil.rmtree(place.sandbox.state, ignore_errors=True)
    assert number > 20


def test_a_teardown_that_is_killed_at_any_moment(place, killable):
    """A second teardown finishes one that was killed at any step."""
    before, number, was_killed = place.tree(), 0, True
    while was_killed:
        number += 1
        killable.run(*SETUP)
        was_killed = killable.run("teardown", "--yes", killed_at=number)
        _wait_for_lock(place)
        killable.run("teardown", "--yes")

        assert before == place.tree(), number
    assert number > 20


def _wait_for_lock(place: Place) -> None:
    """Remove the lock of a killed setup, as Claude Code does after ten seconds."""
    lock = place.home / ".claude.json.lock"
    if lock.exists():
        lock.rmdir()


def test_hooks_are_silent_when_the_client_is_gone(place):
    """If the client is uninstalled before teardown, a session sees no error and no output."""
    import subprocess

    place.setup(CLAUDE_CONFIG_DIR=str(place.home / "other"))
    text = (place.home / "other/settings.json").read_text().replace(HANDOFF, "/missing/handoff")
    command = json.loads(text)["hooks"]["SessionEnd"][0]["hooks"][0]["command"]

    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)

    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
