"""One rolling copy of core.db, beside it, for recovery after damage."""

import math
import os
import secrets
import sqlite3

from handoffd.errors import StoreError
from handoffd.runtime import clock
from handoffd.store.damage import ASIDE

SUFFIX = ".backup"
# The suffix of an unfinished copy, also of one that a killed process left.
_NEW = ".backup.new-"
# The suffix of a new file that a recovery is writing.
MENDING = ".mending-"
_TRIES = 5


def age_seconds(path: str) -> float:
    """Return the age of the copy; the age of a missing one is infinite."""
    try:
        # A time in the future was written before the clock was set back.
        return abs(clock.wall() - os.lstat(path + SUFFIX).st_mtime)
    except FileNotFoundError:
        return math.inf


def is_outdated(path: str) -> bool:
    """Return True if the file was written after its copy."""
    return os.lstat(path).st_mtime > os.lstat(path + SUFFIX).st_mtime


def exists(path: str) -> bool:
    return os.path.lexists(path + SUFFIX)


def make(connection: sqlite3.Connection, path: str) -> None:
    """Make a new copy, which is complete and on disk before it replaces the old one.

    Every process first removes the unfinished copies of all others, since they may hold rows that
    were erased meanwhile. A process whose copy was removed begins again.
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
    """Write all of a database to a new file, complete and on disk before it gets its name.

    Return False if another process removed the file before it was renamed.
    """
    new = f"{path}{_NEW}{secrets.token_hex(6)}"
    handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        connection.execute("VACUUM INTO ?", (new,))
        os.fsync(handle)
        if not os.path.samestat(os.lstat(new), os.fstat(handle)):
            _drop(new)  # SQLite created a file of its own, which other users may be able to read
            return False
        os.replace(new, target)
    except FileNotFoundError:
        return False
    except BaseException as problem:
        # SQLite reports an I/O error if its file is removed while it writes.
        if isinstance(problem, sqlite3.Error) and not os.path.lexists(new):
            return False
        _drop(new)
        raise
    finally:
        os.close(handle)
    sync_directory(path)
    return True


def sync_directory(path: str) -> None:
    """Flush the directory of a file, so that the names in it are on disk, too."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def drop(path: str) -> None:
    """Remove the copy, which still holds the erased rows."""
    try:
        drop_beside(path, _NEW)
        _drop(path + SUFFIX)
    except OSError as problem:
        text = f"{path}{SUFFIX} still has what was erased: {problem.strerror}."
        raise StoreError(text, "Remove it.") from None


def drop_all(path: str) -> None:
    """Remove the copy and all files of recoveries: they hold the erased rows."""
    drop(path)
    drop_beside(path, ASIDE)
    drop_beside(path, MENDING)


def drop_beside(path: str, suffix: str) -> None:
    """Remove every file whose name begins with the name of this file and the suffix."""
    directory, name = os.path.split(path)
    for found in os.listdir(directory):
        if found.startswith(name + suffix):
            _drop(f"{directory}/{found}")


def _drop(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
