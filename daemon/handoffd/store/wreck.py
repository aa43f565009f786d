"""A damaged database, opened for reading: with its log as far as that can be read."""

import contextlib
import io
import os
import re
import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

from handoffd.store import backup
from handoffd.store.damage import Watched, log_fault, read_only, size
from handoffd.store.frames import Patched, patch

_COMPLAINTS_MAX = 1000


@dataclass(slots=True)
class Wreck:
    """`doubtful` are the tables that may lack rows; of `stale` nobody can tell how many."""

    db: sqlite3.Connection
    log: Patched | None = None
    doubtful: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)


def open_wreck(store: str, suffix: str, *, on_disk: bool) -> Wreck:
    """Open a file so that it stays as it is, and so does its log; an absent one is an empty one."""
    path = store + suffix
    if not size(path):
        return _nothing()
    found = _opened(path, new_name(store) if on_disk else "")
    found.db.execute("PRAGMA cell_size_check = ON")
    found.doubtful = _doubtful(found.db)
    if found.log is not None and found.log.stale:
        found.stale = _owners(found.db, found.log.stale)
        found.doubtful |= found.stale
    return found


def _opened(path: str, name: str) -> Wreck:
    if log_fault(path):
        if name:
            return _patched(path, name)
        with contextlib.suppress(OSError):
            return _patched_in_memory(path)
    with contextlib.suppress(sqlite3.DatabaseError):
        return Wreck(read_only(path))
    return _nothing()  # since no byte of it can be read


def _nothing() -> Wreck:
    return Wreck(sqlite3.connect(":memory:", isolation_level=None))


def _patched(path: str, name: str) -> Wreck:
    """Open a copy with all of the log that can be read: SQLite would stop at the damage.

    The copy has no name any more once it is open, so that nobody has to remove it.
    """
    try:
        with open(name, "x+b", opener=_private) as stream:
            log = patch(path, stream)
        db = read_only(name)
        with contextlib.suppress(sqlite3.DatabaseError):  # of page 1: every table will say so
            db.execute("PRAGMA schema_version")  # or it is not open yet
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
    return Wreck(db, log)


def _patched_in_memory(path: str) -> Wreck:
    whole = io.BytesIO()
    log = patch(path, whole)
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(whole.getvalue())
    return Wreck(db, log)


def scratch(path: str) -> Watched:
    """Make an empty database on disk, beside a damaged one, that goes with its connection."""
    name = new_name(path)
    os.close(_private(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
    try:
        db = connect_anywhere(name)
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("CREATE TABLE opened (x)")
        db.execute("DROP TABLE opened")
    finally:
        os.unlink(name)
    return db


def connect_anywhere(name: str) -> Watched:
    """Connect to what is filled by a thread, and used by the loop."""
    return sqlite3.connect(name, isolation_level=None, factory=Watched, check_same_thread=False)


def new_name(path: str) -> str:
    """Return a name that whoever mends or erases next removes, should it be left."""
    return f"{path}{backup.MENDING}{secrets.token_hex(6)}"


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CLOEXEC, 0o600)


def _doubtful(db: sqlite3.Connection) -> set[str]:
    """Return the tables in which SQLite finds something wrong, or in an index of which."""
    try:
        said = [row[0] for row in db.execute(f"PRAGMA integrity_check({_COMPLAINTS_MAX})")]
        known = db.execute("SELECT name, tbl_name, rootpage FROM sqlite_master").fetchall()
    except sqlite3.DatabaseError:
        return set()  # no table can be read as a whole
    words = set(re.findall(r"\w+", " ".join(said)))
    trees = set(re.findall(r"[Tt]ree (?:page )?(\d+)", " ".join(said)))
    return {table for name, table, root in known if name in words or str(root) in trees}


def _owners(db: sqlite3.Connection, pages: Iterable[int | None]) -> set[str]:
    """Return the tables that these pages are of; where that cannot be told, all of them."""
    tables = _ask(db, "SELECT name, tbl_name FROM sqlite_master")
    owners = _ask(db, "SELECT pageno, name FROM dbstat")  # without which some are built
    found = {owners.get(page) for page in pages}
    return {str(tables[name]) for name in (found if found <= tables.keys() else tables)}


def _ask(db: sqlite3.Connection, asked: str) -> dict[object, object]:
    found: dict[object, object] = {}
    with contextlib.suppress(sqlite3.DatabaseError):
        found.update(db.execute(asked))
    return found
