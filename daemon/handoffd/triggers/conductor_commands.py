"""The names of conductor's slash commands, with or without a plugin's name before them."""


def is_command(given: str, name: str) -> bool:
    """Tell `conductor-finish`, `some-plugin:conductor-finish` and `conductor:finish`."""
    words = given.rsplit(":", 2)
    return words[-1] == f"conductor-{name}" or words[-2:] == ["conductor", name]
