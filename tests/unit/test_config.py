"""The configuration: refused values, and the messages about them."""

import pytest

from handoffd import config
from handoffd.errors import ConfigError

CORRECT = "Correct the value, or remove the line: the default holds then."
REFUSED = {
    "[triggers]\nnotfy = true": ("no setting `triggers.notfy`", "Did you mean `triggers.notify`?"),
    "[trigers]\nnotify = true": ("no setting `trigers`", "Did you mean `triggers`?"),
    "notify = true": ("no setting `notify`", "It belongs below [triggers]."),
    "[log]\nvolume = 1": ("no setting `log.volume`", "Remove it. There is: level."),
    '[triggers]\nnotify = "maybe"': (
        "`triggers.notify` must be true or false.",
        "Write true or false, without quotation marks.",
    ),
    "[http]\nenabled = 2": (
        "`http.enabled` must be true or false.",
        "Write true or false, without quotation marks.",
    ),
    '[contract]\nalso = ["../x"]': (
        "`contract.also.0`: a directory below the project is wanted.",
        CORRECT,
    ),
    '[contract]\nalso = ["~/x"]': (
        "`contract.also.0`: a directory below the project is wanted.",
        CORRECT,
    ),
    "[http]\nport = true": ("`http.port`: a number is wanted.", CORRECT),
    "[triggers]\nidle_minutes = false": ("`triggers.idle_minutes`: a number is wanted.", CORRECT),
    '[http]\nport = "many"': ("`http.port`: Input should be a valid integer", CORRECT),
    "[privacy]\nretention_days = 30.5": ("`privacy.retention_days`: Input should be", CORRECT),
    "[log]\nlevel = info": (
        "config.toml is not valid TOML: ",
        "Correct what stands there: a text has quotation marks around it, a list brackets.",
    ),
    "[log]\nlevel = 3": (
        "`log.level`: Input should be 'debug', 'info', 'warning' or 'error'.",
        CORRECT,
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(tmp_path, text):
    """A mistyped key is answered with a similar one, a wrong type with the right one."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as problem:
        config.load(str(path))

    title, hint = REFUSED[text]
    assert title in problem.value.title
    assert hint == problem.value.hint


def test_sensible_values_are_taken(tmp_path):
    """An integer is a valid number of minutes, and every list may be empty."""
    path = tmp_path / "config.toml"
    path.write_text("[triggers]\nidle_minutes = 5\nnotify = true\n[projects]\ninclude = []\n")
    found = config.load(str(path))

    assert (5.0, True, []) == (
        found.triggers.idle_minutes,
        found.triggers.notify,
        found.projects.include,
    )


def test_harmless_types_keep_no_daemon_from_starting(tmp_path):
    """A quoted number, and an integer with a decimal point, is that number; 1 is true."""
    path = tmp_path / "config.toml"
    path.write_text(
        '[http]\nport = "8377"\nenabled = 1\n[privacy]\nretention_days = 30.0\n'
        '[triggers]\nidle_minutes = "30"\nnotify = "false"\n'
    )
    found = config.load(str(path))

    assert (8377, True, 30) == (found.http.port, found.http.enabled, found.privacy.retention_days)
    assert (30.0, False) == (found.triggers.idle_minutes, found.triggers.notify)
