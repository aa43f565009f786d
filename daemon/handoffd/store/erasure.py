"""The rows of core.db that `handoff forget` erases, and the marks that stay."""

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

_PROJECT_TABLES = (
    "settings",
    "contracts",
    "triggers",
    "seen",
    "session_tracks",
    "outbox",
    "thread_uses",
    "item_marks",
    "shown_items",
)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The sessions to be forgotten and, with `whole`, all other data of their project.

    `ends` holds the length of each transcript; the bytes before it are never read again. `until` is
    the time before which all records of a whole project are skipped. `paths` are the erased
    handoffs. With `checkpoint`, the stored checkpoint of the project is erased, too.
    """

    project_id: str
    sessions: Collection[str]
    whole: bool = False
    checkpoint: bool = True
    until: float = 0.0
    ends: Mapping[str, int] = field(default_factory=dict)
    paths: Collection[str] = ()


def rows(db: sqlite3.Connection, forgotten: Forgotten) -> dict[str, set[int]]:
    """Return the ids of the rows to erase, by table."""
    found: dict[str, set[int]] = {}
    for table, column, key in _keys(forgotten):
        numbers = db.execute(
            f"SELECT rowid FROM {table} WHERE {column} = ?",  # noqa: S608  constant names
            (key,),
        )
        found.setdefault(table, set()).update(row[0] for row in numbers)
    return found


def _keys(forgotten: Forgotten) -> Iterator[tuple[str, str, str]]:
    """Yield the table, the column and the value that select the rows to erase."""
    tables = _PROJECT_TABLES if forgotten.whole else ()
    for table in (*tables, *(("checkpoints",) if forgotten.checkpoint else ())):
        yield table, "project_id", forgotten.project_id
    for session_id in forgotten.sessions:
        yield "contracts", "session_id", session_id
        yield "triggers", "session_id", session_id
        yield "session_tracks", "session_id", session_id
        yield "item_marks", "transcript", session_id
        yield "item_marks", "transcript", f"{session_id}/tasks"
    for path in forgotten.paths:
        yield "read_marks", "path", path
        yield "outbox", "key", path


def erase(db: sqlite3.Connection, forgotten: Forgotten, at: str) -> dict[str, int]:
    """Erase the rows and write the marks; return how many rows of each table were erased."""
    erased = rows(db, forgotten)
    for table, numbers in erased.items():
        db.executemany(
            f"DELETE FROM {table} WHERE rowid = ?",  # noqa: S608  a constant name
            [(number,) for number in numbers],
        )
    for transcript, end in forgotten.ends.items():
        _skip_transcript(db, transcript, end, forgotten.project_id, at)
    if forgotten.whole:
        _skip_older_records(db, forgotten.project_id, forgotten.until)
    return {table: len(numbers) for table, numbers in erased.items()}


def _skip_transcript(
    db: sqlite3.Connection, transcript: str, end: int, scope: str, at: str
) -> None:
    """Skip all bytes that a transcript has now; a running pause of it goes on.

    The time is stored besides the offset, since a client may append old records again.
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


def _skip_older_records(db: sqlite3.Connection, project_id: str, until: float) -> None:
    """Skip all older records of a project, as if it had been paused until then.

    The new mark covers the earlier ones, so these are deleted.
    """
    earlier = "DELETE FROM pauses WHERE scope = ? AND ended_at <= ?"
    db.execute(earlier, (project_id, until))
    db.execute(
        "INSERT INTO pauses (scope, started_at, ended_at) VALUES (?, 0, ?)", (project_id, until)
    )
