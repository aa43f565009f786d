"""core.db: what nobody can rebuild. No SQL about it stands anywhere else."""

import contextlib
import json
import secrets
import sqlite3
from dataclasses import astuple, dataclass, fields
from typing import Any

from handoffd.errors import DamagedError, StoreError
from handoffd.store import backup, damage, erasure
from handoffd.store.damage import Watched
from handoffd.store.database import (
    BUSY_SECONDS,
    connect,
    is_busy,
    prepare,
    savepoint,
    scrub,
    transaction,
)
from handoffd.store.erasure import Forgotten
from handoffd.store.ledger import Ledger
from handoffd.store.outbox import Outbox
from handoffd.store.schema import JSON, MIGRATIONS
from handoffd.store.threads import SqliteThreads, ThreadStore

EVERYTHING = "*"


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


_LEFT = ", ".join(field.name for field in fields(Left))


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

    A file that turns out to be damaged, at once or later, is never written to and never
    discarded: a copy of it is kept aside, `damage` says what is wrong, and what can be read of
    it and of its copy stands in for it, in memory. Whatever would write is a DamagedError.
    """

    def __init__(
        self, path: str, busy_seconds: float = BUSY_SECONDS, *, check: bool = False
    ) -> None:
        self.path = path
        self.damage = ""
        # Of the damaged file, in which somebody may be in the middle of a transaction.
        self._left: Watched | None = None
        self._db = self._open(busy_seconds, check=check)
        self._tie()

    def _open(self, busy_seconds: float, *, check: bool) -> Watched:
        if damage.is_known(self.path):
            return self._stand_in("it was found so before")
        if damage.is_lost(self.path):
            return self._stand_in("it is gone or empty")
        if damage.has_garbled_log(self.path):
            return self._stand_in("its log is no log of SQLite")
        db = connect(self.path, busy_seconds)
        try:
            prepare(db, self.path, durable=True, migrations=MIGRATIONS, busy_seconds=busy_seconds)
            found = damage.look_over(db, "quick_check(1)", JSON) if check else "ok"
        except sqlite3.DatabaseError as problem:
            if not damage.is_damage(problem):
                raise StoreError(
                    f"{self.path} cannot be used: {problem}. It is left as it is.",
                    "Try again." if is_busy(problem) else "Free some space.",
                ) from None
            found = damage.describe(problem)
        if found != "ok":
            return self._stand_in(found, db)
        db.damaged = self._give_up
        return db

    def _stand_in(self, why: str, left: Watched | None = None) -> Watched:
        """Keep the damaged file aside, and read what can be read of it."""
        from handoffd.store.salvage import salvage  # noqa: PLC0415  seldom needed

        self.damage, self._left = why.splitlines()[-1], left
        if left is not None:  # somebody may hold it still, or be in the middle of writing
            left.stands_in, left.damaged = self.damage, None
        try:
            damage.keep_aside(self.path, left)
        except StoreError as problem:
            damage.mark(self.path)
            self.damage += f"; {problem.title.lower().rstrip('.')}"
        found = salvage(self.path)
        if found.blind:
            self.damage += "; what is paused is not known, so everything is"
        found.db.stands_in = self.damage
        return found.db

    def _give_up(self, why: str) -> DamagedError:
        """Go on with what can be read; returns what whoever noticed it is told."""
        self._db = self._stand_in(why, self._db)
        self._tie()
        return damage.refusal(self.damage)

    def look_again(self, found: str = "") -> None:
        """Take note of damage that was found otherwise: by a close look, or by another process."""
        if not self.damage and (found or damage.is_known(self.path)):
            self._give_up(found or "another process noticed it")

    def require_whole(self) -> None:
        if self.damage:
            raise damage.refusal(self.damage)

    def _tie(self) -> None:
        self.ledger = Ledger(self._db)
        self.outbox = Outbox(self._db)
        # Killed between the deletion and the scrub, the missing copy tells that one is due.
        self.threads: ThreadStore = SqliteThreads(self._db, self._drop_copies)

    def _drop_copies(self) -> None:
        self.require_whole()  # a copy may be all that is left
        backup.drop_all(self.path)

    def close(self) -> None:
        self._db.close()
        if self._left is not None:
            self._left.close()

    def project_id(self, root: str, created_at: str | None) -> str | None:
        """Return the opaque id of a project; with a time given, a new root gets one."""
        row = self._db.execute("SELECT id FROM projects WHERE root = ?", (root,)).fetchone()
        if row:
            return str(row[0])
        if created_at is None:
            return None
        row = (secrets.token_hex(8), root, created_at)
        insert = "INSERT OR IGNORE INTO projects (id, root, created_at) VALUES (?, ?, ?)"
        if self.damage:
            # A new project has its id for as long as we live; its sessions are folded anew then.
            sqlite3.Connection.execute(self._db, insert, row)
            return row[0]
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
        if self.damage:
            return  # whoever told it goes on, and tells it again
        with transaction(self._db):
            self._db.execute("INSERT OR IGNORE INTO transcript_roots (path) VALUES (?)", (path,))

    def contract(self, session_id: str) -> Left | None:
        row = self._db.execute(
            f"SELECT {_LEFT} FROM contracts WHERE session_id = ?",  # noqa: S608  names of ours
            (session_id,),
        ).fetchone()
        return Left(*row) if row else None

    def set_contract(self, left: Left) -> None:
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
        if self.damage:
            return  # nobody is kept from reading because it cannot be noted
        with transaction(self._db):
            self._db.executemany(
                "INSERT OR REPLACE INTO read_marks (path, stamp, read_at) VALUES (?, ?, ?)",
                [(path, stamp, at) for path, stamp in stamps.items()],
            )

    def contracts_of(self, project_id: str) -> list[Left]:
        rows = self._db.execute(
            f"SELECT {_LEFT} FROM contracts WHERE project_id = ?",  # noqa: S608  names of ours
            (project_id,),
        )
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
            # Killed before the scrub, nothing has it any more but room that is free.
            self._drop_copies()
            return erasure.erase(self._db, what, at)

    def scrub(self) -> None:
        """Leave no erased byte in the file, its log and its copy."""
        self._require_sound()
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
            self._require_sound()
            backup.make(self._db, self.path)
        else:
            self.scrub()

    def renew_copy(self) -> None:
        """Make the copy anew at once, if there is one: should this file be damaged, it knows."""
        if backup.exists(self.path):
            with contextlib.suppress(StoreError):
                self.back_up()

    def _require_sound(self) -> None:
        """Look closely before the copy goes: it may have what is missing without a trace."""
        self.require_whole()
        found = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise self._give_up(found)

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
