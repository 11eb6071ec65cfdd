-- A state.db of schema 2 with rows in every table, as `.dump` of sqlite3 writes it. Never changed afterwards.
BEGIN TRANSACTION;
CREATE TABLE audit (
        id INTEGER PRIMARY KEY,
        operation_id TEXT NOT NULL,
        phase TEXT NOT NULL CHECK (phase IN ('intent', 'outcome')),
        at TEXT NOT NULL,
        operation TEXT NOT NULL,
        workspace TEXT NOT NULL,
        user TEXT NOT NULL,
        agent TEXT,
        session TEXT,
        summary TEXT NOT NULL,
        outcome TEXT CHECK (outcome IN ('ok', 'denied', 'failed')),
        code TEXT,
        error TEXT,
        duration_ms REAL
    , token TEXT);
INSERT INTO "audit" VALUES(1,'aa11-1','intent','2026-01-05T09:00:00.000Z','writeFile','0123456789abcdef','ann','claude','s-1','{"path": "notes/\u00e9t\u00e9.txt"}',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "audit" VALUES(2,'aa11-1','outcome','2026-01-05T09:00:00.004Z','writeFile','0123456789abcdef','ann','claude','s-1','{"path": "notes/\u00e9t\u00e9.txt"}','ok',NULL,NULL,4.125,NULL);
INSERT INTO "audit" VALUES(3,'aa11-2','outcome','2026-01-05T09:00:01.000Z','readFile','0123456789abcdef','ann',NULL,NULL,'{}','denied','PERMISSION_DENIED','The path leaves the workspace: ../x',0.051,'0a1b2c3d4e5f');
INSERT INTO "audit" VALUES(4,'aa11-3','intent','2026-01-05T09:00:02.000Z','runCommand','0123456789abcdef','bob',NULL,NULL,'{"command": "printf ''it''''s\\n''; sleep 9", "cwd": ".", "environment": ["KEY"]}',NULL,NULL,NULL,NULL,NULL);
CREATE TABLE bytes_written (
        token TEXT PRIMARY KEY,
        day TEXT NOT NULL,
        bytes INTEGER NOT NULL
    );
INSERT INTO "bytes_written" VALUES('0a1b2c3d4e5f','2026-01-05',1234);
CREATE TABLE grants (
        id TEXT PRIMARY KEY,
        created_at TEXT NOT NULL,
        created_by TEXT NOT NULL,
        workspace TEXT NOT NULL,
        body TEXT NOT NULL
    );
INSERT INTO "grants" VALUES('1122334455667788','2026-01-05T08:00:00.000Z','ann','0123456789abcdef','{"kind":"command","operation":"runCommand","paths":[],"commands":[{"words":["git","push"],"options":[],"cwd":null}]}');
CREATE TABLE tokens (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        workspace TEXT NOT NULL,
        digest TEXT NOT NULL,
        name TEXT NOT NULL,
        tools TEXT,
        preset TEXT,
        policy TEXT,
        limits TEXT NOT NULL,
        created_at TEXT NOT NULL,
        created_by TEXT NOT NULL,
        vouched INTEGER NOT NULL,
        expires_at TEXT NOT NULL,
        revoked_at TEXT,
        last_used_at TEXT
    );
INSERT INTO "tokens" VALUES(1,'0a1b2c3d4e5f','0123456789abcdef','9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08','my agent','["readFile", "writeFile"]','restrictive','{"deniedPaths": ["secret/**"]}','{"concurrentOperations":8,"commandsPerMinute":60,"bytesWrittenPerDay":1073741824}','2026-01-05T08:00:00.000Z','ann',0,'2026-01-12T08:00:00.000Z',NULL,'2026-01-05T09:00:00.000Z');
INSERT INTO "tokens" VALUES(2,'ffffffffffff','0123456789abcdef','e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855','revoked',NULL,NULL,NULL,'{"concurrentOperations":8,"commandsPerMinute":60,"bytesWrittenPerDay":1073741824}','2026-01-05T08:00:00.000Z','ann',1,'2026-01-12T08:00:00.000Z','2026-01-05T08:30:00.000Z',NULL);
CREATE INDEX audit_operation ON audit (operation_id);
COMMIT;
PRAGMA user_version = 2;
