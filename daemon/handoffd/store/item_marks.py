"""The open items that a person closed, and the list of items that was shown last."""

import sqlite3
from collections.abc import Collection, Sequence
from typing import NamedTuple

from handoffd.store.database import transaction

DONE, DROPPED, UNTRUE = "done", "dropped", "untrue"
MARKS_SQL = (
    # An item is known by the record that it comes from and a digest of its words.
    """CREATE TABLE item_marks (
        project_id TEXT NOT NULL REFERENCES projects(id),
        transcript TEXT NOT NULL,
        record TEXT NOT NULL,
        digest TEXT NOT NULL,
        state TEXT NOT NULL,
        text TEXT NOT NULL,
        marked_at TEXT NOT NULL,
        PRIMARY KEY (project_id, transcript, record, digest)
    )""",
    # The numbers of the items are valid for the list with this stamp.
    "CREATE TABLE shown_items (project_id TEXT PRIMARY KEY REFERENCES projects(id), stamp TEXT)",
)
_COLUMNS = "transcript, record, digest, state, text, marked_at"


class ItemMark(NamedTuple):
    """An item that a person closed: its key, what became of it, its words and the time."""

    transcript: str
    record: str
    digest: str
    state: str
    text: str
    marked_at: str


class ItemMarks:
    """The marks of all projects, in core.db."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def of(self, project_id: str) -> list[ItemMark]:
        """Return the marks of a project, the newest first."""
        rows = self._db.execute(
            f"SELECT {_COLUMNS} FROM item_marks"  # noqa: S608  constant names
            " WHERE project_id = ? ORDER BY marked_at DESC, rowid DESC",
            (project_id,),
        )
        return [ItemMark(*row) for row in rows]

    def keys(self, project_id: str) -> Collection[tuple[str, str, str]]:
        """Return the keys of the closed items of a project."""
        rows = self._db.execute(
            "SELECT transcript, record, digest FROM item_marks WHERE project_id = ?", (project_id,)
        )
        return frozenset(rows.fetchall())

    def add(self, project_id: str, marks: Sequence[ItemMark]) -> None:
        """Add marks; a later mark of the same item replaces the earlier one."""
        with transaction(self._db):
            self._db.executemany(
                f"INSERT OR REPLACE INTO item_marks (project_id, {_COLUMNS})"  # noqa: S608  constant names
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(project_id, *mark) for mark in marks],
            )

    def shown(self, project_id: str) -> str:
        """Return the stamp of the list that a person saw last, or an empty text."""
        query = "SELECT stamp FROM shown_items WHERE project_id = ?"
        row = self._db.execute(query, (project_id,)).fetchone()
        return str(row[0]) if row else ""

    def set_shown(self, project_id: str, stamp: str) -> None:
        if self.shown(project_id) != stamp:
            with transaction(self._db):
                self._db.execute(
                    "INSERT OR REPLACE INTO shown_items (project_id, stamp) VALUES (?, ?)",
                    (project_id, stamp),
                )
