"""The .beads of a project: its place, its database, and the files that show a change.

A repository is not trusted: of .beads only the database and issues.jsonl are used, and the name of
the database from metadata.json (see beads_program).
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from handoff.common import paths
from handoffd.links import git_discovery

_SMALL_BYTES = 64 << 10
_DATABASE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# A table of Dolt or its journal. Files of other names come and go while a program only reads.
_TABLE = re.compile(r"[0-9a-v]{32}(\.darc)?")


class BeadsDirectory(NamedTuple):
    """A .beads directory by its real path, and its database: a file, a directory, or nothing.

    Dolt's directory has several databases; `name` is the one with the issues.
    """

    path: str
    sqlite: str = ""
    dolt: str = ""
    name: str = ""

    @property
    def lines(self) -> str:
        return os.path.join(self.path, "issues.jsonl")


def find(root: str) -> BeadsDirectory | None:
    """Return the .beads of a project: the first with a database, else the first with anything.

    The search is that of Beads: from the project upwards to the top of its repository, and for a
    linked work tree also in the main one. A link or a redirect out of the repository is not
    followed, and files of another user are not used.
    """
    root = os.path.realpath(root)
    if root == "/" or paths.is_home(root):
        return None
    tops = _tops(root)
    opened = (_open(path, tops) for path in _candidates(root, tops))
    found = [directory for directory in opened if directory is not None]
    with_database = (each for each in found if each.sqlite or each.dolt)
    return next(with_database, found[0] if found else None)


def stamp(directory: BeadsDirectory) -> tuple[str, str]:
    """Return a stamp that changes only with the issues, and one that may change by reading.

    Dolt's journal only grows, and only with a write. The time of SQLite's files changes even with
    `bd list`, and a write often does not change their size. issues.jsonl is the more reliable sign,
    since every write renews it.
    """
    sure = [_mark(directory.lines, times=True), *_tables(directory.dolt)]
    unsure = [_mark(directory.sqlite + end, times=True) for end in ("", "-wal")]
    return "|".join(sure), "|".join(unsure) if directory.sqlite else ""


def _candidates(root: str, tops: list[str]) -> Iterator[str]:
    """Yield the .beads directories on the way up, and the one of a work tree's main repository."""
    directory = root
    while directory != tops[0]:
        yield os.path.join(directory, ".beads")
        directory = os.path.dirname(directory)
    yield from (os.path.join(top, ".beads") for top in tops)


def _tops(root: str) -> list[str]:
    """Return the top of the project's repository and, for a work tree, that of the main one.

    Without a repository, or if it is refused or belongs to another user, return the project alone.
    """
    try:
        found = git_discovery.find(root)
    except git_discovery.GitError:
        found = None
    if found is None or not _are_ours(
        found.top, f"{found.top}/.git", found.directory, found.common
    ):
        return [root]
    main = os.path.dirname(found.common)
    is_linked = found.common != found.directory and found.common == f"{main}/.git"
    return [found.top, main] if is_linked and not paths.is_home(main) else [found.top]


def _are_ours(*places: str) -> bool:
    """Return True if none of these files and directories belongs to another user."""
    for path in places:
        try:
            if os.lstat(path).st_uid != os.geteuid():
                return False
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def _open(path: str, tops: list[str]) -> BeadsDirectory | None:
    """Return a .beads directory, or the one that it leads to inside the repository, or None."""
    if not os.path.lexists(path):  # the usual case, and much cheaper than resolving it
        return None
    real = os.path.realpath(path)
    target = os.path.realpath(_redirect(real) or real)
    if not os.path.isdir(target) or (target != path and not _is_inside(target, tops)):
        return None
    found = BeadsDirectory(target, _sqlite(target), *_dolt(target))
    database = os.path.join(found.dolt, found.name)
    places = (target, found.lines, found.sqlite, f"{found.sqlite}-wal", found.dolt, database)
    return found if _are_ours(*filter(None, places)) else None


def _redirect(path: str) -> str:
    """Return the target of a `redirect` file by the rules of Beads, or an empty text."""
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


def _dolt(path: str) -> tuple[str, str]:
    """Return Dolt's directory and the name of the database in it, or empty texts.

    The issues of a project with a database server are not in its directory.
    """
    try:
        settings = json.loads(_small(os.path.join(path, "metadata.json")) or "{}")
        mode, name = settings.get("dolt_mode"), settings.get("dolt_database") or "beads"
    except (ValueError, AttributeError, RecursionError):
        return "", ""
    place = os.path.join(path, "embeddeddolt")
    is_named = isinstance(name, str) and _DATABASE.fullmatch(name)
    # Beads would create a database that does not exist.
    if mode not in (None, "", "embedded") or not is_named or os.path.islink(place):
        return "", ""
    return (place, name) if os.path.isdir(os.path.join(place, name, ".dolt")) else ("", "")


def _tables(dolt: str) -> list[str]:
    """Return a mark per table of Dolt's databases; usually there is one database."""
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
    """Return the text of a small file, or an empty text; never wait for a pipe."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        is_file = stat.S_ISREG(os.fstat(number).st_mode)
        return os.read(number, _SMALL_BYTES).decode("utf-8", "replace") if is_file else ""
    finally:
        os.close(number)
