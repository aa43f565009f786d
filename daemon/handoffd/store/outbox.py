"""Letters to other programs: queued together with their subject, sent later, and never twice.

A letter is held until the file that it names exists, then waits until it is sent, and ends as sent
or dead. Of a sent letter the body is deleted, and its row is kept for 90 days, so that its key is
not queued again.
"""

import sqlite3
from typing import Any, NamedTuple

from handoffd.runtime import clock
from handoffd.store.database import savepoint, transaction

KEPT_DAYS = 90

OUTBOX_SQL = (
    """CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        project_id TEXT NOT NULL,
        root TEXT NOT NULL,
        key TEXT NOT NULL,
        target TEXT NOT NULL,
        body TEXT NOT NULL,
        state TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        problem TEXT NOT NULL DEFAULT '',
        queued_at TEXT NOT NULL,
        sent_at TEXT NOT NULL DEFAULT '',
        not_before REAL NOT NULL DEFAULT 0,
        UNIQUE (kind, key)
    )""",
    "CREATE INDEX outbox_state ON outbox (state, id)",
)
_FIELDS = """id, kind, project_id, root, key, target, body, attempts, problem, queued_at,
    state = 'dead', not_before"""


class Letter(NamedTuple):
    """A message to another program; `attempts` counts the attempts that were begun."""

    id: int
    kind: str
    project_id: str
    root: str
    key: str
    target: str
    body: str
    attempts: int = 0
    problem: str = ""
    queued_at: str = ""
    dead: bool = False
    not_before: float = 0.0


class Outbox:
    """The letters in one database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def queue(  # noqa: PLR0913, PLR0917  the columns of a letter
        self,
        kind: str,
        project_id: str,
        root: str,
        key: str,
        target: str,
        body: str,
        at: str,
    ) -> bool:
        """Queue a letter as held; return False if its kind and key are or were in the queue.

        The call may be part of a transaction, so that a letter and its subject are stored together.
        """
        with savepoint(self._db):
            done = self._db.execute(
                """INSERT OR IGNORE INTO outbox
                    (kind, project_id, root, key, target, body, state, queued_at)
                    VALUES (?, ?, ?, ?, ?, ?, 'held', ?)""",
                (kind, project_id, root, key, target, body, at),
            )
        return done.rowcount == 1

    def release(self, key: str) -> None:
        """Allow the letters of a key to be sent: the file that they name exists."""
        with savepoint(self._db):
            self._db.execute(
                "UPDATE outbox SET state = 'waiting' WHERE key = ? AND state = 'held'", (key,)
            )

    def drop_held(self, key: str) -> None:
        """Delete the held letters of a key: the file that they name will not exist."""
        with savepoint(self._db):
            self._db.execute("DELETE FROM outbox WHERE key = ? AND state = 'held'", (key,))

    def unsent(self) -> list[Letter]:
        """Return the letters that were not sent: held, waiting or dead."""
        return self._letters("state != 'sent' ORDER BY id")

    def due(
        self, now: float, most: int, *, kinds: tuple[str, ...] = (), key: str = ""
    ) -> list[Letter]:
        """Return the letters to be sent now, the oldest first.

        A letter waits for the earlier ones to the same target, so that they arrive in order.
        """
        earlier = """NOT EXISTS (SELECT 1 FROM outbox AS earlier WHERE earlier.state = 'waiting'
            AND earlier.id < outbox.id AND earlier.kind = outbox.kind
            AND earlier.project_id = outbox.project_id AND earlier.target = outbox.target)"""
        conditions = ["state = 'waiting' AND not_before <= ?", earlier]
        values: list[Any] = [now]
        if kinds:
            conditions.append(f"kind IN ({', '.join('?' for _ in kinds)})")
            values += kinds
        if key:
            conditions.append("key = ?")
            values.append(key)
        return self._letters(f"{' AND '.join(conditions)} ORDER BY id LIMIT ?", *values, most)

    def begin(self, letter: Letter, until: float) -> bool:
        """Count an attempt before it is made: after a crash the letter may have arrived.

        Return False if another sender has begun it meanwhile. Until the time `until`, no other
        sender takes the letter.
        """
        with transaction(self._db):
            done = self._db.execute(
                """UPDATE outbox SET attempts = attempts + 1, not_before = ?
                    WHERE id = ? AND state = 'waiting' AND attempts = ?""",
                (until, letter.id, letter.attempts),
            )
        return done.rowcount == 1

    def sent(self, letter_id: int, at: str) -> None:
        """Mark a letter as sent, delete its body, and delete old sent letters."""
        old = clock.iso(clock.parse(at) - KEPT_DAYS * clock.DAY_SECONDS)
        with transaction(self._db):
            self._db.execute(
                """UPDATE outbox SET state = 'sent', sent_at = ?, body = '', problem = ''
                    WHERE id = ?""",
                (at, letter_id),
            )
            self._db.execute("DELETE FROM outbox WHERE state = 'sent' AND sent_at < ?", (old,))

    def failed(self, letter_id: int, problem: str, not_before: float, dead: bool) -> None:
        with transaction(self._db):
            self._db.execute(
                "UPDATE outbox SET state = ?, problem = ?, not_before = ? WHERE id = ?",
                ("dead" if dead else "waiting", problem, not_before, letter_id),
            )

    def dead(self) -> list[Letter]:
        """Return the letters that are not retried automatically."""
        return self._letters("state = 'dead' ORDER BY id")

    def waiting(self) -> int:
        return int(
            self._db.execute("SELECT count(*) FROM outbox WHERE state = 'waiting'").fetchone()[0]
        )

    def retry_dead(self) -> int:
        """Let dead and failed letters be sent again; return how many.

        One earlier attempt stays counted, since a letter may have arrived.
        """
        with transaction(self._db):
            done = self._db.execute(
                """UPDATE outbox SET state = 'waiting', not_before = 0, attempts = min(attempts, 1)
                    WHERE state = 'dead' OR (state = 'waiting' AND problem != '')"""
            )
        return done.rowcount

    def drop_dead(self) -> int:
        """Delete the dead letters; return how many there were."""
        with transaction(self._db):
            deleted = self._db.execute("DELETE FROM outbox WHERE state = 'dead'")
        return deleted.rowcount

    def _letters(self, condition: str, *values: Any) -> list[Letter]:
        rows = self._db.execute(
            f"SELECT {_FIELDS} FROM outbox WHERE {condition}",  # noqa: S608  constant words
            values,
        )
        return [Letter._make((*row[:-2], bool(row[-2]), row[-1])) for row in rows]
