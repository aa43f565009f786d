"""The ledger of triggers: each one that fired, with its cause and its outcome.

A cause is entered once, before its work begins, and is pending until its outcome is entered. If the
daemon is killed in between, the work is resumed under the same name.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from handoffd.store.database import transaction

TRIGGERS_SQL = (
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
    # The last known status of epics and tracks: only later changes can fire a trigger.
    """CREATE TABLE seen (
        project_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        status TEXT NOT NULL,
        changes INTEGER NOT NULL,
        changed_at REAL NOT NULL,
        PRIMARY KEY (project_id, kind, name)
    )""",
    # The track that a session works on: the one that it created or resumed.
    """CREATE TABLE session_tracks (
        session_id TEXT PRIMARY KEY,
        project_id TEXT NOT NULL,
        track_id TEXT NOT NULL
    )""",
    # Changes before this time never fire a trigger.
    "CREATE TABLE birth AS SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS at",
)
_BASELINE = ""
_FIRING = "cause, trigger, project_id, session_id, fired_at, receipt, bead, request, outcome"


@dataclass(frozen=True, slots=True)
class Firing:
    """A trigger that fired; `receipt` gives the reason, `request` the work to be done."""

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


def _firing_from_row(*row: Any) -> Firing:
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
    """The status of an epic or a track: since when, and the number of changes so far."""

    status: str
    at: float = 0.0
    changes: int = 0


_UNKNOWN = Sighting("")

# Returns the trigger that a change fires, if any. Arguments: name, status before ("" if new),
# status now, number of changes so far.
FiringOfChange = Callable[[str, str, str, int], Firing | None]


class Ledger:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        # Changes before this time fire nothing.
        self.born_at = str(db.execute("SELECT at FROM birth").fetchone()[0])
        # True if work may be pending; the maker of the records clears it.
        self.has_news = True

    def fire(self, firing: Firing) -> bool:
        """Enter a trigger; return False if this cause has fired before."""
        with transaction(self._db):
            return self._enter(firing)

    def _enter(self, firing: Firing) -> bool:
        done = self._db.execute(
            f"INSERT OR IGNORE INTO triggers ({_FIRING})"  # noqa: S608  constant names
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
        """Store the work that is about to begin, so that it can be repeated."""
        with transaction(self._db):
            self._db.execute(
                "UPDATE triggers SET request = ? WHERE cause = ?", (json.dumps(request), cause)
            )

    def set_outcome(self, cause: str, outcome: Mapping[str, Any]) -> None:
        with transaction(self._db):
            self._db.execute(
                "UPDATE triggers SET outcome = ? WHERE cause = ?", (json.dumps(outcome), cause)
            )

    def withdraw(self, cause: str) -> None:
        """Remove a request of a person that was refused."""
        with transaction(self._db):
            self._db.execute("DELETE FROM triggers WHERE cause = ?", (cause,))

    def drop_pending(self) -> int:
        """Give up all pending work; return how many entries there were."""
        with transaction(self._db):
            dropped = self._db.execute(
                "UPDATE triggers SET outcome = ? WHERE outcome IS NULL",
                (json.dumps({"skipped": "given up"}),),
            )
        return dropped.rowcount

    def pending(self) -> list[Firing]:
        """Return the entries without an outcome, the oldest first."""
        return self._firings("WHERE outcome IS NULL ORDER BY fired_at, rowid")

    def recent(self, project_id: str | None, most: int) -> list[Firing]:
        """Return the last entries, the newest first: by their order, since a clock may be set."""
        if project_id is None:
            return self._firings("ORDER BY rowid DESC LIMIT ?", most)
        clause = "WHERE project_id = ? ORDER BY rowid DESC LIMIT ?"
        return self._firings(clause, project_id, most)

    def _firings(self, clause: str, *values: Any) -> list[Firing]:
        rows = self._db.execute(f"SELECT {_FIRING} FROM triggers {clause}", values)  # noqa: S608  constants
        return [_firing_from_row(*row) for row in rows]

    # The last known status

    def observe(
        self,
        project_id: str,
        kind: str,
        found: Mapping[str, Sighting],
        firing_of: FiringOfChange,
        *,
        certain: bool = False,
    ) -> int:
        """Store the current status, and enter the triggers that its changes fire, atomically.

        The first observation of a project fires nothing. A status that is older than the stored one
        is ignored, since a file may lag behind the program, unless it is certain. Return how many
        triggers were entered.
        """
        known = self.sightings(project_id, kind)
        changed = {
            name: now
            for name, now in found.items()
            if (before := known.get(name, _UNKNOWN)).status != now.status
            and (certain or now.at >= before.at)
        }
        first = _BASELINE not in known
        if not first and not changed:
            return 0
        fired = 0
        with transaction(self._db):
            if first:
                self._store_sighting(project_id, kind, _BASELINE, _UNKNOWN)
            for name, now in changed.items():
                before = known.get(name, _UNKNOWN)
                seen = Sighting(now.status, now.at, before.changes + 1)
                self._store_sighting(project_id, kind, name, seen)
                firing = None if first else firing_of(name, before.status, now.status, seen.changes)
                fired += self._enter(firing) if firing else 0
        return fired

    def sightings(self, project_id: str, kind: str) -> dict[str, Sighting]:
        rows = self._db.execute(
            "SELECT name, status, changed_at, changes FROM seen WHERE project_id = ? AND kind = ?",
            (project_id, kind),
        )
        return {name: Sighting(*seen) for name, *seen in rows}

    def sighting(self, project_id: str, kind: str, name: str) -> Sighting:
        """Return the last known status; it is "" for an unknown name."""
        return self.sightings(project_id, kind).get(name, _UNKNOWN)

    def _store_sighting(self, project_id: str, kind: str, name: str, seen: Sighting) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO seen (project_id, kind, name, status, changes, changed_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (project_id, kind, name, seen.status, seen.changes, seen.at),
        )

    # The track of a session

    def track_of(self, session_id: str) -> str:
        row = self._db.execute(
            "SELECT track_id FROM session_tracks WHERE session_id = ?", (session_id,)
        ).fetchone()
        return str(row[0]) if row else ""

    def recorded_tracks(self, session_id: str) -> list[str]:
        """Return the tracks for which a session left a record, the last one first."""
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
