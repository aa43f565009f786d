"""The tables of core.db. A change of them is a migration at the end of `SCHEMA`."""

from handoffd.store.database import Schema, run_script
from handoffd.store.ledger import TRIGGERS
from handoffd.store.outbox import OUTBOX
from handoffd.store.threads import THREADS

_PROJECTS = (
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
_PAUSES = (
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
_CONTRACTS = (
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
SCHEMA = Schema(9, run_script(*THREADS, *_PROJECTS, *TRIGGERS, *_PAUSES, *_CONTRACTS, *OUTBOX))
