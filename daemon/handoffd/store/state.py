"""state.db: data that can be rebuilt from transcripts. No other module has SQL about it."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from handoffd.errors import StoreError
from handoffd.store import damage
from handoffd.store.cursor import Cursor
from handoffd.store.database import (
    Schema,
    open_database,
    remedy,
    run_script,
    savepoint,
    scrub,
    transaction,
)

_CURSORS = (
    """CREATE TABLE cursors (
        transcript TEXT PRIMARY KEY,
        session_id TEXT NOT NULL,
        path TEXT NOT NULL,
        offset INTEGER NOT NULL,
        head BLOB NOT NULL,
        head_bytes INTEGER NOT NULL,
        tail BLOB NOT NULL,
        tail_bytes INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL
    )""",
    """CREATE TABLE sessions (
        session_id TEXT PRIMARY KEY,
        project_id TEXT,
        last_seconds REAL NOT NULL,
        headless INTEGER NOT NULL,
        fold_version INTEGER NOT NULL,
        fold TEXT NOT NULL
    )""",
    "CREATE INDEX sessions_by_project ON sessions (project_id, last_seconds)",
)
_HOOKS = (
    # Digests of the texts that each session was given, so that none is given twice.
    """CREATE TABLE told (
        session_id TEXT NOT NULL,
        what TEXT NOT NULL,
        PRIMARY KEY (session_id, what)
    )""",
    # The sessions whose clients have ended.
    "CREATE TABLE ended (session_id TEXT PRIMARY KEY, ended_at REAL NOT NULL)",
    # The last call of each kind of hook, and the version of the plugin that made it.
    "CREATE TABLE hooks (event TEXT PRIMARY KEY, heard_at REAL NOT NULL, plugin TEXT NOT NULL)",
)
_CHANGES = (
    # What a project's view said before and after each change: lists and texts as JSON.
    """CREATE TABLE changes (
        id INTEGER PRIMARY KEY,
        project_id TEXT NOT NULL,
        at REAL NOT NULL,
        field TEXT NOT NULL,
        before TEXT NOT NULL,
        after TEXT NOT NULL,
        session_id TEXT NOT NULL,
        receipt TEXT NOT NULL
    )""",
    "CREATE INDEX changes_by_project ON changes (project_id, id)",
    # How a client ended: `killed`, or an empty text.
    "ALTER TABLE ended ADD COLUMN how TEXT NOT NULL DEFAULT ''",
)
SCHEMA = Schema(2, run_script(*_CURSORS, *_HOOKS), (run_script(*_CHANGES),))
# The history of a project holds so many changes; the last one of each field is never deleted.
CHANGES_MAX = 400


@dataclass(frozen=True, slots=True)
class StoredSession:
    session_id: str
    project_id: str | None
    last_seconds: float
    headless: bool
    fold_version: int
    fold: str


class StoredEnd(NamedTuple):
    """The end of a session's client: its time, and `killed` if that was seen."""

    at: float
    how: str = ""


class Change(NamedTuple):
    """A change of a project's view: values and receipt as JSON, and the session that caused it."""

    at: float
    field: str
    before: str
    after: str
    session_id: str = ""
    receipt: str = "null"


class SessionStore(Protocol):
    """The states of sessions: as state.db has them, or folded anew from their transcripts."""

    def session(self, session_id: str) -> StoredSession | None: ...
    def sessions(
        self, project_id: str | None, limit: int, *, headless: bool | None = None
    ) -> list[StoredSession]: ...
    def session_ids_like(self, prefix: str) -> set[str]: ...
    def end_of(self, session_id: str) -> StoredEnd | None: ...
    def set_ended(self, session_id: str, end: StoredEnd | None) -> None: ...


class StateStore:
    """Cursors and folds; a cursor and its fold are always committed together."""

    def __init__(self, path: str) -> None:
        self.path = path
        # Called once when damage is found: every statement fails until the file is renewed.
        self.on_damage: Callable[[], None] = lambda: None
        self._open()

    def _open(self) -> None:
        self._db = open_database(self.path, durable=False, schema=SCHEMA)
        self._db.damaged = self._report_damage
        self.given_up = False

    def _report_damage(self, why: str) -> StoreError:
        if not self.given_up:
            self.given_up = True
            self.on_damage()
        return StoreError(f"state.db is damaged ({why}): it is being rebuilt.", "Try again.")

    def renew(self, moved_aside: str) -> None:
        """Move the damaged file aside and begin with an empty one.

        If that fails, the call can be repeated; until then every statement raises a StoreError.
        """
        # This comes first, since SQLite deletes the log by its name when it closes.
        self._db.close()
        self._db = sqlite3.connect(":memory:", factory=damage.WatchedConnection)
        self._db.closed = ("state.db was damaged, and no new one can be made.", "Free some space.")
        try:
            if os.path.lexists(moved_aside):  # an earlier attempt moved the file and then failed
                _drop_unfinished(self.path)
            else:
                move_aside(self.path, moved_aside)
            self._open()
        except (OSError, sqlite3.Error) as problem:
            text = f"state.db was damaged, and no new one can be made: {problem}."
            raise StoreError(text, "Free some space.") from None

    def close(self) -> None:
        self._db.close()

    def cursors(self) -> Iterator[Cursor]:
        for row in self._db.execute("SELECT * FROM cursors"):
            yield Cursor(*row)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Write to disk once for several commits; each of them is still atomic."""
        with transaction(self._db):
            yield

    def commit(self, cursor: Cursor, session: StoredSession | None) -> None:
        with savepoint(self._db):
            self._put_cursor(cursor)
            if session is not None:
                self._db.execute(
                    "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        session.session_id,
                        session.project_id,
                        session.last_seconds,
                        session.headless,
                        session.fold_version,
                        session.fold,
                    ),
                )

    def _put_cursor(self, cursor: Cursor) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO cursors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                cursor.transcript,
                cursor.session_id,
                cursor.path,
                cursor.offset,
                cursor.head,
                cursor.head_bytes,
                cursor.tail,
                cursor.tail_bytes,
                cursor.mtime_ns,
            ),
        )

    def forget_session(self, session_id: str) -> None:
        """Delete a fold and its cursors, so that the session is folded anew."""
        with savepoint(self._db):
            self._db.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))
            self._db.execute("DELETE FROM cursors WHERE session_id = ?", (session_id,))
            self._db.execute("DELETE FROM told WHERE session_id = ?", (session_id,))
            self._db.execute("DELETE FROM ended WHERE session_id = ?", (session_id,))

    def forget_cursors(self, session_id: str) -> None:
        """Delete the cursors of a session; its fold stays."""
        with savepoint(self._db):
            self._db.execute("DELETE FROM cursors WHERE session_id = ?", (session_id,))

    def session(self, session_id: str) -> StoredSession | None:
        row = self._db.execute(
            "SELECT * FROM sessions WHERE session_id = ?", (session_id,)
        ).fetchone()
        return StoredSession(*row) if row else None

    def sessions(
        self, project_id: str | None, limit: int, *, headless: bool | None = None
    ) -> list[StoredSession]:
        """Return sessions, of one project or of all, most recently active first."""
        # One condition for both cases would not use the index.
        within = "" if project_id is None else "project_id = ?1 AND"
        rows = self._db.execute(
            f"SELECT * FROM sessions WHERE {within} (?2 IS NULL OR headless = ?2)"  # noqa: S608
            " ORDER BY last_seconds DESC LIMIT ?3",
            (project_id, headless, limit),
        )
        return [StoredSession(*row) for row in rows]

    def cursor(self, transcript: str) -> Cursor | None:
        row = self._db.execute(
            "SELECT * FROM cursors WHERE transcript = ?", (transcript,)
        ).fetchone()
        return Cursor(*row) if row else None

    def session_ids(self, project_id: str) -> set[str]:
        rows = self._db.execute(
            "SELECT session_id FROM sessions WHERE project_id = ?", (project_id,)
        )
        return {row[0] for row in rows}

    def session_ids_like(self, prefix: str) -> set[str]:
        """Return the sessions whose id begins with a prefix."""
        rows = self._db.execute(
            "SELECT session_id FROM sessions WHERE substr(session_id, 1, ?) = ?",
            (len(prefix), prefix),
        )
        return {row[0] for row in rows}

    def sessions_before(self, limit_seconds: float, most: int) -> list[StoredSession]:
        """Return sessions without activity since a time, the oldest first."""
        rows = self._db.execute(
            "SELECT * FROM sessions WHERE last_seconds < ? ORDER BY last_seconds LIMIT ?",
            (limit_seconds, most),
        )
        return [StoredSession(*row) for row in rows]

    def active_projects(self, since_seconds: float) -> set[str]:
        """Return the projects with a session that was active since a time."""
        rows = self._db.execute(
            "SELECT DISTINCT project_id FROM sessions"
            " WHERE last_seconds >= ? AND project_id IS NOT NULL",
            (since_seconds,),
        )
        return {row[0] for row in rows}

    def given_texts(self, session_id: str) -> set[str]:
        """Return the digests of the texts that a session was given."""
        rows = self._db.execute("SELECT what FROM told WHERE session_id = ?", (session_id,))
        return {row[0] for row in rows}

    def add_given_texts(self, session_id: str, news: Iterable[str]) -> None:
        """Store the digests of texts that a session was given."""
        with savepoint(self._db):
            self._db.executemany(
                "INSERT OR IGNORE INTO told VALUES (?, ?)", [(session_id, what) for what in news]
            )

    def sweep(self) -> None:
        """Delete the rows of sessions that have no fold: empty or forgotten ones."""
        with savepoint(self._db):
            for table in ("told", "ended"):
                self._db.execute(
                    f"DELETE FROM {table} WHERE session_id NOT IN (SELECT session_id FROM sessions)"  # noqa: S608  constant names
                )

    def ended(self, since_seconds: float) -> dict[str, StoredEnd]:
        """Return the sessions whose clients ended after a time, with the end of each."""
        rows = self._db.execute(
            "SELECT session_id, ended_at, how FROM ended WHERE ended_at > ?", (since_seconds,)
        )
        return {session_id: StoredEnd(at, how) for session_id, at, how in rows}

    def end_of(self, session_id: str) -> StoredEnd | None:
        """Return the end of a session's client, however long ago it was."""
        row = self._db.execute(
            "SELECT ended_at, how FROM ended WHERE session_id = ?", (session_id,)
        ).fetchone()
        return StoredEnd(*row) if row else None

    def set_ended(self, session_id: str, end: StoredEnd | None) -> None:
        """Store when the client of a session ended; None: the client is running again."""
        with savepoint(self._db):
            self._db.execute("DELETE FROM ended WHERE session_id = ?", (session_id,))
            if end is not None:
                self._db.execute(
                    "INSERT INTO ended (session_id, ended_at, how) VALUES (?, ?, ?)",
                    (session_id, *end),
                )

    # The history of a project

    def last_values(self, project_id: str) -> dict[str, str]:
        """Return the last value of each field in the history of a project, as JSON."""
        rows = self._db.execute(
            "SELECT field, after, MAX(id) FROM changes WHERE project_id = ? GROUP BY field",
            (project_id,),
        )
        return {field: after for field, after, _ in rows}

    def add_changes(self, project_id: str, changes: Iterable[Change]) -> None:
        """Add changes to the history of a project, and delete the oldest beyond the limit."""
        with savepoint(self._db):
            self._db.executemany(
                "INSERT INTO changes (project_id, at, field, before, after, session_id, receipt)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(project_id, *change) for change in changes],
            )
            self._db.execute(
                "DELETE FROM changes WHERE project_id = ?1 AND id <= (SELECT id FROM changes"
                " WHERE project_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2) AND id NOT IN"
                " (SELECT MAX(id) FROM changes WHERE project_id = ?1 GROUP BY field)",
                (project_id, CHANGES_MAX),
            )

    def changes(self, project_id: str, limit: int) -> list[Change]:
        """Return the last changes of a project, the newest first."""
        rows = self._db.execute(
            "SELECT at, field, before, after, session_id, receipt FROM changes"
            " WHERE project_id = ? ORDER BY id DESC LIMIT ?",
            (project_id, limit),
        )
        return [Change(*row) for row in rows]

    def forget_changes(self, project_id: str, before: float | None = None) -> None:
        """Delete the history of a project, or only what is older than a time."""
        self._db.execute(
            "DELETE FROM changes WHERE project_id = ?1 AND (?2 IS NULL OR at < ?2)",
            (project_id, before),
        )

    def hooks(self) -> dict[str, tuple[float, str]]:
        """Return the last time of each kind of hook, and the version of the plugin."""
        rows = self._db.execute("SELECT event, heard_at, plugin FROM hooks ORDER BY event")
        return {event: (at, plugin) for event, at, plugin in rows}

    def note_hook(self, event: str, at: float, plugin: str) -> None:
        with savepoint(self._db):
            self._db.execute("INSERT OR REPLACE INTO hooks VALUES (?, ?, ?)", (event, at, plugin))

    def scrub(self) -> None:
        """Remove all erased bytes from the file and its log."""
        scrub(self._db, "state.db")

    def unusable_sessions(self, projects: Iterable[str]) -> list[str]:
        """Return the sessions whose fold is garbled, or whose project is not in `projects`."""
        rows = self._db.execute(
            "SELECT session_id FROM sessions WHERE NOT json_valid(fold)"
            " OR (project_id IS NOT NULL"
            " AND project_id NOT IN (SELECT value FROM json_each(?)))",
            (json.dumps(list(projects)),),
        )
        return [row[0] for row in rows]

    def outdated_sessions(self, fold_version: int) -> list[str]:
        """Return the sessions that another version has folded."""
        rows = self._db.execute(
            "SELECT session_id FROM sessions WHERE fold_version <> ?", (fold_version,)
        )
        return [row[0] for row in rows]

    def count_sessions(self, project_id: str | None = None) -> int:
        where = "" if project_id is None else "WHERE project_id = ?"
        values = () if project_id is None else (project_id,)
        row = self._db.execute(f"SELECT COUNT(*) FROM sessions {where}", values)  # noqa: S608
        return int(row.fetchone()[0])


def open_state(path: str, moved_aside: str) -> tuple[StateStore, bool]:
    """Open state.db; move a damaged one aside, since transcripts can rebuild it.

    The second value is True if a file was moved aside.
    """
    if not find_damage(path):
        return _opened(path), False
    move_aside(path, moved_aside)
    return _opened(path), True


def _opened(path: str) -> StateStore:
    try:
        return StateStore(path)
    except sqlite3.OperationalError as problem:
        # The file is locked, or the disk is full: that is not damage.
        raise StoreError(f"{path} cannot be opened: {problem}.", remedy(problem)) from None


def find_damage(path: str) -> str:
    """Return the problem of state.db, or an empty text; the file is not changed."""
    if not os.path.lexists(path):
        return ""
    if os.path.isdir(path) and not os.path.islink(path):
        return "it is a directory"
    if not damage.size(path):
        return "it is empty"
    return damage.examine(path, "quick_check(1)")


def _drop_unfinished(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        if os.path.lexists(path + suffix):
            os.unlink(path + suffix)


def move_aside(path: str, moved_aside: str) -> None:
    """Move a damaged database aside, with its log."""
    for suffix in ("", "-wal", "-shm"):
        if os.path.lexists(path + suffix):
            os.rename(path + suffix, moved_aside + suffix)
    damage.prune_aside(path)
