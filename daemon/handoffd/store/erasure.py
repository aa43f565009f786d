"""What goes from core.db when something is forgotten, and the mark that stays."""

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

_OF_A_PROJECT = (
    "settings",
    "contracts",
    "triggers",
    "seen",
    "session_tracks",
    "outbox",
    "thread_uses",
)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What is to be forgotten: sessions and, if it is `whole`, all else of their project.

    `ends` says how long each transcript is: nothing before that is ever read again. `until` is
    the time before which every record of a whole project is old. `paths` are the handoffs that
    go, `checkpoint` tells whether what we know of the project's checkpoint does.
    """

    project_id: str
    sessions: Collection[str]
    whole: bool = False
    checkpoint: bool = True
    until: float = 0.0
    ends: Mapping[str, int] = field(default_factory=dict)
    paths: Collection[str] = ()


def rows(db: sqlite3.Connection, what: Forgotten) -> dict[str, set[int]]:
    """Return the rows of each table that go."""
    found: dict[str, set[int]] = {}
    for table, column, key in _keys(what):
        numbers = db.execute(
            f"SELECT rowid FROM {table} WHERE {column} = ?",  # noqa: S608  names of ours
            (key,),
        )
        found.setdefault(table, set()).update(row[0] for row in numbers)
    return found


def _keys(what: Forgotten) -> Iterator[tuple[str, str, str]]:
    """Yield table, column and value of the rows that go with what is forgotten."""
    tables = _OF_A_PROJECT if what.whole else ()
    for table in (*tables, *(("checkpoints",) if what.checkpoint else ())):
        yield table, "project_id", what.project_id
    for session_id in what.sessions:
        yield "contracts", "session_id", session_id
        yield "triggers", "session_id", session_id
        yield "session_tracks", "session_id", session_id
    for path in what.paths:
        yield "read_marks", "path", path
        yield "outbox", "key", path


def erase(db: sqlite3.Connection, what: Forgotten, at: str) -> dict[str, int]:
    """Erase the rows and enter the mark; returns how many of each table are gone."""
    gone = rows(db, what)
    for table, numbers in gone.items():
        db.executemany(
            f"DELETE FROM {table} WHERE rowid = ?",  # noqa: S608  a name of ours
            [(number,) for number in numbers],
        )
    for transcript, end in what.ends.items():
        _silence(db, transcript, end, what.project_id, at)
    if what.whole:
        _mark_time(db, what.project_id, what.until)
    return {table: len(numbers) for table, numbers in gone.items()}


def _silence(db: sqlite3.Connection, transcript: str, end: int, scope: str, at: str) -> None:
    """Make all of a transcript silent; where a pause makes it so now, it goes on.

    Besides its place its time is kept: a client may append old records again.
    """
    running = db.execute(
        "SELECT scope FROM skips WHERE transcript = ? AND last_byte IS NULL", (transcript,)
    ).fetchone()
    db.execute("DELETE FROM skips WHERE transcript = ?", (transcript,))
    db.execute(
        "INSERT OR REPLACE INTO rewritten (transcript, since) VALUES (?, ?)", (transcript, at)
    )
    last, scope = (None, running[0]) if running else (end, scope)
    if last != 0:
        db.execute(
            "INSERT INTO skips (transcript, first_byte, last_byte, scope) VALUES (?, 0, ?, ?)",
            (transcript, last, scope),
        )


def _mark_time(db: sqlite3.Connection, project_id: str, until: float) -> None:
    """Make all that is older silent, as if there had been a pause; older marks are part of it."""
    earlier = "DELETE FROM pauses WHERE scope = ? AND ended_at <= ?"
    db.execute(earlier, (project_id, until))
    db.execute(
        "INSERT INTO pauses (scope, started_at, ended_at) VALUES (?, 0, ?)", (project_id, until)
    )
