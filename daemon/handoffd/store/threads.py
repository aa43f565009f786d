"""The threads in core.db: the SQLite implementation of the ThreadStore."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from handoffd.errors import CompletedThreadError, NoThreadError, ThreadError
from handoffd.store.database import transaction
from handoffd.store.thread_store import (
    ACTIVE,
    COMPLETED,
    Counts,
    Kept,
    NewEntry,
    NewMark,
    Thread,
    ThreadEntry,
    Unread,
    Whole,
    size,
)

# How many calls are stored, so that a repeated call is not executed twice.
_CALLS_KEPT = 10_000
_ENTRY = "seq, handoff_id, from_client, type, content, created_at"

# The first two tables are specified: a database that another program created with them is
# used as it is.
THREADS_SQL = (
    """CREATE TABLE IF NOT EXISTS handoffs (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        project TEXT,
        chat_last_seen INTEGER DEFAULT 0,
        code_last_seen INTEGER DEFAULT 0,
        status TEXT DEFAULT 'active',
        created_at TEXT,
        updated_at TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS handoff_entries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        handoff_id TEXT NOT NULL REFERENCES handoffs(id),
        from_client TEXT NOT NULL,
        type TEXT NOT NULL,
        content TEXT NOT NULL,
        created_at TEXT
    )""",
    "CREATE INDEX IF NOT EXISTS idx_handoff_entries_handoff ON handoff_entries(handoff_id)",
    # The size of a thread: the cost of a sum per new entry would grow with the thread.
    "ALTER TABLE handoffs ADD COLUMN content_bytes INTEGER NOT NULL DEFAULT 0",
    """UPDATE handoffs SET content_bytes = (
        SELECT coalesce(sum(length(CAST(content AS BLOB))), 0)
        FROM handoff_entries WHERE handoff_id = handoffs.id
    )""",
    # A caller that lost its connection repeats its call with the same key.
    """CREATE TABLE thread_calls (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        handoff_id TEXT NOT NULL,
        seq INTEGER NOT NULL
    )""",
    # The projects in which Code used a thread: its unread entries are mentioned there.
    """CREATE TABLE thread_uses (
        handoff_id TEXT NOT NULL REFERENCES handoffs(id),
        project_id TEXT NOT NULL,
        PRIMARY KEY (handoff_id, project_id)
    )""",
)
# The last entry that each side was shown. A side that writes has seen what it was shown, but not
# what came meanwhile.
SHOWN_SQL = (
    "ALTER TABLE handoffs ADD COLUMN chat_shown INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE handoffs ADD COLUMN code_shown INTEGER NOT NULL DEFAULT 0",
)


class SqliteThreads:
    """The threads in core.db; `before_delete` is called before entries are deleted."""

    def __init__(self, db: sqlite3.Connection, before_delete: Callable[[], None]) -> None:
        self._db = db
        self._before_delete = before_delete

    def create(
        self, thread_id: str, title: str, project: str | None, new: NewEntry
    ) -> tuple[Thread, ThreadEntry]:
        """Create a thread with its first entry, which counts as read by its author."""
        with transaction(self._db):
            earlier = self._earlier_result(new)
            if earlier is not None:
                return earlier
            self._db.execute(
                "INSERT INTO handoffs (id, title, project, status, created_at, updated_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (thread_id, title, project, ACTIVE, new.at, new.at),
            )
            entry = self._append(thread_id, new)
            self._set_last_seen(thread_id, new.client, entry.seq)
            return self._thread(thread_id), entry

    def read(self, thread_id: str) -> Whole:
        with transaction(self._db, writing=False):
            return self._whole(thread_id)

    def note_shown(self, thread_id: str, client: str, seq: int) -> None:
        """Store the last entry that a side was shown, without waiting for the disk.

        If it is lost, the entry is only shown as new once more.
        """
        if seq <= self._shown(thread_id, client):
            return
        column = _column(client, "shown")
        with self._not_durable(), transaction(self._db):
            self._db.execute(
                f"UPDATE handoffs SET {column} = max({column}, ?) WHERE id = ?",  # noqa: S608
                (seq, thread_id),
            )

    def add(self, thread_id: str, new: NewEntry, size_max: int) -> tuple[Thread, ThreadEntry]:
        """Append an entry; its author has seen it, and the entries that the author was shown."""
        with transaction(self._db):
            earlier = self._earlier_result(new)
            if earlier is not None:
                return earlier
            thread = self._thread(thread_id)
            if thread.status == COMPLETED:
                raise CompletedThreadError(f"Handoff '{thread_id}' is already completed.")
            if self._size(thread_id) + size(new.content) > size_max:
                raise ThreadError(
                    f"Handoff '{thread_id}' is full: its entries may have {size_max >> 20} MiB "
                    "in all.",
                    "Close it, or create another one.",
                )
            seen = max(thread.last_seen(new.client), self._shown(thread_id, new.client))
            unseen = self._db.execute(
                "SELECT 1 FROM handoff_entries"
                " WHERE handoff_id = ? AND seq > ? AND from_client != ?",
                (thread_id, seen, new.client),
            ).fetchone()
            entry = self._append(thread_id, new)
            self._set_last_seen(thread_id, new.client, seen if unseen else entry.seq)
            return self._thread(thread_id), entry

    def mark(self, thread_id: str, mark: NewMark, at: str) -> Thread:
        """Advance a side's cursor to the last entry, or to `up_to`; it never goes back."""
        with transaction(self._db):
            thread = self._thread(thread_id)
            # A repetition would mark entries that have come since.
            if self._earlier_call(mark.once):
                return thread
            last = self._db.execute(
                "SELECT max(seq) FROM handoff_entries WHERE handoff_id = ?", (thread_id,)
            ).fetchone()[0]
            seen = last or 0 if mark.up_to is None else min(mark.up_to, last or 0)
            if seen > thread.last_seen(mark.client):
                self._set_last_seen(thread_id, mark.client, seen)
            self._store_call(mark.once, thread_id, seen)
            self._db.execute("UPDATE handoffs SET updated_at = ? WHERE id = ?", (at, thread_id))
            return self._thread(thread_id)

    def close(self, thread_id: str, at: str, before: Callable[[Whole], Kept]) -> Thread:
        """Delete the entries and complete the thread; a completed thread is not changed."""
        with transaction(self._db):
            thread, entries = self._whole(thread_id)
            if thread.status == COMPLETED:
                return thread
            title, project = before((thread, entries))
            self._before_delete()
            self._db.execute("DELETE FROM handoff_entries WHERE handoff_id = ?", (thread_id,))
            self._db.execute(
                "UPDATE handoffs SET title = ?, project = ?, status = ?, updated_at = ?,"
                " content_bytes = 0 WHERE id = ?",
                (title, project, COMPLETED, at, thread_id),
            )
            return self._thread(thread_id)

    def note_use(self, thread_id: str, project_id: str) -> bool:
        """Store a use without waiting for the disk, since only a mention could be lost."""
        if project_id in self.users(thread_id):
            return False
        with self._not_durable(), transaction(self._db):
            self._db.execute(
                "INSERT OR IGNORE INTO thread_uses (handoff_id, project_id) VALUES (?, ?)",
                (thread_id, project_id),
            )
        return True

    def users(self, thread_id: str) -> list[str]:
        """Return the projects in which Code used a thread."""
        rows = self._db.execute(
            "SELECT project_id FROM thread_uses WHERE handoff_id = ?", (thread_id,)
        )
        return [row[0] for row in rows]

    def unread(self, project_id: str) -> list[Unread]:
        """Return the threads that a project used and that have entries unread by Code."""
        rows = self._db.execute(
            """SELECT used.handoff_id, count(*), max(entry.seq) FROM thread_uses AS used
            JOIN handoffs ON handoffs.id = used.handoff_id
            JOIN handoff_entries AS entry ON entry.handoff_id = used.handoff_id
            WHERE used.project_id = ? AND entry.from_client != 'code'
            AND entry.seq > coalesce(handoffs.code_last_seen, 0)
            GROUP BY used.handoff_id ORDER BY max(entry.seq) DESC""",
            (project_id,),
        )
        return [Unread(*row) for row in rows]

    def counts(self) -> Counts:
        unread = (
            "EXISTS (SELECT 1 FROM handoff_entries AS entry WHERE entry.handoff_id = handoffs.id"
            " AND entry.seq > coalesce({0}_last_seen, 0) AND entry.from_client != '{0}')"
        )
        row = self._db.execute(
            f"SELECT count(*), coalesce(sum({unread.format('chat')}), 0),"  # noqa: S608  constant names
            f" coalesce(sum({unread.format('code')}), 0)"
            " FROM handoffs WHERE coalesce(status, 'active') = ?",
            (ACTIVE,),
        ).fetchone()
        return Counts(*row)

    @contextmanager
    def _not_durable(self) -> Iterator[None]:
        """Commit without waiting for the disk."""
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def _whole(self, thread_id: str) -> Whole:
        thread = self._thread(thread_id)
        rows = self._db.execute(
            f"SELECT {_ENTRY} FROM handoff_entries WHERE handoff_id = ? ORDER BY seq",  # noqa: S608
            (thread_id,),
        )
        return thread, [ThreadEntry(*row) for row in rows]

    def _thread(self, thread_id: str) -> Thread:
        row = self._db.execute(
            "SELECT id, title, project, coalesce(chat_last_seen, 0), coalesce(code_last_seen, 0),"
            " coalesce(status, 'active'), created_at, updated_at FROM handoffs WHERE id = ?",
            (thread_id,),
        ).fetchone()
        if row is None:
            raise NoThreadError(f"Handoff '{thread_id}' not found.")
        return Thread(*row)

    def _append(self, thread_id: str, new: NewEntry) -> ThreadEntry:
        seq = self._db.execute(
            "INSERT INTO handoff_entries (handoff_id, from_client, type, content, created_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (thread_id, new.client, new.type, new.content, new.at),
        ).lastrowid
        assert seq is not None  # noqa: S101  an INSERT that did not raise has a row
        self._db.execute(
            "UPDATE handoffs SET content_bytes = content_bytes + ?, updated_at = ? WHERE id = ?",
            (size(new.content), new.at, thread_id),
        )
        self._store_call(new.once, thread_id, seq)
        return ThreadEntry(seq, thread_id, new.client, new.type, new.content, new.at)

    def _earlier_result(self, new: NewEntry) -> tuple[Thread, ThreadEntry] | None:
        """Return the result of this call if it was executed before."""
        row = self._earlier_call(new.once)
        if row is None:
            return None
        found = self._db.execute(
            f"SELECT {_ENTRY} FROM handoff_entries WHERE seq = ?",  # noqa: S608
            (row[1],),
        ).fetchone()
        # The thread was closed since: the entry was appended, and then deleted.
        as_given = (row[1], row[0], new.client, new.type, new.content, new.at)
        return self._thread(row[0]), ThreadEntry(*(found or as_given))

    def _earlier_call(self, key: str) -> tuple[str, int] | None:
        """Return the thread and the entry of a call that was executed before."""
        found: tuple[str, int] | None = self._db.execute(
            "SELECT handoff_id, seq FROM thread_calls WHERE key = ?", (key,)
        ).fetchone()
        return found

    def _store_call(self, key: str, thread_id: str, seq: int) -> None:
        if not key:
            return
        self._db.execute(
            "INSERT INTO thread_calls (key, handoff_id, seq) VALUES (?, ?, ?)",
            (key, thread_id, seq),
        )
        self._db.execute(
            "DELETE FROM thread_calls WHERE number <= last_insert_rowid() - ?", (_CALLS_KEPT,)
        )

    def _size(self, thread_id: str) -> int:
        row = self._db.execute("SELECT content_bytes FROM handoffs WHERE id = ?", (thread_id,))
        return int(row.fetchone()[0])

    def _shown(self, thread_id: str, client: str) -> int:
        row = self._db.execute(
            f"SELECT {_column(client, 'shown')} FROM handoffs WHERE id = ?",  # noqa: S608
            (thread_id,),
        ).fetchone()
        return int(row[0]) if row else 0

    def _set_last_seen(self, thread_id: str, client: str, seq: int) -> None:
        column = _column(client, "last_seen")
        self._db.execute(
            f"UPDATE handoffs SET {column} = ? WHERE id = ?",  # noqa: S608  a constant name
            (seq, thread_id),
        )


def _column(client: str, what: str) -> str:
    return f"code_{what}" if client == "code" else f"chat_{what}"
