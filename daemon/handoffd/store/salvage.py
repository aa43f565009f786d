"""Reading a damaged core.db: every row that can still be read, of the file, its log and its copy.

What can be read goes into a new database. A table of which SQLite finds nothing wrong
is taken as it is: what is missing there was deleted. Any other may lack rows though it can be
read, so those of the copy fill the gap, and ours win by their key. What was erased does not come
back, since a copy that has it is dropped before anything is erased (backup.py).
"""

import contextlib
import os
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from handoffd import clock
from handoffd.errors import StoreError
from handoffd.store import backup
from handoffd.store.damage import ASIDE, Watched, has_copy, is_kept, no_json
from handoffd.store.database import migrate, refuse_newer, transaction
from handoffd.store.frames import Patched
from handoffd.store.schema import JSON, MIGRATIONS
from handoffd.store.wreck import Wreck, connect_anywhere, open_wreck, scratch

# How often a table is asked for what lies behind a damaged page.
_PROBES_MAX = 50_000
_GUESSED_ROWS = 1000
# Numbers that somebody was given and that nobody can read any more are not given again.
_NUMBERS_SKIPPED = 100_000
# What is known of pauses, and of what was forgotten, stands in these.
_SILENCES = ("pauses", "skips", "rewritten")
UNKNOWN = '{"skipped": "nobody knows whether it was done: core.db was damaged"}'
LOST_TITLE = "(its title was lost)"

Row = tuple[object, ...]


@dataclass(slots=True)
class Table:
    """What became of a table: rows that were read, that the copy had, and that are lost.

    `lost` is None where nobody can tell how many there were.
    """

    read: int = 0
    copied: int = 0
    lost: int | None = 0
    whole: bool = True


@dataclass(slots=True)
class Salvaged:
    """A new database with all that could be read; `copy_at` is the time of the copy, if any."""

    db: Watched
    tables: dict[str, Table] = field(default_factory=dict)
    copy_at: float = 0.0
    # What could be had of its log, where SQLite would have stopped at the damage.
    log: Patched | None = None
    # Nobody knows what is paused, or was forgotten.
    blind: bool = False
    # Nor which numbers were given.
    numberless: bool = False


def salvage(path: str, roots: Mapping[str, str] | None = None) -> Salvaged:
    """Read all that is left of a damaged database; `roots` are projects known from elsewhere.

    What is found goes to disk, since it may be large, or where that fails to memory.
    """
    try:
        return _salvage(path, roots or {}, on_disk=True)
    except (OSError, sqlite3.OperationalError, StoreError) as problem:
        if isinstance(problem, StoreError) and problem.__cause__ is None:
            raise
    return _salvage(path, roots or {}, on_disk=False)


def _salvage(path: str, roots: Mapping[str, str], *, on_disk: bool) -> Salvaged:
    found = _read(path, ASIDE if is_kept(path) else "", on_disk=on_disk)
    found.blind = not all(found.tables[name].whole for name in _SILENCES)
    if has_copy(path):
        copy = _read(path, backup.SUFFIX, on_disk=on_disk)
        found.copy_at = os.lstat(path + backup.SUFFIX).st_mtime
        if all(copy.tables[name].whole for name in _SILENCES):
            found.blind = False
        _fill(found, copy.db)
        copy.db.close()
    with transaction(found.db):
        if found.numberless:
            skip = "UPDATE sqlite_sequence SET seq = seq + ?"
            found.db.execute(skip, (_NUMBERS_SKIPPED,))
        _tie_up(found, roots)
    return found


def write(found: Salvaged, path: str) -> None:
    """Write what was salvaged to a new file for nobody but us, whole and on disk."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        found.db.execute("VACUUM INTO ?", (path,))
        os.fsync(handle)
    except sqlite3.Error as problem:
        os.unlink(path)
        raise StoreError(f"{path} could not be written: {problem}.", "Free some space.") from None
    finally:
        os.close(handle)


# One file


def _read(path: str, suffix: str, *, on_disk: bool) -> Salvaged:
    """Read what can be read of one file into a new database, and bring that up to date."""
    db = scratch(path) if on_disk else connect_anywhere(":memory:")
    db.execute("PRAGMA foreign_keys = OFF")
    wreck = open_wreck(path, suffix, on_disk=on_disk)
    source = wreck.db
    version = _version(source, path, len(MIGRATIONS))
    migrate(db, path, MIGRATIONS[:version])
    found = Salvaged(db, log=wreck.log)
    with transaction(db):
        for name in _tables(db):
            db.execute(f"DELETE FROM {name}")  # noqa: S608  a name of ours
            found.tables[name] = _copy_table(source, db, name)
            _doubt(found.tables[name], name, wreck)
        found.numberless = not _copy_numbers(source, db) or "sqlite_sequence" in wreck.stale
    source.close()
    migrate(db, path, MIGRATIONS)
    for name in _tables(db):
        found.tables.setdefault(name, Table())
    return found


def _doubt(table: Table, name: str, wreck: Wreck) -> None:
    if name in wreck.doubtful:
        table.whole = False
    if name in wreck.stale and table.lost == 0:
        table.lost = None


def _version(source: sqlite3.Connection, path: str, known: int) -> int:
    """Return the version of a file's schema; one that cannot be read is taken for ours."""
    try:
        version = int(source.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError:
        return known
    refuse_newer(source, path, known)
    return version or known


def _tables(db: sqlite3.Connection) -> list[str]:
    rows = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return [row[0] for row in rows]


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def _copy_table(source: sqlite3.Connection, db: sqlite3.Connection, table: str) -> Table:
    try:
        there = _columns(source, table)
        known = source.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.DatabaseError:
        there, known = [], 0
    if not there:
        return Table() if known else Table(lost=None, whole=False)
    columns = ", ".join(name for name in _columns(db, table) if name in there)
    reading = _Reading(source, table, columns)
    marks = ", ".join("?" for _ in range(columns.count(",") + 2))
    insert = f"INSERT OR IGNORE INTO {table} (rowid, {columns}) VALUES ({marks})"  # noqa: S608
    taken = [db.execute(insert, row).rowcount for row in reading.rows()]
    read = sum(taken) - _drop_garbled(db, table)
    counts = [len(taken), *_counts(source, table)]
    lost = max(counts) - read if len(counts) > 1 or not reading.damaged else None
    return Table(read, lost=lost, whole=lost == 0)


def _drop_garbled(db: sqlite3.Connection, table: str) -> int:
    """Remove rows with what should be JSON and is none; returns how many."""
    return sum(
        db.execute(f"DELETE FROM {table} WHERE {no_json(column)}").rowcount  # noqa: S608
        for column in JSON.get(table, ())
    )


def _counts(source: sqlite3.Connection, table: str) -> Iterator[int]:
    """Yield how many rows there are by each index: a page of the table may lack without a trace."""
    clauses = ["NOT INDEXED"]
    with contextlib.suppress(sqlite3.DatabaseError):
        listed = source.execute(f"PRAGMA index_list({table})").fetchall()
        clauses += [f"INDEXED BY {row[1]}" for row in listed]
    for clause in clauses:
        with contextlib.suppress(sqlite3.DatabaseError):
            # Not count(*), which takes whatever index it likes.
            count = f"SELECT coalesce(sum(1), 0) FROM {table} {clause}"  # noqa: S608  names of ours
            yield int(source.execute(count).fetchone()[0])


class _Reading:
    """Reads a table from both ends up to the damage, then whatever lies between."""

    def __init__(self, source: sqlite3.Connection, table: str, columns: str) -> None:
        self._source = source
        self._select = f"SELECT rowid, {columns} FROM {table} NOT INDEXED"  # noqa: S608
        self.damaged = False
        self._failed = False

    def rows(self) -> Iterator[Row]:
        last = 0
        for row in self._ask("ORDER BY rowid"):
            last = int(str(row[0]))
            yield row
        if not self._failed:
            return
        self.damaged = True
        first = last + 2 * max(last, _GUESSED_ROWS)
        for row in self._ask("WHERE rowid > ? ORDER BY rowid DESC", last):
            first = int(str(row[0]))
            yield row
        yield from self._between(last + 1, first - 1)

    def _between(self, low: int, high: int) -> Iterator[Row]:
        """Halve what cannot be read until the damage is all that is left; the widest first."""
        ranges = deque([(low, high)])
        for _ in range(_PROBES_MAX):
            if not ranges:
                return
            low, high = ranges.popleft()
            # One row alone is found without a look at the next, which may be damaged.
            if low == high:
                yield from self._ask("WHERE rowid = ?", low)
                continue
            for row in self._ask("WHERE rowid BETWEEN ? AND ? ORDER BY rowid", low, high):
                low = int(str(row[0])) + 1
                yield row
            if self._failed and low <= high:
                middle = (low + high) // 2
                ranges += [(low, middle), (middle + 1, high)] if low < high else [(low, low)]

    def _ask(self, clause: str, *values: int) -> Iterator[Row]:
        """Yield rows up to the first that cannot be read."""
        self._failed = False
        try:
            yield from self._source.execute(f"{self._select} {clause}", values)
        except sqlite3.DatabaseError:
            self._failed = True


def _copy_numbers(source: sqlite3.Connection, db: sqlite3.Connection) -> bool:
    """See that no number is given twice, also of rows that are gone; False: they are unknown."""
    try:
        given = source.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    except sqlite3.DatabaseError:
        return False
    _raise_numbers(db, given)
    return True


# The copy


def _fill(found: Salvaged, copy: sqlite3.Connection) -> None:
    """Fill the gaps with what the copy has; what it says of work under way may be over."""
    copy.execute("UPDATE triggers SET outcome = ? WHERE outcome IS NULL", (UNKNOWN,))
    copy.execute("DELETE FROM outbox WHERE state = 'held'")
    # It may have been sent since: the next attempt looks first.
    copy.execute("UPDATE outbox SET attempts = max(attempts, 1)")
    with transaction(found.db):
        for name, table in found.tables.items():
            if not table.whole:
                table.copied = _fill_table(found.db, copy, name)
                if table.lost is not None:
                    table.lost = max(table.lost - table.copied, 0)
        given = copy.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
        _raise_numbers(found.db, given)


def _fill_table(db: sqlite3.Connection, copy: sqlite3.Connection, table: str) -> int:
    columns = _columns(db, table)
    marks = ", ".join("?" for _ in columns)
    where, taken = _condition(table)
    insert = f"INSERT OR IGNORE INTO {table} SELECT {marks} {where}"
    rows = copy.execute(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608
    places = [columns.index(name) for name in taken]
    return sum(
        db.execute(insert, (*row, *(row[place] for place in places))).rowcount for row in rows
    )


def _condition(table: str) -> tuple[str, Sequence[str]]:
    """Return when a row of the copy is taken, where its key alone does not say it."""
    if table == "handoff_entries":
        closed = "SELECT 1 FROM handoffs WHERE id = ? AND status = 'completed'"
        return f"WHERE NOT EXISTS ({closed})", ("handoff_id",)
    if table == "pauses":
        known = "SELECT 1 FROM pauses WHERE scope = ? AND started_at = ?"
        return f"WHERE NOT EXISTS ({known})", ("scope", "started_at")
    if table == "birth":
        return "WHERE NOT EXISTS (SELECT 1 FROM birth)", ()
    return "", ()


def _raise_numbers(db: sqlite3.Connection, given: list[tuple[str, int]]) -> None:
    for name, number in given:
        done = db.execute(
            "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (number, name)
        )
        if not done.rowcount:
            db.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, number))


# What belongs together


def _tie_up(found: Salvaged, roots: Mapping[str, str]) -> None:
    """Give back to rows what they refer to; what refers to nothing that is known is lost."""
    db = found.db
    if found.blind:
        # What is paused, or was forgotten, must not be learned because nobody can read it.
        db.execute("INSERT INTO pauses VALUES ('*', 0, NULL)")
    db.execute(
        """INSERT INTO handoffs (id, title, status, created_at, updated_at)
        SELECT handoff_id, ?, 'active', min(created_at), max(created_at) FROM handoff_entries
        WHERE handoff_id NOT IN (SELECT id FROM handoffs) GROUP BY handoff_id""",
        (LOST_TITLE,),
    )
    for project_id, root in roots.items():
        row = (project_id, root, clock.iso())
        db.execute("INSERT OR IGNORE INTO projects VALUES (?, ?, ?)", row)
    for table, rowid, *_ in db.execute("PRAGMA foreign_key_check").fetchall():
        db.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))  # noqa: S608  a name of ours
        found.tables[table].lost = None
    db.execute(
        """UPDATE handoffs SET content_bytes = (
            SELECT coalesce(sum(length(CAST(content AS BLOB))), 0)
            FROM handoff_entries WHERE handoff_id = handoffs.id
        )"""
    )
    born = db.execute("SELECT count(*) FROM birth").fetchone()[0]
    if not born or not found.tables["triggers"].whole:
        # What fired before is not known any more, so nothing that was before may fire.
        db.execute("DELETE FROM birth")
        db.execute("INSERT INTO birth VALUES (?)", (clock.iso_milliseconds(),))
