"""The ledger of triggers: what fired, by which cause, and what came of it.

A cause is entered once, before anything is done about it, and is pending until an outcome
stands beside it: killed in between, the work is taken up again under the same name.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from handoffd.store.database import transaction

TRIGGERS = (
    """CREATE TABLE triggers (
        cause TEXT PRIMARY KEY,
        trigger TEXT NOT NULL,
        project_id TEXT NOT NULL,
        session_id TEXT,
        fired_at TEXT NOT NULL,
        receipt TEXT NOT NULL DEFAULT '',
        bead TEXT NOT NULL DEFAULT '',
        -- What was asked for, as JSON: enough to do it again.
        request TEXT NOT NULL DEFAULT '{}',
        -- JSON; NULL while it is pending.
        outcome TEXT
    )""",
    # What was seen of epics and tracks last: only what changes from there on is news.
    """CREATE TABLE seen (
        project_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        status TEXT NOT NULL,
        changes INTEGER NOT NULL,
        changed_at REAL NOT NULL,
        PRIMARY KEY (project_id, kind, name)
    )""",
    # The track that a session works on, by what it created or resumed.
    """CREATE TABLE session_tracks (
        session_id TEXT PRIMARY KEY,
        project_id TEXT NOT NULL,
        track_id TEXT NOT NULL
    )""",
    # Nothing that was before is news.
    "CREATE TABLE birth AS SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS at",
)
_BASELINE = ""
_FIRING = "cause, trigger, project_id, session_id, fired_at, receipt, bead, request, outcome"


@dataclass(frozen=True, slots=True)
class Firing:
    """A trigger that fired; `receipt` says why, `request` what is to be done about it."""

    cause: str
    trigger: str
    project_id: str
    session_id: str
    fired_at: str
    receipt: str = ""
    bead: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    # None while it is pending.
    outcome: Mapping[str, Any] | None = None


def _firing(*row: Any) -> Firing:
    *texts, request, outcome = row
    cause, trigger, project_id, session_id, fired_at, receipt, bead = (text or "" for text in texts)
    return Firing(
        cause,
        trigger,
        project_id,
        session_id,
        fired_at,
        receipt,
        bead,
        json.loads(request),
        None if outcome is None else json.loads(outcome),
    )


class Sighting(NamedTuple):
    """What something was when it was seen: its status, when that changed, how often it had."""

    status: str
    at: float = 0.0
    changes: int = 0


_NEVER = Sighting("")

# What becomes of a change: name, status before ("" if new), status now, how many changes so far.
News = Callable[[str, str, str, int], Firing | None]


class Ledger:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        # When we began to watch; nothing fires for what was before.
        self.born_at = str(db.execute("SELECT at FROM birth").fetchone()[0])
        # Something may be pending; who makes the records clears it.
        self.has_news = True

    def fire(self, firing: Firing) -> bool:
        """Enter a trigger once; False if this cause has fired before."""
        with transaction(self._db):
            return self._enter(firing)

    def _enter(self, firing: Firing) -> bool:
        done = self._db.execute(
            f"INSERT OR IGNORE INTO triggers ({_FIRING})"  # noqa: S608  names of ours
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                firing.cause,
                firing.trigger,
                firing.project_id,
                firing.session_id,
                firing.fired_at,
                firing.receipt,
                firing.bead,
                json.dumps(dict(firing.request)),
                None if firing.outcome is None else json.dumps(dict(firing.outcome)),
            ),
        )
        self.has_news |= done.rowcount == 1
        return done.rowcount == 1

    def set_request(self, cause: str, request: Mapping[str, Any]) -> None:
        """Remember what is about to be done, so that it can be done again."""
        with transaction(self._db):
            self._db.execute(
                "UPDATE triggers SET request = ? WHERE cause = ?", (json.dumps(request), cause)
            )

    def settle(self, cause: str, outcome: Mapping[str, Any]) -> None:
        with transaction(self._db):
            self._db.execute(
                "UPDATE triggers SET outcome = ? WHERE cause = ?", (json.dumps(outcome), cause)
            )

    def withdraw(self, cause: str) -> None:
        """Take back what a person asked for and was refused."""
        with transaction(self._db):
            self._db.execute("DELETE FROM triggers WHERE cause = ?", (cause,))

    def drop_pending(self) -> int:
        """Give up what is pending; returns how many there were."""
        with transaction(self._db):
            gone = self._db.execute(
                "UPDATE triggers SET outcome = ? WHERE outcome IS NULL",
                (json.dumps({"skipped": "given up"}),),
            )
        return gone.rowcount

    def pending(self) -> list[Firing]:
        """Return what has no outcome yet, the oldest first."""
        return self._firings("WHERE outcome IS NULL ORDER BY fired_at, rowid")

    def recent(self, project_id: str | None, most: int) -> list[Firing]:
        """Return what fired last, the newest first: as it was entered, for a clock may be set."""
        if project_id is None:
            return self._firings("ORDER BY rowid DESC LIMIT ?", most)
        clause = "WHERE project_id = ? ORDER BY rowid DESC LIMIT ?"
        return self._firings(clause, project_id, most)

    def _firings(self, clause: str, *values: Any) -> list[Firing]:
        rows = self._db.execute(f"SELECT {_FIRING} FROM triggers {clause}", values)  # noqa: S608  ours
        return [_firing(*row) for row in rows]

    # What was seen last

    def observe(self, project_id: str, kind: str, found: Mapping[str, Sighting], news: News) -> int:
        """Take note of what is there, and enter what fires because it changed, both or neither.

        At first sight of a project nothing is news, nor is ever what is older than what was
        seen before: a file may lag behind the program. Returns how many fired.
        """
        known = self._seen(project_id, kind)
        changed = {
            name: now
            for name, now in found.items()
            if (before := known.get(name, _NEVER)).status != now.status and now.at >= before.at
        }
        first = _BASELINE not in known
        if not first and not changed:
            return 0
        fired = 0
        with transaction(self._db):
            if first:
                self._see(project_id, kind, _BASELINE, _NEVER)
            for name, now in changed.items():
                before = known.get(name, _NEVER)
                seen = Sighting(now.status, now.at, before.changes + 1)
                self._see(project_id, kind, name, seen)
                firing = None if first else news(name, before.status, now.status, seen.changes)
                fired += self._enter(firing) if firing else 0
        return fired

    def _seen(self, project_id: str, kind: str) -> dict[str, Sighting]:
        rows = self._db.execute(
            "SELECT name, status, changed_at, changes FROM seen WHERE project_id = ? AND kind = ?",
            (project_id, kind),
        )
        return {name: Sighting(*seen) for name, *seen in rows}

    def sighting(self, project_id: str, kind: str, name: str) -> Sighting:
        """Return what was seen last; a status of "" if it never was."""
        return self._seen(project_id, kind).get(name, _NEVER)

    def _see(self, project_id: str, kind: str, name: str, seen: Sighting) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO seen (project_id, kind, name, status, changes, changed_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (project_id, kind, name, seen.status, seen.changes, seen.at),
        )

    # Which track a session works on

    def track_of(self, session_id: str) -> str:
        row = self._db.execute(
            "SELECT track_id FROM session_tracks WHERE session_id = ?", (session_id,)
        ).fetchone()
        return str(row[0]) if row else ""

    def tracks_told(self, session_id: str) -> list[str]:
        """Return the tracks of which a session left a record, the last one first."""
        rows = self._db.execute(
            "SELECT outcome FROM triggers WHERE session_id = ? AND outcome IS NOT NULL"
            " ORDER BY fired_at DESC",
            (session_id,),
        )
        found = (json.loads(row[0]).get("track", "") for row in rows)
        return list(dict.fromkeys(track for track in found if track))

    def bind_track(self, session_id: str, project_id: str, track_id: str) -> None:
        with transaction(self._db):
            self._db.execute(
                "INSERT OR REPLACE INTO session_tracks (session_id, project_id, track_id)"
                " VALUES (?, ?, ?)",
                (session_id, project_id, track_id),
            )
