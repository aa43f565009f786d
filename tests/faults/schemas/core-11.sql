-- core.db of schema 11
BEGIN TRANSACTION;
CREATE TABLE birth(at);
INSERT INTO "birth" VALUES('2026-11-16T09:00:00.000Z');
CREATE TABLE checkpoints (
        project_id TEXT PRIMARY KEY REFERENCES projects(id),
        written TEXT NOT NULL,
        intended TEXT NOT NULL
    );
INSERT INTO "checkpoints" VALUES('0123456789abcdef','{"goal": "g"}','{"goal": "g"}');
CREATE TABLE contracts (
        session_id TEXT PRIMARY KEY,
        project_id TEXT NOT NULL,
        path TEXT NOT NULL,
        written TEXT NOT NULL,
        intended TEXT NOT NULL,
        stamp TEXT NOT NULL,
        session_time TEXT NOT NULL,
        persons_time TEXT NOT NULL,
        ended INTEGER NOT NULL
    );
INSERT INTO "contracts" VALUES('s1','0123456789abcdef','/h/1.md','w','w','x','2026-11-16T10:02:00.000Z','',1);
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
    , content_bytes INTEGER NOT NULL DEFAULT 0, chat_shown INTEGER NOT NULL DEFAULT 0, code_shown INTEGER NOT NULL DEFAULT 0);
INSERT INTO "handoffs" VALUES('hof_1','A thread','shop',2,1,'active','2026-11-16T10:00:00Z','2026-11-16T10:05:00Z',26,2,1);
CREATE TABLE oauth_clients (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created_at REAL NOT NULL
    );
INSERT INTO "oauth_clients" VALUES('11111111-2222-4333-8444-555555555555','Claude','{"client_id":"11111111-2222-4333-8444-555555555555","redirect_uris":["https://client.example/callback"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}',1763287200.0);
CREATE TABLE oauth_grants (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        client_id TEXT NOT NULL REFERENCES oauth_clients(id) ON DELETE CASCADE,
        request TEXT NOT NULL,
        asked_at REAL NOT NULL,
        approved_at REAL
    );
INSERT INTO "oauth_grants" VALUES(1,'11111111-2222-4333-8444-555555555555','{"state": "s", "scopes": null, "code_challenge": "c", "redirect_uri": "https://client.example/callback", "redirect_uri_provided_explicitly": true, "resource": null}',1763287200.0,1763287201.0);
CREATE TABLE oauth_secrets (
        hash TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        grant_id INTEGER NOT NULL REFERENCES oauth_grants(id) ON DELETE CASCADE,
        expires_at REAL NOT NULL,
        spent INTEGER NOT NULL DEFAULT 0
    );
INSERT INTO "oauth_secrets" VALUES('3660315a9af3df255d8f19ab077e4797822b41488a0e2a04bc6af71213c23274','page',1,1763287800.0,1);
INSERT INTO "oauth_secrets" VALUES('135a345b983ce7b70c4c5da4c739c6615eb49c24aef367740e3ada24aca28ff8','approval',1,1763287800.0,1);
INSERT INTO "oauth_secrets" VALUES('5694d08a2e53ffcae0c3103e5ad6f6076abd960eb1f8a56577040bc1028f702b','code',1,1763287300.0,1);
INSERT INTO "oauth_secrets" VALUES('a0561fd649cdb6baa784055f051bad796ea0afef17fca38219549deeba4e8c1a','access',1,1763290800.0,0);
INSERT INTO "oauth_secrets" VALUES('d6cc0a088c07683c65cd266860cab8d94b3a1937b17420d9da30ca299c09fb77','refresh',1,4102444800.0,0);
CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        project_id TEXT NOT NULL,
        root TEXT NOT NULL,
        key TEXT NOT NULL,
        target TEXT NOT NULL,
        body TEXT NOT NULL,
        state TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        problem TEXT NOT NULL DEFAULT '',
        queued_at TEXT NOT NULL,
        sent_at TEXT NOT NULL DEFAULT '',
        not_before REAL NOT NULL DEFAULT 0,
        UNIQUE (kind, key)
    );
INSERT INTO "outbox" VALUES(1,'note','0123456789abcdef','/home/me/shop','k','bd-1','b','waiting',0,'','2026-11-16T10:02:00Z','',0.0);
CREATE TABLE pauses (
        scope TEXT NOT NULL,
        started_at REAL NOT NULL,
        ended_at REAL
    );
INSERT INTO "pauses" VALUES('0123456789abcdef',1.0,2.0);
INSERT INTO "pauses" VALUES('*',3.0,NULL);
CREATE TABLE projects (id TEXT PRIMARY KEY, root TEXT NOT NULL UNIQUE, created_at TEXT);
INSERT INTO "projects" VALUES('0123456789abcdef','/home/me/shop','2026-11-16T10:00:00Z');
CREATE TABLE read_marks (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, read_at TEXT NOT NULL);
INSERT INTO "read_marks" VALUES('/h/1.md','x','2026-11-16T10:04:00Z');
CREATE TABLE rewritten (transcript TEXT PRIMARY KEY, since TEXT NOT NULL);
INSERT INTO "rewritten" VALUES('s2','2026-11-16T10:03:00.000Z');
CREATE TABLE seen (
        project_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        status TEXT NOT NULL,
        changes INTEGER NOT NULL,
        changed_at REAL NOT NULL,
        PRIMARY KEY (project_id, kind, name)
    );
INSERT INTO "seen" VALUES('0123456789abcdef','track','t1','designed',1,5.0);
CREATE TABLE session_tracks (
        session_id TEXT PRIMARY KEY,
        project_id TEXT NOT NULL,
        track_id TEXT NOT NULL
    );
INSERT INTO "session_tracks" VALUES('s1','0123456789abcdef','t1');
CREATE TABLE settings (
        project_id TEXT NOT NULL REFERENCES projects(id),
        field TEXT NOT NULL,
        value TEXT NOT NULL,
        session_id TEXT NOT NULL,
        set_at TEXT NOT NULL,
        PRIMARY KEY (project_id, field)
    );
INSERT INTO "settings" VALUES('0123456789abcdef','goal','"A goal that a person set"','','2026-11-16T10:01:00.000Z');
CREATE TABLE skips (
        transcript TEXT NOT NULL,
        first_byte INTEGER NOT NULL,
        last_byte INTEGER,
        scope TEXT NOT NULL,
        PRIMARY KEY (transcript, first_byte)
    );
INSERT INTO "skips" VALUES('s1',10,30,'0123456789abcdef');
CREATE TABLE thread_calls (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        handoff_id TEXT NOT NULL,
        seq INTEGER NOT NULL
    );
INSERT INTO "thread_calls" VALUES(1,'once-1','hof_1',1);
CREATE TABLE thread_uses (
        handoff_id TEXT NOT NULL REFERENCES handoffs(id),
        project_id TEXT NOT NULL,
        PRIMARY KEY (handoff_id, project_id)
    );
INSERT INTO "thread_uses" VALUES('hof_1','0123456789abcdef');
CREATE TABLE transcript_roots (path TEXT PRIMARY KEY);
INSERT INTO "transcript_roots" VALUES('/home/me/.claude-work/projects');
CREATE TABLE triggers (
        cause TEXT PRIMARY KEY,
        trigger TEXT NOT NULL,
        project_id TEXT NOT NULL,
        session_id TEXT,
        fired_at TEXT NOT NULL
    , receipt TEXT NOT NULL DEFAULT '', bead TEXT NOT NULL DEFAULT '', request TEXT NOT NULL DEFAULT '{}', outcome TEXT);
INSERT INTO "triggers" VALUES('manual:1','manual','0123456789abcdef','s1','2026-11-16T10:02:00.000Z','','','{}','{}');
CREATE INDEX outbox_state ON outbox (state, id);
CREATE INDEX idx_handoff_entries_handoff ON handoff_entries(handoff_id);
CREATE INDEX oauth_grants_client ON oauth_grants (client_id);
CREATE INDEX oauth_secrets_grant ON oauth_secrets (grant_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('handoff_entries',2);
INSERT INTO "sqlite_sequence" VALUES('outbox',1);
INSERT INTO "sqlite_sequence" VALUES('thread_calls',1);
INSERT INTO "sqlite_sequence" VALUES('oauth_grants',1);
COMMIT;
PRAGMA user_version = 11;
