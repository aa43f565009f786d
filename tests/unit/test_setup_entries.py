"""Our entries in Claude's files: added beside others', recognised, removed."""

import json

import pytest

from handoff.common import json_edit
from handoff.setup import claude_entries

PROGRAM = "/home/ann/my tools/handoff"
COMMAND = "'/home/ann/my tools/handoff' hook 2>/dev/null || :"
GROUP = {"hooks": [{"type": "command", "command": COMMAND, "timeout": 5}]}
WANTED = {
    "SessionStart": [GROUP],
    "Notification": [{"matcher": "permission_prompt", **GROUP}],
}
THEIRS = """{
    "model": "opus",
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "SessionStart": [
            {"matcher": "startup", "hooks": [{"type": "command", "command": "date"}]}
        ]
    },
    "zeta": 1e3
}
"""


def test_the_command_ends_well_without_the_client():
    """The path is quoted, and the command succeeds if the client was uninstalled."""
    assert COMMAND == claude_entries.hook_command(PROGRAM)


def test_the_definition_is_the_plugin_s_with_another_command():
    """The matcher and the timeout of the plugin's definition stay."""
    shipped = {
        "E": [{"matcher": "m", "hooks": [{"type": "command", "command": "x", "timeout": 5}]}]
    }

    assert {
        "E": [{"matcher": "m", "hooks": [{"type": "command", "command": "y", "timeout": 5}]}]
    } == claude_entries.with_command(shipped, "y")


def test_hooks_go_beside_those_that_are_there():
    """Others' hooks, their order and their spelling stay, and a second time changes nothing."""
    new = claude_entries.put_hooks(THEIRS, WANTED)
    found = json.loads(new)

    assert ["model", "hooks", "zeta"] == list(found)
    assert ["Stop", "SessionStart", "Notification"] == list(found["hooks"])
    assert [json.loads(THEIRS)["hooks"]["SessionStart"][0], GROUP] == found["hooks"]["SessionStart"]
    assert WANTED["Notification"] == found["hooks"]["Notification"]
    kept = [line.rstrip(",") for line in THEIRS.splitlines()]
    assert [] == [line for line in kept if line not in [n.rstrip(",") for n in new.splitlines()]]
    assert new == claude_entries.put_hooks(new, WANTED)
    assert THEIRS == claude_entries.take_all(new, THEIRS)


def test_hooks_of_another_installation_are_replaced():
    """Our hooks with another path are removed, also from an event that we no longer use."""
    old = claude_entries.with_command(
        {**WANTED, "Stop": [GROUP]}, "/old/handoff hook 2>/dev/null || :"
    )
    text = claude_entries.put_hooks("", old)

    found = json.loads(claude_entries.put_hooks(text, WANTED))["hooks"]

    assert {**WANTED, "Stop": []} == found


def test_a_group_that_others_use_too_loses_only_our_hook():
    """A person's hook in our group stays."""
    mixed = {"hooks": [*GROUP["hooks"], {"type": "command", "command": "date"}]}
    text = json.dumps({"hooks": {"SessionStart": [mixed]}}, indent=2)

    found = json.loads(claude_entries.take_all(text, ""))

    assert {"hooks": {"SessionStart": [{"hooks": [mixed["hooks"][1]]}]}} == found


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        (COMMAND, True),
        ("/usr/bin/handoff hook 2>/dev/null || :", True),
        ("handoff hook", True),
        ('PATH="$PATH:$HOME/.local/bin" handoff hook 2>/dev/null; exit 0', True),
        ("'/my hooks/handoff' hook", True),
        ("/usr/bin/my-handoff hook", False),
        ("handoff inject", False),
        ("logger x; handoff hook", False),
        ("handoff hook; rm -r /tmp/x", False),
        ("handoff hooks", False),
        ("'unclosed handoff hook", False),
        (None, False),
    ],
)
def test_our_hook_is_known_by_its_command(command, is_ours):
    """A command that does more than ours is not our hook."""
    assert is_ours == claude_entries.is_our_hook({"type": "command", "command": command})


@pytest.mark.parametrize("text", ['{"hooks": []}', '{"hooks": {"SessionStart": {}}}'])
def test_hooks_of_a_wrong_type_are_refused(text):
    """Hooks of a wrong type are refused: Claude Code would not run them."""
    with pytest.raises(claude_entries.ShapeError, match="`hooks"):
        claude_entries.put_hooks(text, WANTED)


@pytest.mark.parametrize(
    "text", ['{"hooks": [1]}', '{"hooks": {"Stop": 1}}', '{"hooks": {"Stop": [1, {"hooks": 2}]}}']
)
def test_taking_out_passes_over_what_is_no_hook(text):
    """Entries that are no hooks are left alone."""
    assert text == claude_entries.take_all(text, "")


def test_empty_lists_that_were_there_before_stay():
    """A list or object that became empty is removed only if it was not there before."""
    before = '{"hooks": {"SessionStart": []}, "mcpServers": {}}'
    new = claude_entries.put_server(
        claude_entries.put_hooks(before, WANTED), claude_entries.server(PROGRAM, code=True)
    )
    changed = json_edit.put(new, ("model",), "opus")

    found = json.loads(claude_entries.take_all(changed, before))

    assert {**json.loads(before), "model": "opus"} == found
    assert {"model": "opus"} == json.loads(claude_entries.take_all(changed, ""))


def test_a_file_that_was_rewritten_but_says_the_same_gets_its_former_text():
    """If only another program's indent and order differ, the former text is restored."""
    new = json.loads(claude_entries.put_hooks(THEIRS, WANTED))
    rewritten = json.dumps(dict(reversed(new.items())))

    assert THEIRS == claude_entries.take_all(rewritten, THEIRS)


def test_what_the_plugin_leaves_behind_goes():
    """The two empty objects that Claude Code leaves are removed; others' plugins stay."""
    left = '{"model": "opus", "enabledPlugins": {}, "extraKnownMarketplaces": {"x": {}}}'

    assert '{"model": "opus", "extraKnownMarketplaces": {"x": {}}}' == claude_entries.take_all(
        left, '{"model": "opus"}', plugin=True
    )
    assert left == claude_entries.take_all(left, '{"model": "opus"}')


def test_servers_are_spelt_as_claude_spells_them():
    """Code's entry equals that of `claude mcp add --scope user`; Desktop's has no type."""
    code = {"type": "stdio", "command": "/h", "args": ["mcp", "--client", "code"], "env": {}}

    assert code == claude_entries.server("/h", code=True)
    assert {"command": "/h", "args": ["mcp"]} == claude_entries.server("/h", code=False)


@pytest.mark.parametrize(
    ("entry", "is_ours"),
    [
        (claude_entries.server("/x/handoff", code=True), True),
        (claude_entries.server("/x/handoff", code=False), True),
        ({"command": "/x/handoff", "args": ["mcp", "--more"]}, False),
        ({"command": "/x/other", "args": ["mcp"]}, False),
        ({"type": "http", "url": "http://127.0.0.1:8377/mcp"}, False),
        ([], False),
    ],
)
def test_our_server_is_known_by_what_it_runs(entry, is_ours):
    """Another server with our name stays."""
    text = json.dumps({"mcpServers": {"handoffd": entry, "other": {}}})

    assert is_ours == claude_entries.has_our_server(text)
    assert is_ours == ("handoffd" not in json.loads(claude_entries.take_server(text))["mcpServers"])


@pytest.mark.parametrize(
    "theirs", [None, "~/bin/line.sh", "printf '%s' \"$(cat)\"", "a 'b' \"c\" $d `e`\n"]
)
def test_their_status_line_is_shown_beside_ours_and_comes_back(theirs):
    """A user's command of any form is kept with its other keys, and never nested twice."""
    line = {"type": "command", "command": theirs, "padding": 0}
    text = json.dumps({} if theirs is None else {"statusLine": line})

    new = claude_entries.put_status_line(text, PROGRAM)
    found = json.loads(new)["statusLine"]

    assert found["command"].startswith("'/home/ann/my tools/handoff' statusline")
    assert (theirs or "") == claude_entries.command_beside(found["command"])
    assert theirs is None or found["padding"] == 0
    assert new == claude_entries.put_status_line(new, PROGRAM)
    assert text == claude_entries.take_all(new, text)
    assert json.loads(text) == json.loads(claude_entries.take_status_line(new))


def test_a_status_line_of_another_installation_is_replaced():
    """The path is replaced, and the user's own command is kept."""
    text = claude_entries.put_status_line(
        '{"statusLine": {"type": "command", "command": "x y"}}', "/old/handoff"
    )

    command = json.loads(claude_entries.put_status_line(text, "/new/handoff"))["statusLine"][
        "command"
    ]

    assert "/new/handoff statusline --beside 'x y'" == command


@pytest.mark.parametrize(
    "line", ["text", {"type": "static", "command": "x"}, {"type": "command"}, []]
)
def test_a_status_line_of_another_kind_is_refused(line):
    """A status line of another kind is refused, because ours cannot be shown beside it."""
    with pytest.raises(claude_entries.ShapeError, match="statusLine"):
        claude_entries.put_status_line(json.dumps({"statusLine": line}), PROGRAM)


def test_an_enabled_plugin_is_seen():
    """A plugin is enabled only by the value `true`."""
    assert claude_entries.plugin_is_enabled('{"enabledPlugins": {"handoffd@handoffd": true}}')
    for text in ("", '{"enabledPlugins": {"handoffd@handoffd": false}}', '{"enabledPlugins": []}'):
        assert not claude_entries.plugin_is_enabled(text)
