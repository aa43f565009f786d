"""Recognise the names of conductor's slash commands, with or without a plugin's name."""


def is_command(given: str, name: str) -> bool:
    """Return True for `conductor-finish`, `some-plugin:conductor-finish`, `conductor:finish`."""
    words = given.rsplit(":", 2)
    return words[-1] == f"conductor-{name}" or words[-2:] == ["conductor", name]
