"""core.db: everything that transcripts cannot rebuild. No other module has SQL about it."""

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
from handoffd.store.ledger import Ledger
from handoffd.store.outbox import Outbox
from handoffd.store.schema import SCHEMA
from handoffd.store.threads import SqliteThreads, ThreadStore

EVERYTHING = "*"
# How old the copy may get while core.db changes.
COPY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Setting:
    """A value a person set, when, and in the presence of which session."""

    value: Any
    session_id: str
    set_at: str


@dataclass(frozen=True, slots=True)
class StoredContract:
    """The handoff that a session left behind, as we know it.

    `written` is our own part of the file and `intended` what it was to become, `stamp` tells
    the file as a whole, `session_time` is the session's last record then, `persons_time` when
    a person last had a hand in it, and `ended` whether the session was taken for ended.
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


_LEFT = ", ".join(field.name for field in fields(StoredContract))


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which nothing may be learned, of one project or of everything."""

    scope: str
    started_at: float
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class Skip:
    """Bytes of a transcript that stay unknown; `end` is None while the pause lasts."""

    start: int
    end: int | None
    scope: str


class CoreStore:
    """Threads, triggers, pauses and the values a person set.

    A statement that meets damage is a DamagedError. The daemon sets `on_damage` and recovers then;
    any other program is told to run `handoff repair`.
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
        # Killed between the deletion and the scrub, the missing copy tells that one is due.
        self.threads: ThreadStore = SqliteThreads(self._db, self._drop_copies)

    def report(self, why: str) -> DamagedError:
        """Report damage; return the error for the caller that met it."""
        if self.on_damage is None:
            return recovery.refusal(why)
        self.on_damage(why)
        return DamagedError(f"core.db is damaged ({why}). It is being mended.", "Try again.")

    def suspend(self) -> None:
        """Refuse everything while the file is replaced: it would be written into the old one."""
        self._db.closed = ("core.db was damaged and is being mended.", "Try again.")

    def resume(self) -> None:
        """Go on with the file that stands there now.

        The old one was left open until then, since SQLite writes to it, and deletes the log by
        its name, when it is closed.
        """
        self._db.close()
        self._open()

    def restore_deleted(self) -> bool:
        """Write the file anew if it was deleted: the open connection still has its rows."""
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
        """Leave no erased byte in the file, its log and its copy."""
        self._require_sound()
        try:
            scrub(self._db, os.path.basename(self.path))
            backup.make(self._db, self.path)
        except StoreError:
            backup.drop(self.path)
            raise

    def shorten_log(self) -> None:
        """Bring the log into the file, and empty it unless somebody reads.

        The first step, which may take long, holds up no writer; the second waits for nobody.
        """
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        empty_log(self._db, 0)

    def needs_copy(self) -> bool:
        """Return True if the copy is missing, a day old, or an hour old and the file has changed.

        A new file is copied with its first entry.
        """
        age, now = backup.age_seconds(self.path), clock.wall()
        if age > clock.DAY_SECONDS or (age > COPY_SECONDS and backup.is_outdated(self.path)):
            return True
        # An entry of the future was written before the clock was set.
        return now - age - 1.0 < self._first_kept() < now

    def back_up(self) -> None:
        """Make the copy anew; if there is none, a scrub may have been held up."""
        if backup.exists(self.path):
            self._require_sound()
            backup.make(self._db, self.path)
        else:
            self.scrub()

    def renew_copy(self) -> None:
        """Make the copy anew at once, if there is one, so that it knows of a new pause."""
        if backup.exists(self.path):
            with contextlib.suppress(StoreError):
                self.back_up()

    def _drop_copies(self) -> None:
        backup.drop_all(self.path)

    def _require_sound(self) -> None:
        """Look closely before the copy is replaced: it may have rows that the file lost."""
        found = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise self.report(found)

    def _first_kept(self) -> float:
        """Return the time of the oldest entry; 0 without one."""
        asked = "SELECT created_at FROM handoff_entries ORDER BY rowid LIMIT 1"
        row = self._db.execute(asked).fetchone()
        return clock.parse(row[0] or "") if row else 0.0

    def project_id(self, root: str, created_at: str | None) -> str | None:
        """Return the opaque id of a project; with a time given, a new root gets one."""
        row = self._db.execute("SELECT id FROM projects WHERE root = ?", (root,)).fetchone()
        if row:
            return str(row[0])
        if created_at is None:
            return None
        row = (secrets.token_hex(8), root, created_at)
        insert = "INSERT OR IGNORE INTO projects (id, root, created_at) VALUES (?, ?, ?)"
        with savepoint(self._db):
            self._db.execute(insert, row)
        return self.project_id(root, None)  # another process may have been quicker

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
        """Return what was written last and what was intended last."""
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
            f"SELECT {_LEFT} FROM contracts WHERE session_id = ?",  # noqa: S608  names of ours
            (session_id,),
        ).fetchone()
        return StoredContract(*row) if row else None

    def set_contract(self, left: StoredContract) -> None:
        with transaction(self._db):
            self._db.execute(
                f"INSERT OR REPLACE INTO contracts ({_LEFT})"  # noqa: S608  names of ours
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                astuple(left),
            )

    def handed_off(self) -> set[str]:
        """Return every session that left a handoff."""
        return {row[0] for row in self._db.execute("SELECT session_id FROM contracts")}

    def read_marks(self, paths: list[str]) -> dict[str, str]:
        """Return which version of each of these handoffs was read, if any was."""
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
            f"SELECT {_LEFT} FROM contracts WHERE project_id = ?",  # noqa: S608  names of ours
            (project_id,),
        )
        return [StoredContract(*row) for row in rows]

    def marked_project(self, session_id: str) -> str | None:
        """Return the project of a session that was forgotten before."""
        row = self._db.execute("SELECT scope FROM skips WHERE transcript = ?", (session_id,))
        found = row.fetchone()
        return found[0] if found else None

    def projects(self) -> list[tuple[str, str]]:
        """Return the id and the root of every project."""
        return self._db.execute("SELECT id, root FROM projects").fetchall()

    def count_rows(self, what: Forgotten) -> dict[str, int]:
        """Return how many rows of each table would go."""
        return {table: len(rows) for table, rows in erasure.rows(self._db, what).items()}

    def forget(self, what: Forgotten, at: str) -> dict[str, int]:
        """Erase, and enter the mark by which it never comes back, both or neither.

        Returns how many rows of each table are gone.
        """
        with transaction(self._db):
            # Killed before the scrub, nothing has it any more but room that is free.
            self._drop_copies()
            return erasure.erase(self._db, what, at)

    def pauses(self) -> list[Pause]:
        asked = "SELECT scope, started_at, ended_at FROM pauses ORDER BY started_at"
        return [Pause(*row) for row in self._db.execute(asked)]

    def start_pause(self, scope: str, at: float, starts: dict[str, int]) -> None:
        """Begin a pause together with the byte at which each transcript goes silent."""
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
        """End pauses together with the byte at which each transcript may be heard again."""
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
        """Return the silent ranges of every transcript, in order."""
        found: dict[str, list[Skip]] = {}
        for row in self._db.execute(
            "SELECT transcript, first_byte, last_byte, scope FROM skips"
            " ORDER BY transcript, first_byte"
        ):
            found.setdefault(row[0], []).append(Skip(*row[1:]))
        return found

    def rewritten(self) -> dict[str, str]:
        """Return since when each rewritten transcript is heard again."""
        return dict(self._db.execute("SELECT transcript, since FROM rewritten").fetchall())

    def set_rewritten(self, transcript: str, since: str, running: Skip | None) -> None:
        """Forget the places of silent bytes, which mean nothing now, for a time."""
        with transaction(self._db):
            self._db.execute("DELETE FROM skips WHERE transcript = ?", (transcript,))
            self._db.execute(
                "INSERT OR REPLACE INTO rewritten (transcript, since) VALUES (?, ?)",
                (transcript, since),
            )
            if running is not None:
                self.begin_skip(transcript, 0, running.scope)
