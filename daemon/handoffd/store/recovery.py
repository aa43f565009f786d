"""Recovery of a damaged core.db: from its readable rows, and from the hourly copy.

The damaged file is copied aside first. The new file begins as the copy (`backup.py`). A table of
which SQLite finds nothing wrong replaces the copy's; of any other table the readable rows replace
those of the copy with the same key. Erased rows do not come back, since the copy is dropped before
anything is erased.
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
from handoffd.store import backup, damage
from handoffd.store.backup import sync_directory
from handoffd.store.damage import LOG, SHARED_MEMORY, size
from handoffd.store.database import migrate, refuse_newer, transaction
from handoffd.store.schema import SCHEMA

LOST = "it is gone or empty"
LOST_TITLE = "(its title was lost)"
UNKNOWN = '{"skipped": "it is unknown whether it was done: core.db was damaged"}'
# Beside the damaged file: what may be missing.
NOTE = ".txt"
# A new core.db that is complete and about to replace the damaged one.
_MENDED = ".mended"
# Numbers that were given and cannot be read any more are not given again.
_NUMBERS_SKIPPED = 100_000
# Pauses, and what was forgotten: a row of these that only the copy has is always kept.
_PRIVACY = ("pauses", "skips", "rewritten")
_PIECE_BYTES = 1 << 20

Row = tuple[Any, ...]


@dataclass(slots=True)
class RecoveredTable:
    """What became of a table: the rows that were read, and those that only the copy had.

    `whole` is False if some of its rows could not be read.
    """

    read: int = 0
    copied: int = 0
    whole: bool = True


@dataclass(slots=True)
class Recovered:
    """What was saved; `kept` is the damaged file, `copy_at` the time of the copy, if any."""

    problem: str
    kept: str
    copy_at: str | None = None
    # It is unknown which projects are paused or were forgotten.
    all_paused: bool = False
    tables: dict[str, RecoveredTable] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        return asdict(self)

    def describe(self) -> str:
        """Say in a few sentences what was done and what may be missing."""
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
    """Return what is wrong with core.db, or an empty text; the file stays as it is."""
    if is_lost(path):
        return LOST
    if not os.path.lexists(path):
        return ""
    if not os.path.isfile(path) or os.path.islink(path):
        raise StoreError(f"{path} is no file.", "Move it away, then run: handoff restart")
    return damage.examine(path, check) if size(path) else ""


def is_lost(path: str) -> bool:
    """Return True if the file is gone or empty although its copy or its log is there.

    It must not be opened: SQLite would make a new one, and delete the log.
    """
    return not size(path) and bool(size(path + backup.SUFFIX) or size(path + LOG))


def finish(path: str) -> None:
    """Complete a recovery that was killed after the new file was complete.

    The old log goes first: SQLite would write it into the new file.
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
    """Return what was said of each damaged file that is still kept, oldest first."""
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
    """Refuse a file of a newer version; a version that cannot be read is taken for ours."""
    if size(path):
        with (
            contextlib.suppress(*damage.FAILURES),
            contextlib.closing(damage.read_only(path)) as db,
        ):
            refuse_newer(db, path, SCHEMA)


def _keep_aside(path: str, aside: str) -> None:
    """Copy the file and its log as far as they can be read.

    They are copied, not moved: SQLite writes to an open file when it is closed.
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
            _settle_copied_work(db)
            complaints = _complaints(source)
            for name in _tables(db):
                # The name of an index has that of its table in it.
                doubtful = complaints is None or name in complaints or name in _PRIVACY
                found.tables[name] = _fill(db, source, name, doubtful=doubtful)
            _raise_numbers(db, source)
            _reconnect(db, found)
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


def _settle_copied_work(db: sqlite3.Connection) -> None:
    """Mark the work under way in the copy: since then it may have been done."""
    db.execute("UPDATE triggers SET outcome = ? WHERE outcome IS NULL", (UNKNOWN,))
    db.execute("DELETE FROM outbox WHERE state = 'held'")
    # It may have been sent since: the next attempt looks first.
    db.execute("UPDATE outbox SET attempts = max(attempts, 1)")


def _tables(db: sqlite3.Connection) -> list[str]:
    rows = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return [row[0] for row in rows]


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def _complaints(source: sqlite3.Connection) -> str | None:
    """Return what SQLite finds wrong, or None if it cannot tell.

    A table that lost a page may still be read to its end.
    """
    with contextlib.suppress(*damage.FAILURES):
        return " ".join(row[0] for row in source.execute("PRAGMA integrity_check"))
    return None


def _fill(
    db: sqlite3.Connection, source: sqlite3.Connection, table: str, *, doubtful: bool
) -> RecoveredTable:
    """Put the readable rows of a table into the new one, over those of the copy."""
    try:
        there = _columns(source, table)
    except damage.FAILURES:
        there = []
    columns = [name for name in _columns(db, table) if name in there]
    rows, whole = _read(source, table, columns) if columns else ([], False)
    if whole and not doubtful:
        db.execute(f"DELETE FROM {table}")  # noqa: S608  a name of ours
    elif table == "pauses":  # which have no key
        db.executemany(
            "DELETE FROM pauses WHERE scope = ? AND started_at = ?", [r[:2] for r in rows]
        )
    marks = ", ".join("?" for _ in columns)
    insert = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
    read = 0
    for row in rows:
        # A garbled row may lack a value that it must have.
        with contextlib.suppress(sqlite3.IntegrityError):
            read += db.execute(insert, row).rowcount
    total = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
    lost = read < len(rows) or (doubtful and table not in _PRIVACY)
    return RecoveredTable(read, max(total - read, 0), whole and not lost)


def _read(source: sqlite3.Connection, table: str, columns: list[str]) -> tuple[list[Row], bool]:
    """Return the rows that can be read from either end of a table, and whether these are all."""
    rows: dict[int, Row] = {}
    asked = f"SELECT rowid, {', '.join(columns)} FROM {table} NOT INDEXED ORDER BY rowid"  # noqa: S608
    for order in ("ASC", "DESC"):
        try:
            for row in source.execute(f"{asked} {order}"):
                rows[row[0]] = row[1:]
        except damage.FAILURES:
            continue
        return list(rows.values()), order == "ASC"
    return list(rows.values()), False


def _raise_numbers(db: sqlite3.Connection, source: sqlite3.Connection) -> None:
    """See that no number is given twice, not even that of a row that is gone."""
    try:
        given = source.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    except damage.FAILURES:
        db.execute("UPDATE sqlite_sequence SET seq = seq + ?", (_NUMBERS_SKIPPED,))
        return
    for name, number in given:
        raised = "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?"
        if not db.execute(raised, (number, name)).rowcount:
            db.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, number))


def _reconnect(db: sqlite3.Connection, found: Recovered) -> None:
    """Give rows back the rows that they refer to; drop those that refer to unknown ones."""
    if not found.copy_at and not all(found.tables[name].whole for name in _PRIVACY):
        # A paused or forgotten project must not be learned because nobody can read that it is.
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
        db.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))  # noqa: S608  a name of ours
        found.tables[table].whole = False
    db.execute(
        """UPDATE handoffs SET content_bytes = (
            SELECT coalesce(sum(length(CAST(content AS BLOB))), 0)
            FROM handoff_entries WHERE handoff_id = handoffs.id
        )"""
    )
    born = db.execute("SELECT count(*) FROM birth").fetchone()[0]
    if not born or not found.tables["triggers"].whole:
        # It is unknown which triggers fired, so nothing older than now may fire.
        db.execute("DELETE FROM birth")
        db.execute("INSERT INTO birth VALUES (?)", (clock.iso_milliseconds(),))
