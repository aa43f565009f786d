"""Opening a database and updating its schema by numbered migrations."""

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from handoffd.errors import StoreError
from handoffd.runtime import clock
from handoffd.store.damage import WatchedConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

Migration = Callable[[sqlite3.Connection], None]


class Schema(NamedTuple):
    """The tables of a database: `create` makes version `first`, each of `later` the next one."""

    first: int
    create: Migration
    later: tuple[Migration, ...] = ()

    @property
    def newest(self) -> int:
        return self.first + len(self.later)


# How long to wait for another writer. The event loop must not wait long, since all requests wait
# with it. A thread or a separate program waits until its turn comes, also among many writers, since
# SQLite keeps no queue.
LOOP_BUSY_SECONDS = 1.0
BUSY_SECONDS = 20.0
IN_MEMORY = ":memory:"
# Each prepared statement takes some kilobytes; this is the number of those in constant use.
_STATEMENTS_KEPT = 24
_RETRY_SECONDS = 0.01


def open_database(
    path: str,
    *,
    durable: bool,
    schema: Schema,
    busy_seconds: float = LOOP_BUSY_SECONDS,
) -> WatchedConnection:
    """Open a database with WAL and mode 0600; `durable`: synchronous FULL instead of NORMAL."""
    if path != IN_MEMORY:
        _create_file(path)
    connection = sqlite3.connect(
        path,
        timeout=busy_seconds,
        isolation_level=None,
        factory=WatchedConnection,
        cached_statements=_STATEMENTS_KEPT,
    )
    refuse_newer(connection, path, schema)
    _turn_on_wal(connection, busy_seconds)
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    connection.execute("PRAGMA foreign_keys = ON")
    # The kernel caches the file as well, and a larger cache of ours would stay in memory for good.
    connection.execute("PRAGMA cache_size = -64")
    connection.execute("PRAGMA secure_delete = ON")
    migrate(connection, path, schema)
    return connection


def _turn_on_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Turn on WAL, and retry: of two connections that do so to a new file, one gets SQLITE_BUSY.

    SQLite does not apply its busy timeout there.
    """
    deadline = clock.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as problem:
            if not is_busy(problem) or clock.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _create_file(path: str) -> None:
    """Create the file with mode 0600, or check that the existing one is a regular file.

    An existing file is not opened: closing it would drop every lock that this process has on it,
    including those of another connection, and another process would consider the database unused.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None


def refuse_newer(connection: sqlite3.Connection, path: str, schema: Schema) -> None:
    """Refuse a database of a newer version, or of a version before the first release.

    The file is not changed.
    """
    version = _version(connection)
    if version > schema.newest:
        raise StoreError(
            f"{path} was written by a newer handoffd"
            f" (schema {version}, this one knows {schema.newest}).",
            "Install the newer version again, or move the file aside.",
        )
    if 0 < version < schema.first:
        raise StoreError(
            f"{path} was written before the first release (schema {version}).",
            "Move the file aside.",
        )


def migrate(connection: sqlite3.Connection, path: str, schema: Schema) -> None:
    """Apply the missing migrations, each in its own transaction."""
    refuse_newer(connection, path, schema)
    for number, change in enumerate((schema.create, *schema.later), schema.first):
        if _version(connection) >= number:
            continue
        with transaction(connection):
            # Another process may have opened the file at the same time and migrated it first.
            if _version(connection) < number:
                change(connection)
                connection.execute(f"PRAGMA user_version = {number}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def transaction(connection: sqlite3.Connection, *, writing: bool = True) -> "Iterator[None]":
    try:
        connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
        yield
        connection.execute("COMMIT")
    except BaseException as problem:
        # On a full disk SQLite has already rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        _raise_if_passing(problem)
        raise


@contextmanager
def savepoint(connection: sqlite3.Connection) -> "Iterator[None]":
    """Group statements into one unit, inside a transaction or without one."""
    begun = False
    try:
        connection.execute("SAVEPOINT part")
        begun = True
        yield
        # Without an enclosing transaction, this statement writes to disk.
        connection.execute("RELEASE part")
    except BaseException as problem:
        if begun and connection.in_transaction:
            connection.execute("ROLLBACK TO part")
            connection.execute("RELEASE part")
        _raise_if_passing(problem)
        raise


def scrub(connection: sqlite3.Connection, name: str) -> None:
    """Remove all erased bytes from the file and its log.

    secure_delete is not enough: a page keeps a copy of rows that moved to another page.
    """
    try:
        # With an active reader VACUUM would be in vain, and the log would grow by the whole file.
        _require_empty_log(connection, name)
        connection.execute("VACUUM")
        _require_empty_log(connection, name)
    except sqlite3.OperationalError as problem:
        text = f"Erased, but {name} still has the room of it: {problem}."
        hint = "Do it again." if is_busy(problem) else "Free some space, then do it again."
        raise StoreError(text, hint) from None


def empty_log(connection: sqlite3.Connection, busy_seconds: float) -> bool:
    """Copy all of the log into the file and empty it; return False if readers prevent that.

    While this waits for readers, no connection can write.
    """
    timeout = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")
    try:
        return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        connection.execute(f"PRAGMA busy_timeout = {timeout}")


def _require_empty_log(connection: sqlite3.Connection, name: str) -> None:
    if not empty_log(connection, LOOP_BUSY_SECONDS):
        text = f"Erased, but another program is reading {name}: its log still has a copy."
        raise StoreError(text, "End that program, then do it again.")


def _raise_if_passing(problem: BaseException) -> None:
    """Raise a StoreError for a full disk or a lock, which pass; not for a mistake in our code."""
    if isinstance(problem, sqlite3.OperationalError):
        text = f"The store cannot be written: {problem}."
        raise StoreError(text, remedy(problem)) from problem


def remedy(problem: sqlite3.Error) -> str:
    """Return the remedy for an error of a store."""
    if is_busy(problem):
        return "Try again."
    if getattr(problem, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return "Free some space."
    return "See whether its disk is full, read-only or failing: handoff doctor"


def is_busy(problem: sqlite3.Error) -> bool:
    """Return True if another connection holds a lock; the low byte of the code is its class."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def run_script(*statements: str) -> Migration:
    def apply(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return apply
