"""The tables of core.db. To change them, append a migration to `SCHEMA`."""

from handoffd.store.database import Schema, run_script
from handoffd.store.item_marks import MARKS_SQL
from handoffd.store.ledger import TRIGGERS_SQL
from handoffd.store.oauth import OAUTH_SQL
from handoffd.store.outbox import OUTBOX_SQL
from handoffd.store.threads import SHOWN_SQL, THREADS_SQL

_PROJECTS = (
    "CREATE TABLE projects (id TEXT PRIMARY KEY, root TEXT NOT NULL UNIQUE, created_at TEXT)",
    # The values that a person set; each is valid until a session states another one.
    """CREATE TABLE settings (
        project_id TEXT NOT NULL REFERENCES projects(id),
        field TEXT NOT NULL,
        value TEXT NOT NULL,
        session_id TEXT NOT NULL,
        set_at TEXT NOT NULL,
        PRIMARY KEY (project_id, field)
    )""",
    # The values that we wrote last to handoff.yaml, and those that we were about to write. Any
    # other value in the file is a person's.
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
    # Bytes of a transcript that were written during a pause; last_byte is NULL while it lasts.
    """CREATE TABLE skips (
        transcript TEXT NOT NULL,
        first_byte INTEGER NOT NULL,
        last_byte INTEGER,
        scope TEXT NOT NULL,
        PRIMARY KEY (transcript, first_byte)
    )""",
    # Rewritten transcripts with skipped bytes: only records newer than this time are read.
    "CREATE TABLE rewritten (transcript TEXT PRIMARY KEY, since TEXT NOT NULL)",
)
_CONTRACTS = (
    # The handoff of each session: the text that we wrote last and the one that we were about to
    # write, so that any other line in it is known as a person's, and the session's time then.
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
    # The version of each handoff that was read last.
    "CREATE TABLE read_marks (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, read_at TEXT NOT NULL)",
)
SCHEMA = Schema(
    9,
    run_script(*THREADS_SQL, *_PROJECTS, *TRIGGERS_SQL, *_PAUSES, *_CONTRACTS, *OUTBOX_SQL),
    (run_script(*OAUTH_SQL), run_script(*SHOWN_SQL), run_script(*MARKS_SQL)),
)
