"""The tables of core.db, in the order in which they came; what is there once is never changed."""

import sqlite3

from handoffd.store.database import run_script
from handoffd.store.ledger import RECORDS, TRIGGERS
from handoffd.store.outbox import OUTBOX
from handoffd.store.threads import BRIDGE, THREADS

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
# Transcripts with silent bytes that were rewritten: only what is newer than this is heard.
_REWRITTEN = "CREATE TABLE rewritten (transcript TEXT PRIMARY KEY, since TEXT NOT NULL)"
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
    _REWRITTEN,
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
# The columns that hold JSON.
JSON = {
    "settings": ("value",),
    "checkpoints": ("written", "intended"),
    "triggers": ("request", "outcome"),
}


def _straighten(connection: sqlite3.Connection) -> None:
    """Add what the first databases of schemas 4 and 5 lack: those were changed once they stood."""
    connection.execute(_REWRITTEN.replace("TABLE", "TABLE IF NOT EXISTS", 1))
    columns = {row[1] for row in connection.execute("PRAGMA table_info(contracts)")}
    if "intended" not in columns:
        add = "ALTER TABLE contracts ADD COLUMN"
        connection.execute(f"{add} intended TEXT NOT NULL DEFAULT ''")
        connection.execute(f"{add} ended INTEGER NOT NULL DEFAULT 0")
        connection.execute("UPDATE contracts SET intended = written")


MIGRATIONS = (
    THREADS, _PROJECTS, TRIGGERS, _PAUSES, _CONTRACTS, RECORDS, OUTBOX, BRIDGE, _straighten,
)  # fmt: skip
