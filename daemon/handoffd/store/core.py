"""core.db: what nobody can rebuild. No SQL about it stands anywhere else."""

import json
import secrets
import sqlite3
from dataclasses import astuple, dataclass
from typing import Any

from handoffd.errors import StoreError
from handoffd.store import backup, erasure
from handoffd.store.database import (
    BUSY_SECONDS,
    is_busy,
    open_database,
    run_script,
    savepoint,
    scrub,
    transaction,
)
from handoffd.store.erasure import Forgotten
from handoffd.store.ledger import RECORDS, TRIGGERS, Ledger
from handoffd.store.outbox import OUTBOX, Outbox
from handoffd.store.threads import BRIDGE, THREADS, SqliteThreads, ThreadStore

EVERYTHING = "*"

_PROJECTS = run_script(
    "CREATE TABLE projects (id TEXT PRIMARY KEY, root TEXT NOT NULL UNIQUE, created_at TEXT)",
    # The values a person set, each until a session states another.
    """CREATE TABLE settings (
        project_id TEXT NOT NULL REFERENCES projects(id),
        field TEXT NOT NULL,
        value TEXT NOT NULL,
        session_id TEXT NOT NULL,
        set_at TEXT NOT NULL,
        PRIMARY KEY (project_id, field)
    )""",
    # What we wrote last into a project's handoff.yaml, and what we were about to write: any
    # other value found there is a person's.
    """CREATE TABLE checkpoints (
        project_id TEXT PRIMARY KEY REFERENCES projects(id),
        written TEXT NOT NULL,
        intended TEXT NOT NULL
    )""",
    "CREATE TABLE transcript_roots (path TEXT PRIMARY KEY)",
)
_PAUSES = run_script(
    """CREATE TABLE pauses (
        scope TEXT NOT NULL,
        started_at REAL NOT NULL,
        ended_at REAL
    )""",
    # Bytes of a transcript that were written while paused; last_byte is NULL while it lasts.
    """CREATE TABLE skips (
        transcript TEXT NOT NULL,
        first_byte INTEGER NOT NULL,
        last_byte INTEGER,
        scope TEXT NOT NULL,
        PRIMARY KEY (transcript, first_byte)
    )""",
    # Transcripts with silent bytes that were rewritten: only what is newer than this is heard.
    "CREATE TABLE rewritten (transcript TEXT PRIMARY KEY, since TEXT NOT NULL)",
)
_CONTRACTS = run_script(
    # The handoff each session left behind: what we wrote last and were about to write, so that
    # any other line in it is known as a person's, and how far the session was then.
    """CREATE TABLE contracts (
        session_id TEXT PRIMARY KEY,
        project_id TEXT NOT NULL,
        path TEXT NOT NULL,
        written TEXT NOT NULL,
        intended TEXT NOT NULL,
        stamp TEXT NOT NULL,
        session_time TEXT NOT NULL,
        persons_time TEXT NOT NULL,
        ended INTEGER NOT NULL
    )""",
    # The version of each handoff that was read.
    "CREATE TABLE read_marks (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, read_at TEXT NOT NULL)",
)
MIGRATIONS = (THREADS, _PROJECTS, TRIGGERS, _PAUSES, _CONTRACTS, RECORDS, OUTBOX, BRIDGE)


@dataclass(frozen=True, slots=True)
class Setting:
    """A value a person set, when, and in the presence of which session."""

    value: Any
    session_id: str
    set_at: str


@dataclass(frozen=True, slots=True)
class Left:
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
    """Threads, triggers, pauses and the values a person set."""

    def __init__(self, path: str, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        try:
            self._db: sqlite3.Connection = open_database(
                path, durable=True, migrations=MIGRATIONS, busy_seconds=busy_seconds
            )
        except sqlite3.DatabaseError as problem:
            hint = "Free some space, or move it aside to start without what you set yourself."
            raise StoreError(
                f"{path} cannot be used: {problem}. It is left as it is.",
                "Try again." if is_busy(problem) else hint,
            ) from None
        self.ledger = Ledger(self._db)
        self.outbox = Outbox(self._db)
        # Killed between the deletion and the scrub, the missing copy tells that one is due.
        self.threads: ThreadStore = SqliteThreads(self._db, lambda: backup.drop(path))

    def close(self) -> None:
        self._db.close()

    def project_id(self, root: str, created_at: str | None) -> str | None:
        """Return the opaque id of a project; with a time given, a new root gets one."""
        row = self._db.execute("SELECT id FROM projects WHERE root = ?", (root,)).fetchone()
        if row:
            return str(row[0])
        if created_at is None:
            return None
        row = (secrets.token_hex(8), root, created_at)
        with savepoint(self._db):
            self._db.execute("INSERT OR IGNORE INTO projects VALUES (?, ?, ?)", row)
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
        with transaction(self._db):
            for field, setting in values.items():
                self._db.execute(
                    "INSERT OR REPLACE INTO settings VALUES (?, ?, ?, ?, ?)",
                    (
                        project_id,
                        field,
                        json.dumps(setting.value),
                        setting.session_id,
                        setting.set_at,
                    ),
                )

    def drop_values(self, project_id: str, fields: list[str]) -> None:
        with transaction(self._db):
            for field in fields:
                self._db.execute(
                    "DELETE FROM settings WHERE project_id = ? AND field = ?", (project_id, field)
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
                "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)",
                (project_id, json.dumps(written), json.dumps(intended)),
            )

    def transcript_roots(self) -> list[str]:
        return [row[0] for row in self._db.execute("SELECT path FROM transcript_roots")]

    def learn_transcript_root(self, path: str) -> None:
        with transaction(self._db):
            self._db.execute("INSERT OR IGNORE INTO transcript_roots VALUES (?)", (path,))

    def contract(self, session_id: str) -> Left | None:
        row = self._db.execute(
            "SELECT * FROM contracts WHERE session_id = ?", (session_id,)
        ).fetchone()
        return Left(*row) if row else None

    def set_contract(self, left: Left) -> None:
        with transaction(self._db):
            self._db.execute(
                "INSERT OR REPLACE INTO contracts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
                "INSERT OR REPLACE INTO read_marks VALUES (?, ?, ?)",
                [(path, stamp, at) for path, stamp in stamps.items()],
            )

    def contracts_of(self, project_id: str) -> list[Left]:
        rows = self._db.execute("SELECT * FROM contracts WHERE project_id = ?", (project_id,))
        return [Left(*row) for row in rows]

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
            return erasure.erase(self._db, what, at)

    def scrub(self) -> None:
        """Leave no erased byte in the file, its log and its copy."""
        try:
            scrub(self._db, "core.db")
            backup.make(self._db, self.path)
        except StoreError:
            backup.drop(self.path)
            raise

    def needs_copy(self, every_seconds: float) -> bool:
        return backup.age_seconds(self.path) > every_seconds

    def back_up(self) -> None:
        """Make the copy anew; where there is none, it may be because a scrub was held up."""
        if backup.exists(self.path):
            backup.make(self._db, self.path)
        else:
            self.scrub()

    def pauses(self) -> list[Pause]:
        return [Pause(*row) for row in self._db.execute("SELECT * FROM pauses ORDER BY started_at")]

    def start_pause(self, scope: str, at: float, starts: dict[str, int]) -> None:
        """Begin a pause together with the byte at which each transcript goes silent."""
        with transaction(self._db):
            self._db.execute("INSERT INTO pauses VALUES (?, ?, NULL)", (scope, at))
            for transcript, start in starts.items():
                self.begin_skip(transcript, start, scope)

    def begin_skip(self, transcript: str, start: int, scope: str) -> None:
        with savepoint(self._db):
            self._db.execute(
                "INSERT OR REPLACE INTO skips VALUES (?, ?, NULL, ?)", (transcript, start, scope)
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
        for row in self._db.execute("SELECT * FROM skips ORDER BY transcript, first_byte"):
            found.setdefault(row[0], []).append(Skip(*row[1:]))
        return found

    def rewritten(self) -> dict[str, str]:
        """Return since when each rewritten transcript is heard again."""
        return dict(self._db.execute("SELECT transcript, since FROM rewritten").fetchall())

    def set_rewritten(self, transcript: str, since: str, running: Skip | None) -> None:
        """Forget the places of silent bytes, which mean nothing now, for a time."""
        with transaction(self._db):
            self._db.execute("DELETE FROM skips WHERE transcript = ?", (transcript,))
            self._db.execute("INSERT OR REPLACE INTO rewritten VALUES (?, ?)", (transcript, since))
            if running is not None:
                self.begin_skip(transcript, 0, running.scope)
