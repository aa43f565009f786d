"""A project's .beads: where it is, what in it tells of a change, what in it is dangerous.

A repository is not trusted. What Beads would do with what lies in .beads was read in its source
(v0.47.1 and v1.0.5): it loads .env into its own environment and gives that to the programs it
starts, runs hooks/on_update after an update, follows `redirect` to another directory and
routes.jsonl to another project, and speaks to the database server that metadata.json names.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

_SMALL_BYTES = 64 << 10
_LOCAL = ("", "localhost", "127.0.0.1", "::1")
# A table of Dolt or its journal; other names there come and go while somebody only reads.
_TABLE = re.compile(r"[0-9a-v]{32}(\.darc)?")


class Directory(NamedTuple):
    """A .beads directory by its real path, and its database: a file, a directory, or nothing."""

    path: str
    sqlite: str = ""
    dolt: str = ""

    @property
    def lines(self) -> str:
        return os.path.join(self.path, "issues.jsonl")


def find(root: str) -> Directory | None:
    """Return the .beads of a project: the first with a database, else the first with anything.

    It is looked for as Beads does: from the project upwards to the top of its repository, and
    for a worktree in the main one. A link or a redirect out of the repository is not followed.
    """
    root, home = os.path.realpath(root), os.path.realpath(os.path.expanduser("~"))
    tops = _tops(root, home)
    opened = (_open(path, tops) for path in _candidates(root, home, tops))
    found = [directory for directory in opened if directory is not None]
    with_database = (each for each in found if each.sqlite or each.dolt)
    return next(with_database, found[0] if found else None)


def stamp(directory: Directory) -> tuple[str, str]:
    """Return what changes with the issues, and what may change by reading alone.

    Dolt's journal only grows, and only when something is written. Of SQLite's files the time
    changes even when `bd list` is all that ran, and their size often does not change by a
    write; issues.jsonl, which every write renews, is the surer sign.
    """
    sure = [_mark(directory.lines, times=True), *_tables(directory.dolt)]
    unsure = [_mark(directory.sqlite + end, times=True) for end in ("", "-wal")]
    return "|".join(sure), "|".join(unsure) if directory.sqlite else ""


def danger(directory: Directory) -> str:
    """Say why Beads must not be run there at all, or nothing."""
    if os.path.lexists(os.path.join(directory.path, ".env")):
        return "its .beads/.env sets variables for the programs that Beads starts"
    if os.path.lexists(os.path.join(directory.path, "redirect")):
        return "its .beads/redirect leads on to another place"
    text = _small(os.path.join(directory.path, "metadata.json"))
    try:
        pairs = json.loads(text or "{}", object_pairs_hook=list)
        settings = [(name.casefold(), str(value).lower()) for name, value in pairs]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return "its .beads/metadata.json cannot be read"
    # Go takes a name in any case, and may take any one of several: all must be harmless.
    for name, value in settings:
        if name == "dolt_mode" and value not in ("", "embedded", "server"):
            return f"its .beads/metadata.json asks for the mode {value}, which starts a server"
        if name == "dolt_server_host" and value not in _LOCAL:
            return "its .beads/metadata.json names a database server on another machine"
    return ""


def danger_of_writing(directory: Directory, *, hooks_are_off: bool) -> str:
    """Say why Beads must not write there, or nothing."""
    hook = os.path.join(directory.path, "hooks", "on_update")
    if not hooks_are_off and os.access(hook, os.X_OK):
        return "its .beads/hooks/on_update would be run, and this Beads cannot leave it out"
    if os.path.lexists(os.path.join(directory.path, "routes.jsonl")):
        return "its .beads/routes.jsonl may lead to another project"
    return ""


def _candidates(root: str, home: str, tops: list[str]) -> Iterator[str]:
    """Yield the .beads directories on the way up, and the one of a worktree's main repository."""
    directory = root
    while directory not in (home, "/"):
        yield os.path.join(directory, ".beads")
        if directory in tops:
            break
        directory = os.path.dirname(directory)
    yield from (os.path.join(top, ".beads") for top in tops[1:])


def _tops(root: str, home: str) -> list[str]:
    """Return the top of the project's repository and, for a worktree, that of the main one."""
    directory = root
    while not os.path.lexists(os.path.join(directory, ".git")):
        directory = os.path.dirname(directory)
        if directory in (home, "/"):
            return []
    main = _main_repository(os.path.join(directory, ".git"))
    return [directory, main] if main else [directory]


def _main_repository(link: str) -> str:
    """Return the main repository of a worktree, if that one knows the worktree, too."""
    here = _small(link).removeprefix("gitdir:").strip()
    place, worktrees, _ = here.rpartition("/worktrees/")
    back = _small(os.path.join(here, "gitdir")).strip() if worktrees else ""
    if not back or os.path.realpath(back) != os.path.realpath(link):
        return ""
    return os.path.dirname(os.path.realpath(place)) if place.endswith("/.git") else ""


def _open(path: str, tops: list[str]) -> Directory | None:
    """Look at a directory, or at the one that it leads to inside the repository."""
    if not os.path.lexists(path):  # the rule, and much cheaper than to resolve it
        return None
    real = os.path.realpath(path)
    target = os.path.realpath(_redirect(real) or real)
    if not os.path.isdir(target) or (target != path and not _is_inside(target, tops)):
        return None
    return Directory(target, _sqlite(target), _dolt(target))


def _redirect(path: str) -> str:
    """Return where a `redirect` leads, by the rules of Beads."""
    for line in _small(os.path.join(path, "redirect")).split("\n"):
        target = line.strip()
        if target and not target.startswith("#"):
            return os.path.join(os.path.dirname(path), target)
    return ""


def _is_inside(path: str, tops: list[str]) -> bool:
    return any(path.startswith(f"{top}/") for top in tops)


def _sqlite(path: str) -> str:
    with suppress(OSError):
        names = [name for name in os.listdir(path) if name.endswith(".db")]
        named = [name for name in sorted(names) if ".backup" not in name and name != "vc.db"]
        choice = "beads.db" if "beads.db" in named else next(iter(named), "")
        found = os.path.join(path, choice)
        return found if choice and not os.path.islink(found) else ""
    return ""


def _dolt(path: str) -> str:
    places = (os.path.join(path, name) for name in ("embeddeddolt", "dolt"))
    real = (place for place in places if os.path.isdir(place) and not os.path.islink(place))
    found = next(real, "")
    # A database that is a link may be another project's.
    inner = (os.path.join(found, name) for name in _names(found))
    return "" if any(os.path.islink(place) for place in inner) else found


def _tables(dolt: str) -> list[str]:
    """Mark every table of Dolt's databases; there is one of them, as a rule."""
    marks = []
    for database in _names(dolt):
        place = os.path.join(dolt, database, ".dolt", "noms")
        found = (name for name in _names(place) if _TABLE.fullmatch(name))
        marks += [_mark(os.path.join(place, name), times=False) for name in found]
    return marks


def _names(path: str) -> list[str]:
    with suppress(OSError):
        return sorted(os.listdir(path)) if path else []
    return []


def _mark(path: str, *, times: bool) -> str:
    try:
        found = os.lstat(path)
    except OSError:
        return "-"
    name = os.path.basename(path)
    return f"{name} {found.st_size}" + (f" {found.st_mtime_ns} {found.st_ino}" if times else "")


def _small(path: str) -> str:
    """Return the text of a small file, or nothing; a pipe is not waited for."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        is_file = stat.S_ISREG(os.fstat(number).st_mode)
        return os.read(number, _SMALL_BYTES).decode("utf-8", "replace") if is_file else ""
    finally:
        os.close(number)
