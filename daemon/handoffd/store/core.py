"""core.db: everything that cannot be rebuilt from transcripts. Its SQL is in this package only."""

import contextlib
import json
import os
import secrets
import sqlite3
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from typing import Any

from handoffd.errors import DamagedError, StoreError
from handoffd.runtime import clock
from handoffd.store import backup, damage, erasure, recovery
from handoffd.store.database import (
    BUSY_SECONDS,
    empty_log,
    open_database,
    remedy,
    savepoint,
    scrub,
    transaction,
)
from handoffd.store.erasure import Forgotten
from handoffd.store.item_marks import ItemMarks
from handoffd.store.ledger import Ledger
from handoffd.store.oauth import OAuthStore
from handoffd.store.outbox import Outbox
from handoffd.store.schema import SCHEMA
from handoffd.store.thread_store import ThreadStore
from handoffd.store.threads import SqliteThreads

EVERYTHING = "*"
# The maximum age of the copy while core.db changes.
COPY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that a person set, with its time and the session that was current then."""

    value: Any
    session_id: str
    set_at: str


@dataclass(frozen=True, slots=True)
class StoredContract:
    """The handoff that a session left behind, as last written by us.

    `written` is our own part of the file, and `intended` is the part that we were about to write.
    `stamp` identifies the version of the whole file. `session_time` is the time of the session's
    last record then, `persons_time` the time of the last edit by a person. `ended` is True if the
    session was considered ended.
    """

    session_id: str
    project_id: str
    path: str
    written: str
    intended: str
    stamp: str
    session_time: str
    persons_time: str = ""
    ended: bool = False


_COLUMNS = ", ".join(field.name for field in fields(StoredContract))


@dataclass(frozen=True, slots=True)
class Pause:
    """A period in which nothing may be learned, of one project or of all projects."""

    scope: str
    started_at: float
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class Skip:
    """Bytes of a transcript that are never read; `end` is None while the pause lasts."""

    start: int
    end: int | None
    scope: str


class CoreStore:
    """Threads, triggers, pauses and the values that a person set.

    A statement that meets damage raises a DamagedError. The daemon sets `on_damage` and then
    recovers; in any other program the error says to run `handoff repair`.
    """

    def __init__(self, path: str, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self.on_damage: Callable[[str], None] | None = None
        self.busy_seconds = busy_seconds
        self._open()

    def _open(self) -> None:
        if recovery.is_lost(self.path):
            raise recovery.refusal(recovery.LOST)
        try:
            self._db = open_database(
                self.path, durable=True, schema=SCHEMA, busy_seconds=self.busy_seconds
            )
        except damage.FAILURES as problem:
            if isinstance(problem, UnicodeDecodeError) or damage.is_damage(problem):
                raise recovery.refusal(damage.describe(problem)) from None
            text = f"{self.path} cannot be used: {problem}. It is left as it is."
            raise StoreError(text, remedy(problem)) from None
        self._db.damaged = self.report
        self.ledger = Ledger(self._db)
        self.outbox = Outbox(self._db)
        self.oauth = OAuthStore(self._db)
        self.item_marks = ItemMarks(self._db)
        # If we are killed between deletion and scrub, the missing copy shows that a scrub is due.
        self.threads: ThreadStore = SqliteThreads(self._db, self._drop_copies)

    def report(self, why: str) -> DamagedError:
        """Report damage, and return the error for the caller that met it."""
        if self.on_damage is None:
            return recovery.refusal(why)
        self.on_damage(why)
        return DamagedError(f"core.db is damaged ({why}). It is being mended.", "Try again.")

    def suspend(self) -> None:
        """Refuse all statements while the file is replaced: they would go to the old file."""
        self._db.closed = ("core.db was damaged and is being mended.", "Try again.")

    def resume(self) -> None:
        """Reopen the file at the path, which replaced the old one.

        The old connection was left open until now: when SQLite closes a database, it writes to the
        file, and deletes the log by its name.
        """
        self._db.close()
        self._open()

    def restore_deleted(self) -> bool:
        """Write the file anew if it was deleted: the open connection can still read its rows."""
        if os.path.lexists(self.path):
            return False
        try:
            written = backup.write(self._db, self.path, self.path)
        except (OSError, sqlite3.Error) as problem:
            text = f"core.db was deleted and could not be written anew: {problem}."
            raise StoreError(text, "Free some space.") from None
        if written:
            self.resume()
        return written

    def close(self) -> None:
        self._db.close()

    # The copy

    def scrub(self) -> None:
        """Remove all erased bytes from the file, its log and its copy."""
        self._require_sound()
        try:
            scrub(self._db, os.path.basename(self.path))
            backup.make(self._db, self.path)
        except StoreError:
            backup.drop(self.path)
            raise

    def shorten_log(self) -> None:
        """Copy the log into the file, and empty the log unless another connection reads.

        The first step may take long, but blocks no writer. The second step waits for no reader.
        """
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        empty_log(self._db, 0)

    def needs_copy(self) -> bool:
        """Return True if the copy is missing, a day old, or an hour old and the file has changed.

        The copy also has to be renewed if the oldest thread entry is newer: a new file is copied
        with its first entry.
        """
        age, now = backup.age_seconds(self.path), clock.wall()
        if age > clock.DAY_SECONDS or (age > COPY_SECONDS and backup.is_outdated(self.path)):
            return True
        # An entry in the future was written before the clock was set back.
        return now - age - 1.0 < self._oldest_entry_time() < now

    def back_up(self) -> None:
        """Make a new copy; scrub if there is none, since a scrub may have been interrupted."""
        if backup.exists(self.path):
            self._require_sound()
            backup.make(self._db, self.path)
        else:
            self.scrub()

    def renew_copy(self) -> None:
        """Make a new copy at once if there is one, so that it includes a new pause."""
        if backup.exists(self.path):
            with contextlib.suppress(StoreError):
                self.back_up()

    def _drop_copies(self) -> None:
        backup.drop_all(self.path)

    def _require_sound(self) -> None:
        """Check the file before the copy is replaced: the copy may have rows that the file lost."""
        found = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise self.report(found)

    def _oldest_entry_time(self) -> float:
        """Return the time of the oldest thread entry, or 0 if there is none."""
        query = "SELECT created_at FROM handoff_entries ORDER BY rowid LIMIT 1"
        row = self._db.execute(query).fetchone()
        return clock.parse(row[0] or "") if row else 0.0

    def project_id(self, root: str, created_at: str | None) -> str | None:
        """Return the opaque id of a project; with `created_at`, a new root gets an id."""
        row = self._db.execute("SELECT id FROM projects WHERE root = ?", (root,)).fetchone()
        if row:
            return str(row[0])
        if created_at is None:
            return None
        row = (secrets.token_hex(8), root, created_at)
        insert = "INSERT OR IGNORE INTO projects (id, root, created_at) VALUES (?, ?, ?)"
        with savepoint(self._db):
            self._db.execute(insert, row)
        return self.project_id(root, None)  # another process may have inserted it first

    def project_root(self, project_id: str) -> str | None:
        row = self._db.execute("SELECT root FROM projects WHERE id = ?", (project_id,)).fetchone()
        return str(row[0]) if row else None

    def settings(self, project_id: str) -> dict[str, Setting]:
        rows = self._db.execute(
            "SELECT field, value, session_id, set_at FROM settings WHERE project_id = ?",
            (project_id,),
        )
        return {row[0]: Setting(json.loads(row[1]), row[2], row[3]) for row in rows}

    def set_values(self, project_id: str, values: dict[str, Setting]) -> None:
        rows = [
            (project_id, field, json.dumps(found.value), found.session_id, found.set_at)
            for field, found in values.items()
        ]
        with transaction(self._db):
            self._db.executemany(
                "INSERT OR REPLACE INTO settings (project_id, field, value, session_id, set_at)"
                " VALUES (?, ?, ?, ?, ?)",
                rows,
            )

    def drop_values(self, project_id: str, fields: list[str]) -> None:
        with transaction(self._db):
            self._db.executemany(
                "DELETE FROM settings WHERE project_id = ? AND field = ?",
                [(project_id, field) for field in fields],
            )

    def checkpoint(self, project_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fields that were written last, and those that were intended last."""
        row = self._db.execute(
            "SELECT written, intended FROM checkpoints WHERE project_id = ?", (project_id,)
        ).fetchone()
        return (json.loads(row[0]), json.loads(row[1])) if row else ({}, {})

    def set_checkpoint(
        self, project_id: str, written: dict[str, Any], intended: dict[str, Any]
    ) -> None:
        with transaction(self._db):
            self._db.execute(
                "INSERT OR REPLACE INTO checkpoints (project_id, written, intended)"
                " VALUES (?, ?, ?)",
                (project_id, json.dumps(written), json.dumps(intended)),
            )

    def transcript_roots(self) -> list[str]:
        return [row[0] for row in self._db.execute("SELECT path FROM transcript_roots")]

    def learn_transcript_root(self, path: str) -> None:
        with transaction(self._db):
            self._db.execute("INSERT OR IGNORE INTO transcript_roots (path) VALUES (?)", (path,))

    def contract(self, session_id: str) -> StoredContract | None:
        row = self._db.execute(
            f"SELECT {_COLUMNS} FROM contracts WHERE session_id = ?",  # noqa: S608  constant names
            (session_id,),
        ).fetchone()
        return StoredContract(*row) if row else None

    def set_contract(self, stored: StoredContract) -> None:
        with transaction(self._db):
            self._db.execute(
                f"INSERT OR REPLACE INTO contracts ({_COLUMNS})"  # noqa: S608  constant names
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                astuple(stored),
            )

    def handed_off(self) -> set[str]:
        """Return all sessions that left a handoff."""
        return {row[0] for row in self._db.execute("SELECT session_id FROM contracts")}

    def read_marks(self, paths: list[str]) -> dict[str, str]:
        """Return the version that was read last, for each of these handoffs that was read."""
        found = {}
        for path in paths:
            row = self._db.execute("SELECT stamp FROM read_marks WHERE path = ?", (path,))
            for (stamp,) in row:
                found[path] = stamp
        return found

    def mark_read(self, stamps: dict[str, str], at: str) -> None:
        with transaction(self._db):
            self._db.executemany(
                "INSERT OR REPLACE INTO read_marks (path, stamp, read_at) VALUES (?, ?, ?)",
                [(path, stamp, at) for path, stamp in stamps.items()],
            )

    def contracts_of(self, project_id: str) -> list[StoredContract]:
        rows = self._db.execute(
            f"SELECT {_COLUMNS} FROM contracts WHERE project_id = ?",  # noqa: S608  constant names
            (project_id,),
        )
        return [StoredContract(*row) for row in rows]

    def marked_project(self, session_id: str) -> str | None:
        """Return the scope of the skipped bytes of a session: its project, if it was forgotten."""
        row = self._db.execute("SELECT scope FROM skips WHERE transcript = ?", (session_id,))
        found = row.fetchone()
        return found[0] if found else None

    def projects(self) -> list[tuple[str, str]]:
        """Return the id and the root of every project."""
        return self._db.execute("SELECT id, root FROM projects").fetchall()

    def count_rows(self, forgotten: Forgotten) -> dict[str, int]:
        """Return how many rows of each table would be erased."""
        return {table: len(rows) for table, rows in erasure.rows(self._db, forgotten).items()}

    def forget(self, forgotten: Forgotten, at: str) -> dict[str, int]:
        """Erase rows, and mark their transcripts as never to be read again, in one transaction.

        Return how many rows of each table were erased.
        """
        with transaction(self._db):
            # After a kill before the scrub, only free pages of the file still hold the rows.
            self._drop_copies()
            return erasure.erase(self._db, forgotten, at)

    def pauses(self) -> list[Pause]:
        query = "SELECT scope, started_at, ended_at FROM pauses ORDER BY started_at"
        return [Pause(*row) for row in self._db.execute(query)]

    def start_pause(self, scope: str, at: float, starts: dict[str, int]) -> None:
        """Begin a pause, and note the byte from which each transcript is skipped."""
        with transaction(self._db):
            self._db.execute("INSERT INTO pauses (scope, started_at) VALUES (?, ?)", (scope, at))
            for transcript, start in starts.items():
                self.begin_skip(transcript, start, scope)

    def begin_skip(self, transcript: str, start: int, scope: str) -> None:
        with savepoint(self._db):
            self._db.execute(
                "INSERT OR REPLACE INTO skips (transcript, first_byte, scope) VALUES (?, ?, ?)",
                (transcript, start, scope),
            )

    def end_pauses(self, scopes: list[str], at: float, ends: dict[str, int]) -> None:
        """End pauses, and note the byte from which each transcript is read again."""
        with transaction(self._db):
            for scope in scopes:
                self._db.execute(
                    "UPDATE pauses SET ended_at = ? WHERE scope = ? AND ended_at IS NULL",
                    (at, scope),
                )
            self._db.executemany(
                "UPDATE skips SET last_byte = ? WHERE transcript = ? AND last_byte IS NULL",
                [(end, transcript) for transcript, end in ends.items()],
            )
            self._db.execute("DELETE FROM skips WHERE last_byte <= first_byte")

    def skips(self) -> dict[str, list[Skip]]:
        """Return the skipped ranges of every transcript, in order."""
        found: dict[str, list[Skip]] = {}
        for row in self._db.execute(
            "SELECT transcript, first_byte, last_byte, scope FROM skips"
            " ORDER BY transcript, first_byte"
        ):
            found.setdefault(row[0], []).append(Skip(*row[1:]))
        return found

    def rewritten(self) -> dict[str, str]:
        """Return the time since which each rewritten transcript is read again."""
        return dict(self._db.execute("SELECT transcript, since FROM rewritten").fetchall())

    def set_rewritten(self, transcript: str, since: str, running: Skip | None) -> None:
        """Replace the skipped byte ranges of a rewritten transcript by a time.

        Its old byte offsets mean nothing now. A pause that is running goes on.
        """
        with transaction(self._db):
            self._db.execute("DELETE FROM skips WHERE transcript = ?", (transcript,))
            self._db.execute(
                "INSERT OR REPLACE INTO rewritten (transcript, since) VALUES (?, ?)",
                (transcript, since),
            )
            if running is not None:
                self.begin_skip(transcript, 0, running.scope)
