"""Other programs, found on PATH but never inside a project. The daemon uses this as well."""

import os
import shutil

from handoff.common import paths

# Directories that are trusted even if a repository lies in or above them: /opt/homebrew is one.
_SYSTEM = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
_PACKAGE_MANAGERS = ("/opt/homebrew/", "/opt/local/", "/nix/", "/snap/")


def find(name: str) -> str | None:
    """Return the path of a program, or None."""
    return shutil.which(name, path=search_path())


def environment() -> dict[str, str]:
    """Return our environment with the safe PATH: a program starts others by name (`env node`)."""
    return {**os.environ, "PATH": search_path()}


def search_path(given: str | None = None) -> str:
    """Return PATH without the directories into which a project can bring programs.

    These are relative directories, directories inside the project that we run in, and directories
    inside any other project. HOME is no project, although it may be a repository of settings,
    and neither is a hidden repository (a version manager such as ~/.nvm is one), nor a directory
    of the system or of a package manager.
    """
    places = os.environ.get("PATH", os.defpath) if given is None else given
    here = _current_project()
    kept = [place for place in places.split(":") if place.startswith("/")]
    return ":".join(each for each in kept if not _is_in_a_project(each, here)) or os.defpath


def _current_project() -> str:
    try:
        return paths.project_root(os.getcwd())
    except OSError:  # the directory was deleted
        return ""


def _is_in_a_project(place: str, here: str) -> bool:
    directory = os.path.realpath(place)
    is_trusted = directory in _SYSTEM or f"{directory}/".startswith(_PACKAGE_MANAGERS)
    while directory != "/" and not paths.is_home(directory):
        is_hidden = os.path.basename(directory).startswith(".")
        is_project = paths.has_marker(directory) and not (is_hidden or is_trusted)
        if directory == here or is_project:
            return True
        directory = os.path.dirname(directory)
    return False
