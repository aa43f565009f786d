-- state.db of schema 3
BEGIN TRANSACTION;
CREATE TABLE changes (
        id INTEGER PRIMARY KEY,
        project_id TEXT NOT NULL,
        at REAL NOT NULL,
        field TEXT NOT NULL,
        before TEXT NOT NULL,
        after TEXT NOT NULL,
        session_id TEXT NOT NULL,
        receipt TEXT NOT NULL
    );
INSERT INTO "changes" VALUES(1,'0123456789abcdef',9.0,'goal','null','"A goal"','s1','null');
CREATE TABLE cursors (
        transcript TEXT PRIMARY KEY,
        session_id TEXT NOT NULL,
        path TEXT NOT NULL,
        offset INTEGER NOT NULL,
        head BLOB NOT NULL,
        head_bytes INTEGER NOT NULL,
        tail BLOB NOT NULL,
        tail_bytes INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL
    );
INSERT INTO "cursors" VALUES('s1','s1','/t/s1.jsonl',100,X'68',1,X'74',1,7);
CREATE TABLE ended (session_id TEXT PRIMARY KEY, ended_at REAL NOT NULL, how TEXT NOT NULL DEFAULT '');
INSERT INTO "ended" VALUES('s1',8.0,'killed');
CREATE TABLE hooks (event TEXT PRIMARY KEY, heard_at REAL NOT NULL, plugin TEXT NOT NULL);
INSERT INTO "hooks" VALUES('SessionStart',6.0,'0.1.0');
CREATE TABLE sessions (
        session_id TEXT PRIMARY KEY,
        project_id TEXT,
        last_seconds REAL NOT NULL,
        headless INTEGER NOT NULL,
        fold_version INTEGER NOT NULL,
        fold TEXT NOT NULL
    );
INSERT INTO "sessions" VALUES('s1','0123456789abcdef',9.0,0,1,'{}');
CREATE TABLE told (
        session_id TEXT NOT NULL,
        what TEXT NOT NULL,
        PRIMARY KEY (session_id, what)
    );
INSERT INTO "told" VALUES('s1','d');
CREATE INDEX sessions_by_project ON sessions (project_id, last_seconds);
CREATE INDEX changes_by_project ON changes (project_id, id);
COMMIT;
PRAGMA user_version = 3;
