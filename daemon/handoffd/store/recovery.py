"""Recovery of a damaged core.db: from its readable rows, and from the hourly copy.

The damaged file is copied aside first. The new file begins as the hourly copy (`backup.py`). A
table in which SQLite finds no error replaces that of the copy. Of any other table the readable rows
replace those of the copy with the same key. Erased rows do not come back, since the copy is deleted
before rows are erased.
"""

import contextlib
import errno
import os
import secrets
import shutil
import sqlite3
from dataclasses import asdict, dataclass, field
from typing import Any

from handoffd.errors import DamagedError, StoreError
from handoffd.runtime import clock
from handoffd.store import backup, damage, oauth
from handoffd.store.backup import sync_directory
from handoffd.store.damage import LOG, SHARED_MEMORY, size
from handoffd.store.database import migrate, refuse_newer, transaction
from handoffd.store.schema import SCHEMA

LOST = "it is gone or empty"
LOST_TITLE = "(its title was lost)"
UNKNOWN = '{"skipped": "it is unknown whether it was done: core.db was damaged"}'
# The suffix of the note beside the damaged file, which says which data may be missing.
NOTE = ".txt"
# The suffix of a new core.db that is complete and about to replace the damaged one.
_MENDED = ".mended"
# How many numbers are skipped if the used ones cannot be read, so that none is used twice.
_NUMBERS_SKIPPED = 100_000
# Pauses and the marks of forgotten data: rows of these that only the copy has are always kept.
_PRIVACY = ("pauses", "skips", "rewritten")
_PIECE_BYTES = 1 << 20

Row = tuple[Any, ...]


@dataclass(slots=True)
class RecoveredTable:
    """The number of rows that were read from a table, and of rows that only the copy had.

    `whole` is False if some of its rows could not be read.
    """

    read: int = 0
    copied: int = 0
    whole: bool = True


@dataclass(slots=True)
class Recovered:
    """The result of a recovery; `kept` is the damaged file, `copy_at` the time of the copy."""

    problem: str
    kept: str
    copy_at: str | None = None
    # True if it is unknown which projects are paused or were forgotten.
    all_paused: bool = False
    tables: dict[str, RecoveredTable] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        return asdict(self)

    def describe(self) -> str:
        """Return a few sentences about the result, and about data that may be missing."""
        read = sum(table.read for table in self.tables.values())
        text = f"core.db was damaged ({self.problem}) and is mended: {read} rows were read from it"
        copied = sum(table.copied for table in self.tables.values())
        if self.copy_at and copied:
            text += f", {copied} were taken from the copy of {self.copy_at}"
        if all(table.whole for table in self.tables.values()):
            text += "; every table could be read to its end."
        elif self.copy_at:
            text += f". What was written after {self.copy_at} and could not be read is missing."
        else:
            text += ". There was no good copy: what could not be read is missing."
        if self.all_paused:
            text += (
                " It is unknown what was paused or forgotten, so everything up to now is left"
                " alone. Go on with: handoff unpause."
            )
        return f"{text} The damaged file is kept at {self.kept}."


def refusal(why: str) -> DamagedError:
    return DamagedError(f"core.db is damaged ({why}).", "Mend it with: handoff repair")


def find_problem(path: str, check: str = "quick_check(1)") -> str:
    """Return the problem of core.db, or an empty text; the file is not changed."""
    if is_lost(path):
        return LOST
    if not os.path.lexists(path):
        return ""
    if not os.path.isfile(path) or os.path.islink(path):
        raise StoreError(f"{path} is no file.", "Move it away, then run: handoff restart")
    return damage.examine(path, check) if size(path) else ""


def is_lost(path: str) -> bool:
    """Return True if the file is missing or empty although its copy or its log exists.

    It must not be opened: SQLite would create a new file and delete the log.
    """
    return not size(path) and bool(size(path + backup.SUFFIX) or size(path + LOG))


def finish(path: str) -> None:
    """Complete a recovery that was killed after the new file was complete.

    The old log is deleted first, since SQLite would write it into the new file.
    """
    if os.path.lexists(path + _MENDED):
        for suffix in (LOG, SHARED_MEMORY):
            _drop(path + suffix)
        os.replace(path + _MENDED, path)
        sync_directory(path)


def recover(path: str, problem: str) -> Recovered:
    """Replace a damaged core.db; the caller holds the daemon's lock."""
    _refuse_newer(path)
    found = Recovered(problem, damage.name_aside(path))
    new = f"{path}{backup.MENDING}{secrets.token_hex(6)}"
    try:
        backup.drop_beside(path, backup.MENDING)
        _keep_aside(path, found.kept)
        _rebuild(path, found, new)
        with open(found.kept + NOTE, "x", encoding="utf-8", opener=_private) as note:
            note.write(f"{found.describe()}\n")
        os.replace(new, path + _MENDED)
        sync_directory(path)
    except (OSError, sqlite3.Error) as failure:
        text = f"core.db is damaged ({problem}) and could not be mended: {failure}."
        raise StoreError(text, _remedy(failure)) from None
    finally:
        _drop(new)
    finish(path)
    damage.prune_aside(path)
    return found


def _remedy(failure: OSError | sqlite3.Error) -> str:
    full = getattr(failure, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    if full or getattr(failure, "errno", 0) in (errno.ENOSPC, errno.EDQUOT):
        return "Free some space, then run: handoff repair"
    return "See whether the disk is read-only or failing: handoff doctor"


def notes(path: str) -> list[str]:
    """Return the notes about the damaged files that are still kept, the oldest first."""
    directory, name = os.path.split(path)
    listed = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    found = []
    for entry in listed:
        if entry.startswith(name + damage.ASIDE) and entry.endswith(NOTE):
            with contextlib.suppress(OSError), open(f"{directory}/{entry}", "rb") as stream:
                found.append(stream.read(4096).decode("utf-8", "replace").strip())
    return found


# The damaged file


def _refuse_newer(path: str) -> None:
    """Refuse a file of a newer version; an unreadable version is assumed to be ours."""
    if size(path):
        with (
            contextlib.suppress(*damage.FAILURES),
            contextlib.closing(damage.read_only(path)) as db,
        ):
            refuse_newer(db, path, SCHEMA)


def _keep_aside(path: str, aside: str) -> None:
    """Copy the file and its log as far as they can be read.

    They are copied, not moved, since SQLite writes to an open database when it closes it.
    """
    for suffix in (LOG, ""):
        with open(aside + suffix, "xb", opener=_private) as target:
            try:
                with open(path + suffix, "rb") as source:
                    while piece := source.read(_PIECE_BYTES):
                        target.write(piece)
            except OSError as problem:
                if problem.errno not in (errno.EIO, errno.ENOENT):
                    raise
            target.flush()
            os.fsync(target.fileno())
        if not size(aside + suffix):
            _drop(aside + suffix)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _drop(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


# The new file


def _rebuild(path: str, found: Recovered, new: str) -> None:
    """Write a new database to `new`, complete and on disk."""
    with open(new, "xb", opener=_private) as target:
        copy = path + backup.SUFFIX
        if size(copy) and not damage.examine(copy, "quick_check(1)"):
            found.copy_at = clock.iso(os.lstat(copy).st_mtime)
            with open(copy, "rb") as stream:
                shutil.copyfileobj(stream, target)
    with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as db:
        migrate(db, path, SCHEMA)
        with contextlib.closing(_open_damaged(found.kept)) as source, transaction(db):
            _mark_unfinished_work(db)
            errors = _integrity_errors(source)
            for name in _tables(db):
                # The name of an index contains the name of its table.
                doubtful = errors is None or name in errors or name in _PRIVACY
                found.tables[name] = _fill_table(db, source, name, doubtful=doubtful)
            _raise_sequences(db, source)
            _repair_references(db, found)
    _drop(found.kept + SHARED_MEMORY)
    if problem := damage.examine(new, "integrity_check(1)"):
        raise OSError(errno.EIO, f"the new file is damaged as well ({problem})")
    with open(new, "rb") as target:
        os.fsync(target.fileno())


def _open_damaged(aside: str) -> sqlite3.Connection:
    if not size(aside):
        return sqlite3.connect(":memory:", isolation_level=None)
    source = damage.read_only(aside)
    source.text_factory = lambda data: data.decode("utf-8", "replace")
    return source


def _mark_unfinished_work(db: sqlite3.Connection) -> None:
    """Mark the unfinished work in the copy: it may have been done since the copy was made."""
    db.execute("UPDATE triggers SET outcome = ? WHERE outcome IS NULL", (UNKNOWN,))
    db.execute("DELETE FROM outbox WHERE state = 'held'")
    # A letter may have been sent since then: with one attempt counted, the next one checks first.
    db.execute("UPDATE outbox SET attempts = max(attempts, 1)")
    # A client may have been revoked, or a token spent, since then.
    for table in oauth.TABLES:
        db.execute(f"DELETE FROM {table}")  # noqa: S608  a constant name


def _tables(db: sqlite3.Connection) -> list[str]:
    rows = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return [row[0] for row in rows]


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def _integrity_errors(source: sqlite3.Connection) -> str | None:
    """Return the errors that SQLite finds, or None if the check itself fails.

    The check is needed, since a table that lost a page may still be readable to its end.
    """
    with contextlib.suppress(*damage.FAILURES):
        return " ".join(row[0] for row in source.execute("PRAGMA integrity_check"))
    return None


def _fill_table(
    db: sqlite3.Connection, source: sqlite3.Connection, table: str, *, doubtful: bool
) -> RecoveredTable:
    """Insert the readable rows of a table; they replace those of the copy."""
    try:
        there = _columns(source, table)
    except damage.FAILURES:
        there = []
    columns = [name for name in _columns(db, table) if name in there]
    rows, whole = _read_rows(source, table, columns) if columns else ([], False)
    if whole and not doubtful:
        db.execute(f"DELETE FROM {table}")  # noqa: S608  a constant name
    elif table == "pauses":  # this table has no key
        db.executemany(
            "DELETE FROM pauses WHERE scope = ? AND started_at = ?", [r[:2] for r in rows]
        )
    marks = ", ".join("?" for _ in columns)
    insert = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
    read = 0
    for row in rows:
        # A garbled row may lack a required value.
        with contextlib.suppress(sqlite3.IntegrityError):
            read += db.execute(insert, row).rowcount
    total = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
    lost = read < len(rows) or (doubtful and table not in _PRIVACY)
    return RecoveredTable(read, max(total - read, 0), whole and not lost)


def _read_rows(
    source: sqlite3.Connection, table: str, columns: list[str]
) -> tuple[list[Row], bool]:
    """Return the rows that can be read from either end of a table, and True if these are all."""
    rows: dict[int, Row] = {}
    query = f"SELECT rowid, {', '.join(columns)} FROM {table} NOT INDEXED ORDER BY rowid"  # noqa: S608
    for order in ("ASC", "DESC"):
        try:
            for row in source.execute(f"{query} {order}"):
                rows[row[0]] = row[1:]
        except damage.FAILURES:
            continue
        return list(rows.values()), order == "ASC"
    return list(rows.values()), False


def _raise_sequences(db: sqlite3.Connection, source: sqlite3.Connection) -> None:
    """Prevent that a number is used twice, even the number of a lost row."""
    try:
        sequences = source.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    except damage.FAILURES:
        db.execute("UPDATE sqlite_sequence SET seq = seq + ?", (_NUMBERS_SKIPPED,))
        return
    for name, number in sequences:
        raised = "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?"
        if not db.execute(raised, (number, name)).rowcount:
            db.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, number))


def _repair_references(db: sqlite3.Connection, found: Recovered) -> None:
    """Restore threads that entries refer to; delete rows that refer to unknown ones."""
    if not found.copy_at and not all(found.tables[name].whole for name in _PRIVACY):
        # A paused or forgotten project must not be learned because that fact cannot be read.
        found.all_paused = True
        db.execute("INSERT INTO pauses VALUES ('*', 0, NULL)")
    db.execute(
        "DELETE FROM handoff_entries"
        " WHERE handoff_id IN (SELECT id FROM handoffs WHERE status = 'completed')"
    )
    db.execute(
        """INSERT INTO handoffs (id, title, status, created_at, updated_at)
        SELECT handoff_id, ?, 'active', min(created_at), max(created_at) FROM handoff_entries
        WHERE handoff_id NOT IN (SELECT id FROM handoffs) GROUP BY handoff_id""",
        (LOST_TITLE,),
    )
    for table, rowid, *_ in db.execute("PRAGMA foreign_key_check").fetchall():
        db.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))  # noqa: S608  a constant name
        found.tables[table].whole = False
    db.execute(
        """UPDATE handoffs SET content_bytes = (
            SELECT coalesce(sum(length(CAST(content AS BLOB))), 0)
            FROM handoff_entries WHERE handoff_id = handoffs.id
        )"""
    )
    births = db.execute("SELECT count(*) FROM birth").fetchone()[0]
    if not births or not found.tables["triggers"].whole:
        # It is unknown which triggers fired, so nothing older than now may fire.
        db.execute("DELETE FROM birth")
        db.execute("INSERT INTO birth VALUES (?)", (clock.iso_milliseconds(),))
