-- core.db of schema 3
BEGIN TRANSACTION;
CREATE TABLE checkpoints (
        project_id TEXT PRIMARY KEY REFERENCES projects(id),
        written TEXT NOT NULL,
        intended TEXT NOT NULL
    );
INSERT INTO "checkpoints" VALUES('0123456789abcdef','{"goal": "g"}','{"goal": "g"}');
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
CREATE TABLE projects (id TEXT PRIMARY KEY, root TEXT NOT NULL UNIQUE, created_at TEXT);
INSERT INTO "projects" VALUES('0123456789abcdef','/home/me/shop','2026-11-16T10:00:00Z');
CREATE TABLE settings (
        project_id TEXT NOT NULL REFERENCES projects(id),
        field TEXT NOT NULL,
        value TEXT NOT NULL,
        session_id TEXT NOT NULL,
        set_at TEXT NOT NULL,
        PRIMARY KEY (project_id, field)
    );
INSERT INTO "settings" VALUES('0123456789abcdef','goal','"A goal that a person set"','','2026-11-16T10:01:00.000Z');
CREATE TABLE transcript_roots (path TEXT PRIMARY KEY);
INSERT INTO "transcript_roots" VALUES('/home/me/.claude-work/projects');
CREATE TABLE triggers (
        cause TEXT PRIMARY KEY,
        trigger TEXT NOT NULL,
        project_id TEXT NOT NULL,
        session_id TEXT,
        fired_at TEXT NOT NULL
    );
INSERT INTO "triggers" VALUES('manual:1','manual','0123456789abcdef','s1','2026-11-16T10:02:00.000Z');
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('handoff_entries',2);
COMMIT;
PRAGMA user_version = 3;
