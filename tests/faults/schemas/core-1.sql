-- core.db of schema 1
BEGIN TRANSACTION;
CREATE TABLE handoff_entries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        handoff_id TEXT NOT NULL REFERENCES handoffs(id),
        from_client TEXT NOT NULL,
        type TEXT NOT NULL,
        content TEXT NOT NULL,
        created_at TEXT
    );
INSERT INTO "handoff_entries" VALUES(1,'hof_1','chat','context','first words','2026-11-16T10:00:00Z');
INSERT INTO "handoff_entries" VALUES(2,'hof_1','code','done','zweite Wörter','2026-11-16T10:05:00Z');
CREATE TABLE handoffs (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        project TEXT,
        chat_last_seen INTEGER DEFAULT 0,
        code_last_seen INTEGER DEFAULT 0,
        status TEXT DEFAULT 'active',
        created_at TEXT,
        updated_at TEXT
    );
INSERT INTO "handoffs" VALUES('hof_1','A thread','shop',2,1,'active','2026-11-16T10:00:00Z','2026-11-16T10:05:00Z');
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('handoff_entries',2);
COMMIT;
PRAGMA user_version = 1;
