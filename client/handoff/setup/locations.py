"""The paths of our programs, of the files shipped with them, and of Claude's files."""

import os
import shutil
import sys

from handoff.common import paths, programs
from handoff.common.errors import HandoffError

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def installed_script(name: str) -> str:
    """Return the script that was installed with this package."""
    above = PACKAGE
    for _ in ("handoff", "site-packages", "python3", "lib"):
        above = os.path.dirname(above)
    for directory in (f"{above}/bin", os.path.dirname(sys.executable)):
        if os.access(f"{directory}/{name}", os.X_OK):
            return f"{directory}/{name}"
    found = programs.find(name)
    if found is None:
        raise HandoffError(f"The program `{name}` is not where this package is installed.")
    return os.path.abspath(found)


def lasting_path(name: str) -> str:
    """Return the path under which a program will still be found after an upgrade.

    pipx, uv and a person link to a script from a directory that stays. The script's own directory
    may not stay.
    """
    script = installed_script(name)
    for path in (shutil.which(name), f"{paths.home()}/.local/bin/{name}"):
        if path and os.path.realpath(path) == os.path.realpath(script):
            return os.path.abspath(path)
    return script


def path_in_text(name: str) -> str:
    """Return a program's path for a file that must be UTF-8."""
    path = lasting_path(name)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise HandoffError(
            f"The path of {name} is not valid UTF-8: {path!r}", "Install it elsewhere."
        ) from None
    return path


def is_on_path(name: str) -> bool:
    """Return True if a shell that looks for the name finds our program."""
    found = shutil.which(name)
    return found is not None and os.path.realpath(found) == os.path.realpath(installed_script(name))


def shipped_file(name: str) -> str:
    """Return a file or directory of the package, or of the checkout from which it runs."""
    for top in (PACKAGE, os.path.dirname(os.path.dirname(PACKAGE))):
        if os.path.exists(f"{top}/{name}"):
            return f"{top}/{name}"
    raise HandoffError(f"{name} is missing from the installed package.", "Install it anew.")


def marketplace() -> str:
    """Return the directory with the plugin, which Claude Code uses as a marketplace."""
    manifest = ".claude-plugin/marketplace.json"
    if os.path.exists(f"{PACKAGE}/marketplace/{manifest}"):
        return f"{PACKAGE}/marketplace"
    return shipped_file(manifest).removesuffix(f"/{manifest}")


def plugin() -> str:
    return f"{marketplace()}/client/plugin"


def claude() -> str | None:
    """Return the program of Claude Code, or None."""
    places = (programs.find("claude"), f"{paths.home()}/.local/bin/claude")
    for path in (*places, f"{paths.home()}/.claude/local/claude"):
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return os.path.abspath(path)
    return None


def claude_home() -> str:
    """Return the directory of Claude Code's settings; like Claude Code, do not expand a `~`."""
    given = paths.variable("CLAUDE_CONFIG_DIR")
    return os.path.abspath(given) if given else f"{paths.home()}/.claude"


def settings_file() -> str:
    return f"{claude_home()}/settings.json"


def servers_file() -> str:
    """Return the file in which Claude Code keeps the MCP servers of a user."""
    # An old installation has the file there, and Claude Code still looks there first.
    if os.path.exists(f"{claude_home()}/.config.json"):
        return f"{claude_home()}/.config.json"
    is_given = paths.variable("CLAUDE_CONFIG_DIR")
    return f"{claude_home() if is_given else paths.home()}/.claude.json"


def desktop_file() -> str:
    if sys.platform == "darwin":
        directory = f"{paths.home()}/Library/Application Support"
    else:
        directory = os.path.dirname(os.path.dirname(paths.config_file()))
    return f"{directory}/Claude/claude_desktop_config.json"
