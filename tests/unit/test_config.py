"""The configuration: what is refused, and what a person is told about it."""

import pytest

from handoffd import config
from handoffd.errors import ConfigError

REFUSED = {
    "[triggers]\nnotfy = true": ("no setting `triggers.notfy`", "Did you mean `triggers.notify`?"),
    "[trigers]\nnotify = true": ("no setting `trigers`", "Did you mean `triggers`?"),
    "notify = true": ("no setting `notify`", "It belongs below [triggers]."),
    "[log]\nvolume = 1": ("no setting `log.volume`", "Remove it. There is: level."),
    '[triggers]\nnotify = "true"': (
        "`triggers.notify` must be true or false.",
        "Write it without quotation marks.",
    ),
    "[http]\nenabled = 1": (
        "`http.enabled` must be true or false.",
        "Write it without quotation marks.",
    ),
    '[http]\nport = "8377"': ("`http.port`: Input should be a valid integer.", "Mend that line."),
    "[log]\nlevel = 3": (
        "`log.level`: Input should be 'debug', 'info', 'warning' or 'error'.",
        "Mend that line.",
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(tmp_path, text):
    """A mistyped key is answered with the near one, a value of another type with what it must be."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as problem:
        config.load(str(path))

    title, hint = REFUSED[text]
    assert title in problem.value.title
    assert hint == problem.value.hint


def test_sensible_values_are_taken(tmp_path):
    """A whole number of minutes is a number, and every list may be empty."""
    path = tmp_path / "config.toml"
    path.write_text("[triggers]\nidle_minutes = 5\nnotify = true\n[projects]\ninclude = []\n")
    found = config.load(str(path))

    assert (5.0, True, []) == (
        found.triggers.idle_minutes,
        found.triggers.notify,
        found.projects.include,
    )
