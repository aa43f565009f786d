"""Editing the configuration's text: a value is set, and all the rest stays."""

import tomllib

import pytest

from conftest import REPOSITORY
from handoff.common.errors import HandoffError
from handoff.setup import toml_edit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '[checkpoint]\nwrite = "none"\n'),
        ("[log]\nlevel = 'info'", "[log]\nlevel = 'info'\n\n[checkpoint]\nwrite = \"none\"\n"),
        ("[checkpoint]", '[checkpoint]\nwrite = "none"\n'),
        ("[checkpoint]\n# write = 'x'\n", "[checkpoint]\nwrite = \"none\"\n# write = 'x'\n"),
        (
            "[checkpoint]\n  write = 'marked' # why\n[log]\n",
            '[checkpoint]\n  write = "none" # why\n[log]\n',
        ),
        (
            '[tracks]\nwrite = "all"\n[ checkpoint ] # here\nwrite_tracked = true\n',
            '[tracks]\nwrite = "all"\n[ checkpoint ] # here\nwrite = "none"\nwrite_tracked = true\n',
        ),
    ],
)
def test_a_value_is_set_by_its_line(text, expected):
    """Comments, order and a key of the same name in another table stay."""
    assert expected == toml_edit.put(text, "checkpoint", "write", "none")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "[http]\nenabled = true\n"),
        ("[http]\nenabled = false # off\n", "[http]\nenabled = true # off\n"),
        ("[http]\nport = 1\n[log]\n", "[http]\nenabled = true\nport = 1\n[log]\n"),
    ],
)
def test_a_truth_value_is_set_and_taken_out(text, expected):
    """A truth value is set by its line; taken out, it leaves the text as it was before."""
    new = toml_edit.put(text, "http", "enabled", True)

    assert expected == new
    before = tomllib.loads(text).get("http", {}).get("enabled")
    assert text == toml_edit.put(new, "http", "enabled", before)


def test_the_example_configuration_can_be_set():
    """A copy of the example configuration accepts both values."""
    text = (REPOSITORY / "config.example.toml").read_text()

    text = toml_edit.add(text, "claude", "config_dirs", "/home/ann/work claude")
    text = toml_edit.put(text, "checkpoint", "write", "none")

    found = {name: table for name, table in tomllib.loads(text).items() if table}
    assert {
        "claude": {"config_dirs": ["/home/ann/work claude"]},
        "checkpoint": {"write": "none"},
    } == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\n",
        "[log]\nlevel = 'info'\n",
        "[claude]\n# mine\n[log]\n",
        "[claude]\nconfig_dirs = ['/a']\n",
        "[claude]\nconfig_dirs = [\n  '/a', # mine\n]\n",
    ],
)
def test_a_directory_is_taken_out_as_it_was_put_in(text):
    """Later additions behind it stay, and a table header that was added with it is removed."""
    new = toml_edit.add(text, "claude", "config_dirs", "/my dir") + "[redact]\n"

    assert text + "[redact]\n" == toml_edit.take(new, "claude", "config_dirs", "/my dir")
    assert text == toml_edit.take(text, "claude", "config_dirs", "/my dir")


def test_a_directory_that_was_moved_stays():
    """A directory that setup did not write in this form is the user's, and stays."""
    text = "[claude]\nconfig_dirs = ['/a', '/my dir']\n"

    with pytest.raises(HandoffError):
        toml_edit.take(text, "claude", "config_dirs", "/my dir")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[claude]\nconfig_dirs = []\n", '[claude]\nconfig_dirs = ["/new"]\n'),
        ("[claude]\nconfig_dirs = [\n]\n", '[claude]\nconfig_dirs = ["/new"]\n'),
        ("[claude]\nconfig_dirs = ['/a']\n", "[claude]\nconfig_dirs = [\"/new\", '/a']\n"),
        (
            "[claude]\nconfig_dirs = [\n  '/a', # mine\n]\n",
            "[claude]\nconfig_dirs = [\"/new\", \n  '/a', # mine\n]\n",
        ),
    ],
)
def test_a_directory_is_added_to_a_list(text, expected):
    """The existing directories of the list stay."""
    assert expected == toml_edit.add(text, "claude", "config_dirs", "/new")


@pytest.mark.parametrize(
    "text",
    [
        'checkpoint = { write = "marked" }\n',
        'checkpoint.write = "marked"\n',
        '[checkpoint]\n"write" = "marked"\n',
        '[checkpoint]\nwrite = """\nmarked"""\n',
    ],
)
def test_a_spelling_that_we_do_not_know_is_refused(text):
    """The result is read before it is written; if it is not as wanted, the edit is refused."""
    with pytest.raises(HandoffError, match=r"write of \[checkpoint\] cannot be set") as raised:
        toml_edit.put(text, "checkpoint", "write", "none")

    assert 'write = "none"' in raised.value.hint


def test_a_broken_configuration_is_said():
    """A broken configuration is an error with line and column."""
    with pytest.raises(HandoffError, match=r"broken: .*line 1, column 3"):
        toml_edit.put("a b", "checkpoint", "write", "none")
