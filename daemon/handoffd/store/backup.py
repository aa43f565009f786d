"""One rolling copy of core.db, beside it, for the day it is damaged."""

import math
import os
import secrets
import sqlite3

from handoffd.errors import StoreError
from handoffd.runtime import clock
from handoffd.store.damage import ASIDE

SUFFIX = ".backup"
# Of a copy that is being made, or that a killed process left.
_NEW = ".backup.new-"
# Of a new file that a recovery makes.
MENDING = ".mending-"
_TRIES = 5


def age_seconds(path: str) -> float:
    """Return how old the copy is; one that is missing is as old as can be."""
    try:
        # A time in the future was written before the clock was set.
        return abs(clock.wall() - os.lstat(path + SUFFIX).st_mtime)
    except FileNotFoundError:
        return math.inf


def is_outdated(path: str) -> bool:
    """Return True if the file was written after its copy."""
    return os.lstat(path).st_mtime > os.lstat(path + SUFFIX).st_mtime


def exists(path: str) -> bool:
    return os.path.lexists(path + SUFFIX)


def make(connection: sqlite3.Connection, path: str) -> None:
    """Make the copy anew: whole and on disk before it takes the place of the old one.

    Whoever begins removes the unfinished copies of all others, since they may have what was
    erased meanwhile; whose copy was removed begins again.
    """
    try:
        for _ in range(_TRIES):
            drop_beside(path, _NEW)
            if write(connection, path, path + SUFFIX):
                return
    except (OSError, sqlite3.Error) as problem:
        text = f"{os.path.basename(path)} could not be copied: {problem}."
        raise StoreError(text, "Free some space.") from None
    raise StoreError(f"{os.path.basename(path)} could not be copied: others do it, too.")


def write(connection: sqlite3.Connection, path: str, target: str) -> bool:
    """Write all of a database to a new file, complete and on disk before it takes its name.

    Return False if another process removed it before it was in place.
    """
    new = f"{path}{_NEW}{secrets.token_hex(6)}"
    handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        connection.execute("VACUUM INTO ?", (new,))
        os.fsync(handle)
        if not os.path.samestat(os.lstat(new), os.fstat(handle)):
            _drop(new)  # SQLite made a file of its own, which others may be able to read
            return False
        os.replace(new, target)
    except FileNotFoundError:
        return False
    except BaseException as problem:
        # SQLite calls it an I/O error when its file goes away under it.
        if isinstance(problem, sqlite3.Error) and not os.path.lexists(new):
            return False
        _drop(new)
        raise
    finally:
        os.close(handle)
    sync_directory(path)
    return True


def sync_directory(path: str) -> None:
    """See that the names of a file and of those beside it are on disk, too."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def drop(path: str) -> None:
    """Remove the copy, which still has what was erased."""
    try:
        drop_beside(path, _NEW)
        _drop(path + SUFFIX)
    except OSError as problem:
        text = f"{path}{SUFFIX} still has what was erased: {problem.strerror}."
        raise StoreError(text, "Remove it.") from None


def drop_all(path: str) -> None:
    """Remove the copy, and the files that recoveries kept or left: they hold the erased rows."""
    drop(path)
    drop_beside(path, ASIDE)
    drop_beside(path, MENDING)


def drop_beside(path: str, suffix: str) -> None:
    """Remove every file beside one whose name goes on like this."""
    directory, name = os.path.split(path)
    for found in os.listdir(directory):
        if found.startswith(name + suffix):
            _drop(f"{directory}/{found}")


def _drop(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
