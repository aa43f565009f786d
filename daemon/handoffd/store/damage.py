"""Damage of a database: its detection and its report."""

import contextlib
import glob
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from handoffd.errors import StoreError
from handoffd.runtime import clock

# The suffix of a damaged database that is kept; a time follows.
ASIDE = ".damaged-"
LOG, SHARED_MEMORY = "-wal", "-shm"
_KEPT_MAX = 3
# Bytes that the disk cannot return are as bad as garbled ones.
_UNREADABLE = (
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_CORRUPTFS,
)
# SQLite's own message may quote a garbled name, which Python then cannot decode.
Failure = sqlite3.Error | UnicodeDecodeError
FAILURES = (sqlite3.DatabaseError, UnicodeDecodeError)


def is_damage(problem: Failure) -> bool:
    """Return True for damage, False for a lock, a full disk or a mistake in our code."""
    code = getattr(problem, "sqlite_errorcode", 0)
    if code in _UNREADABLE or _is_undecodable(problem):
        return True
    # The low byte of an extended code is its class.
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _is_undecodable(problem: Failure) -> bool:
    """Return True for a text that is not UTF-8: Python reports it, without an SQLite code."""
    text = "Could not decode to UTF-8"
    return isinstance(problem, UnicodeDecodeError) or str(problem).startswith(text)


def describe(problem: Failure) -> str:
    """Describe an error without quoting any content."""
    return "a text in it is not UTF-8" if _is_undecodable(problem) else str(problem)


def examine(path: str, check: str) -> str:
    """Return the problem that a check of SQLite finds in a file, or an empty text.

    The file and its log are not changed.
    """
    try:
        with contextlib.closing(read_only(path)) as db:
            found = str(db.execute(f"PRAGMA {check}").fetchone()[0])
    except FAILURES as problem:
        if is_damage(problem):
            return describe(problem)
        hint = "See whether its disk is full, read-only or failing: handoff doctor"
        raise StoreError(f"{path} cannot be opened: {problem}.", hint) from None
    return "" if found == "ok" else found.splitlines()[-1]


def read_only(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)


def size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def name_aside(path: str) -> str:
    """Return a new name under which a damaged database is kept."""
    return f"{path}{ASIDE}{clock.iso_milliseconds().replace(':', '')}"


def prune_aside(path: str) -> None:
    """Remove all kept damaged databases but the newest ones."""
    kept = sorted(name for name in glob.glob(f"{glob.escape(path)}{ASIDE}*") if name[-1] == "Z")
    for name in kept[:-_KEPT_MAX]:
        for old in glob.glob(f"{glob.escape(name)}*"):
            shutil.rmtree(old) if os.path.isdir(old) else os.unlink(old)


class WatchedConnection(sqlite3.Connection):
    """A connection that reports damage to the store that opened it.

    `damaged` is called then; it returns the error that is raised. `closed` is the reason why no
    statement is accepted now, and the remedy.
    """

    closed: tuple[str, str] | None = None
    damaged: Callable[[str], StoreError] | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self._require_open()
        found: sqlite3.Cursor = self.cursor(_WatchedCursor).execute(sql, parameters)
        return found

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        self._require_open()
        found: sqlite3.Cursor = self.cursor(_WatchedCursor).executemany(sql, parameters)
        return found

    def _require_open(self) -> None:
        if self.closed:
            raise StoreError(*self.closed)

    def report(self, problem: Failure) -> None:
        if self.damaged is not None and is_damage(problem):
            raise self.damaged(describe(problem)) from problem


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    def watched(self: "_WatchedCursor", *values: Any) -> Any:
        try:
            return method(self, *values)
        except FAILURES as problem:
            self.connection.report(problem)
            raise

    return watched


class _WatchedCursor(sqlite3.Cursor):
    connection: WatchedConnection

    execute = _watched(sqlite3.Cursor.execute)
    executemany = _watched(sqlite3.Cursor.executemany)
    fetchone = _watched(sqlite3.Cursor.fetchone)
    fetchall = _watched(sqlite3.Cursor.fetchall)
    __next__ = _watched(sqlite3.Cursor.__next__)
