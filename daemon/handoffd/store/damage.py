"""Damage of a database: noticed where it shows, kept as it was found, and never written over.

`core.db.damaged` beside core.db is the copy that was made of it, with its log, when the damage
was noticed. As long as it is there nobody writes to core.db: the copy is what a repair starts
from, and what came later would be lost with it.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from handoffd import clock
from handoffd.errors import DamagedError, StoreError
from handoffd.store import backup
from handoffd.store.backup import sync_directory
from handoffd.store.frames import LOG, find_gap

# Of each table.
Columns = Mapping[str, Sequence[str]]

ASIDE = ".damaged"
# A new core.db that is whole and about to take the place of the damaged one.
MENDED = ".mended"
# Beside the mark: what was found then.
REASON = ".damaged.why"
_READING = ("SELECT", "PRAGMA", "BEGIN", "COMMIT", "ROLLBA", "SAVEPO", "RELEAS")
_LOG_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_LOG_HEADER_BYTES = 32
_PAGE_BYTES = 4096
# What the disk does not give back is as good as garbled.
_UNREADABLE = (
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_CORRUPTFS,
)
_PIECE_BYTES = 1 << 20
_REASON_MAX = 1000
_BEFORE = "it was found so before"
LOST = "it is gone or empty"


def refusal(why: str) -> DamagedError:
    return DamagedError(
        f"core.db is damaged ({why}), so nothing can be kept in it.", "Mend it with: handoff repair"
    )


def is_damage(problem: sqlite3.Error) -> bool:
    """Tell damage from a lock, a full disk or a mistake; the low byte of the code is its class."""
    code = getattr(problem, "sqlite_errorcode", 0)
    if code in _UNREADABLE or _is_undecodable(problem):
        return True
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _is_undecodable(problem: sqlite3.Error) -> bool:
    """Tell a text that is none: Python notices that, not SQLite, which gives it no code."""
    return str(problem).startswith("Could not decode to UTF-8")


def describe(problem: sqlite3.Error) -> str:
    """Return what is wrong without a word of what is kept."""
    return "a text in it is none" if _is_undecodable(problem) else str(problem)


def is_known(path: str) -> bool:
    """Tell whether a database was found damaged and is not mended yet."""
    return os.path.lexists(path + ASIDE) or os.path.lexists(path + MENDED)


def reason(path: str) -> str:
    """Return what was found when the damage was noticed first."""
    try:
        with open(path + REASON, encoding="utf-8", errors="replace") as stream:
            return stream.read(_REASON_MAX).strip() or _BEFORE
    except OSError:
        return _BEFORE


def find_before(path: str) -> str:
    """Return why a database must not even be opened, if so: SQLite would write to it."""
    return find_known(path) or log_fault(path)


def find_known(path: str) -> str:
    """Return what is wrong with a database that shows without looking into it, or nothing."""
    if is_known(path):
        return reason(path)
    return LOST if is_lost(path) else ""


def log_fault(path: str) -> str:
    """Return what is wrong with the log of a database, or nothing."""
    return "its log is no log of SQLite" if has_garbled_log(path) else find_gap(path)


def is_lost(path: str) -> bool:
    """Tell a file that is gone or empty although its copy, or its log, is there.

    It must not be opened: SQLite would take it for a new one, and delete the log.
    """
    return not size(path) and bool(has_copy(path) or size(path + LOG))


def has_copy(path: str) -> bool:
    copy = path + backup.SUFFIX
    return os.path.isfile(copy) and bool(size(copy))


def has_garbled_log(path: str) -> bool:
    """Tell a log that is none: SQLite would pass over it, and over all that was kept last.

    Without power before its first write was on disk it is empty, or begins with nothing.
    """
    try:
        with open(path + LOG, "rb") as stream:
            header = stream.read(_LOG_HEADER_BYTES)
    except FileNotFoundError:
        return False
    except OSError as problem:
        if problem.errno != errno.EIO:
            raise
        return True
    return any(header) and not header.startswith(_LOG_MAGIC)


def size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def examine(path: str, check: str, json: Columns | None = None) -> str:
    """Return what is found in a file: "ok", or what is wrong; leaves it and its log alone."""
    try:
        with contextlib.closing(read_only(path)) as found:
            return look_over(found, check, json)
    except sqlite3.DatabaseError as problem:
        if is_damage(problem):
            return describe(problem)
        hint = "See whether its disk is full, read-only or failing: handoff doctor"
        raise StoreError(f"{path} cannot be opened: {problem}.", hint) from None


def look_over(db: sqlite3.Connection, check: str, json: Columns | None) -> str:
    """Let SQLite check; with the columns given that hold JSON, look into every cell as well."""
    found = str(db.execute(f"PRAGMA {check}").fetchone()[0])
    if found != "ok" or json is None:
        return found
    tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        for _ in db.execute(f"SELECT * FROM {table}"):  # noqa: S608  decodes every text
            pass
        for column in json.get(table, ()):
            bad = f"SELECT 1 FROM {table} WHERE {no_json(column)} LIMIT 1"  # noqa: S608
            if db.execute(bad).fetchone():
                return f"{column} in {table} is no JSON"
    return "ok"


def no_json(column: str) -> str:
    """Return the condition that tells a cell that is none; one without a value is as it should."""
    return f"{column} IS NOT NULL AND NOT json_valid({column})"


def read_only(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)


class Watched(sqlite3.Connection):
    """A connection that tells whoever opened it when the database turns out to be damaged.

    `damaged` is called then and returns what is raised; `stands_in` is the reason why nothing
    may be written, and `gone` why nothing can be asked, either.
    """

    path = ""
    stands_in = ""
    gone = ""
    damaged: Callable[[str], StoreError] | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.require_whole(sql)
        found: sqlite3.Cursor = self.cursor(_Cursor).execute(sql, parameters)
        return found

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        self.require_whole(sql)
        found: sqlite3.Cursor = self.cursor(_Cursor).executemany(sql, parameters)
        return found

    def require_whole(self, sql: str) -> None:
        """Refuse to write to what is known to be damaged, whoever noticed it."""
        if self.gone:
            raise StoreError(self.gone, "Free some space.")
        # To begin would wait for whoever copies the damaged file.
        if self.stands_in and not (sql.startswith(_READING) and sql != "BEGIN IMMEDIATE"):
            raise refusal(self.stands_in)
        if sql.startswith(_READING):
            return
        if self.damaged is not None and is_known(self.path):
            raise self.damaged(reason(self.path))

    def tell(self, problem: sqlite3.DatabaseError) -> None:
        if self.damaged is not None and is_damage(problem):
            raise self.damaged(describe(problem)) from problem


def _watched(ask: Callable[..., Any]) -> Callable[..., Any]:
    def asked(self: "_Cursor", *values: Any) -> Any:
        try:
            return ask(self, *values)
        except sqlite3.DatabaseError as problem:
            self.connection.tell(problem)
            raise

    return asked


class _Cursor(sqlite3.Cursor):
    connection: Watched

    execute = _watched(sqlite3.Cursor.execute)
    executemany = _watched(sqlite3.Cursor.executemany)
    fetchone = _watched(sqlite3.Cursor.fetchone)
    fetchall = _watched(sqlite3.Cursor.fetchall)
    __next__ = _watched(sqlite3.Cursor.__next__)


# The copy


def mark(path: str, why: str) -> None:
    """Let everybody know of damage, and why, before it is copied; or if it cannot be."""
    if is_known(path):
        return
    with contextlib.suppress(OSError):
        handle = os.open(path + REASON, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(why)
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(path + ASIDE, flags, 0o600))


def is_kept(path: str) -> bool:
    """Tell a copy from a mere mark that could be made of what is damaged."""
    if size(path) or size(path + LOG):
        return bool(size(path + ASIDE))
    return os.path.lexists(path + ASIDE)


def keep_aside(path: str, connection: sqlite3.Connection | None = None) -> None:
    """Copy a damaged database and its log, once; the database's own name comes last.

    With its connection given nobody else writes meanwhile, as far as it can still be locked.
    """
    if is_kept(path):
        return
    try:
        with _alone(path), _still(connection):
            if not is_kept(path):  # another may have been quicker
                _copy_both(path)
    except OSError as problem:
        text = f"No copy of the damaged {os.path.basename(path)} could be made: {problem}."
        raise StoreError(text, "Free some space.") from None


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """Keep others who copy it away, threads of ours as well: by a lock on the directory itself."""
    handle = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Where directories cannot be locked no copy takes the place of another, all the same.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _still(connection: sqlite3.Connection | None) -> Iterator[None]:
    """Keep writers away, as far as a damaged database can be locked."""
    if connection is None:
        yield
        return
    with contextlib.suppress(sqlite3.Error, StoreError):
        if not connection.in_transaction:
            sqlite3.Connection.execute(connection, "BEGIN IMMEDIATE")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.rollback()


def _copy_both(path: str) -> None:
    backup.drop_unfinished(path)
    _drop(path + ASIDE + LOG)  # of a killed process, which came no further
    has_log = bool(size(path + LOG))
    if has_log:
        _copy(path + LOG, path + ASIDE + LOG, _unfinished(path))
    # SQLite deletes the log of an empty file; a page of nothing keeps it from that.
    _copy(path, path + ASIDE, _unfinished(path), filler=_PAGE_BYTES if has_log else 0)
    sync_directory(path)


def _unfinished(path: str) -> str:
    return f"{path}{backup.COPYING}{secrets.token_hex(6)}"


def _copy(source: str, target: str, new: str, filler: int = 0) -> None:
    """Copy a file for nobody but us, whole or not at all, and never in the place of another."""
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as written:
            if size(source):
                with open(source, "rb") as stream:
                    while piece := stream.read(_PIECE_BYTES):
                        written.write(piece)
            else:
                written.write(bytes(filler))
            written.flush()
            os.fsync(handle)
        if os.path.lexists(target) and not size(target):
            os.replace(new, target)  # a mere mark
        else:
            os.link(new, target)
    finally:
        _drop(new)


def _drop(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


# The way back


def place(path: str, new: str) -> str:
    """Put a mended database in the place of the damaged one: from the first step on it stands."""
    os.replace(new, path + MENDED)
    sync_directory(path)
    return finish(path)


def finish(path: str) -> str:
    """Bring a repair to its end, also one that was killed; returns where the old file is kept.

    The old log goes first: SQLite would write it into the new file.
    """
    if not os.path.lexists(path + MENDED):
        return ""
    for suffix in (LOG, "-shm"):
        _drop(path + suffix)
    kept = retire(path)
    os.replace(path + MENDED, path)
    sync_directory(path)
    return kept


def retire(path: str) -> str:
    """Keep the copy of what was damaged under a name that says since when; returns that."""
    kept = f"{path}{backup.REPLACED}{clock.iso().replace(':', '')}"
    for suffix in (REASON, f"{ASIDE}-shm"):
        _drop(path + suffix)
    for suffix in (LOG, ""):
        if os.path.lexists(path + ASIDE + suffix):
            os.replace(path + ASIDE + suffix, kept + suffix)
    return kept
