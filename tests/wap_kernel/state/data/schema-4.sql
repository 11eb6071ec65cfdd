-- A state.db of schema 4 with rows in every table, as `.dump` of sqlite3 writes it. Never changed afterwards.
BEGIN TRANSACTION;
CREATE TABLE approvals (
        id TEXT PRIMARY KEY,
        run TEXT NOT NULL,
        position INTEGER NOT NULL,
        operation_id TEXT NOT NULL,
        digest TEXT NOT NULL,
        files TEXT NOT NULL,
        shown TEXT NOT NULL,
        granted TEXT,
        created_at REAL NOT NULL,
        expires_at REAL NOT NULL,
        decision TEXT CHECK (decision IN ('approved', 'denied', 'expired', 'cancelled')),
        decided_by TEXT,
        decided_at REAL,
        reason TEXT
    );
INSERT INTO "approvals" VALUES('approval-1','run-2',0,'op-1','cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd','{}','{"command": "rm -rf data/"}',NULL,1767603660.5,1767604560.5,NULL,NULL,NULL,NULL);
INSERT INTO "approvals" VALUES('approval-0','run-1',0,'op-1','cececececececececececececececececececececececececececececececece','{"notes/\u00e9t\u00e9.txt": null}','{"path": "notes/\u00e9t\u00e9.txt"}','{"kind":"path","operation":"writeFile","paths":["notes/été.txt"],"commands":[]}',1767603600.25,1767604500.25,'approved','ann',1767603601.0,'fine');
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
    , token TEXT, dialect TEXT, tool TEXT, run TEXT, step TEXT, hash TEXT);
INSERT INTO "audit" VALUES(2,'aa11-1','outcome','2026-01-05T09:00:00.004Z','writeFile','0123456789abcdef','ann','claude','s-1','{"path": "notes/\u00e9t\u00e9.txt"}','ok',NULL,NULL,4.125,NULL,'agent_spaces','createFile','run-1','op-1','981675c6debb30e8ef48bf29e821f58ce6e2415db4a0c5171227d3bed260c974');
INSERT INTO "audit" VALUES(3,'aa11-2','outcome','2026-01-05T09:00:01.000Z','readFile','0123456789abcdef','ann',NULL,NULL,'{}','denied','PERMISSION_DENIED','The path leaves the workspace: ../x',0.051,'0a1b2c3d4e5f',NULL,NULL,NULL,NULL,'cf42541efeed504bf8a57d026217ce8a7a0a6e5526de84c31bb64ab90fd70764');
INSERT INTO "audit" VALUES(4,'aa11-3','intent','2026-01-05T09:00:02.000Z','runCommand','0123456789abcdef','bob',NULL,NULL,'{"command": "printf ''it''''s\\n''; sleep 9", "cwd": ".", "environment": ["KEY"]}',NULL,NULL,NULL,NULL,NULL,'wap','executeCommand',NULL,NULL,'835121c9218f10fdd46ffc153520ef714c8c9e5f47daae24322f39de2429216a');
INSERT INTO "audit" VALUES(5,'gc-0011223344556677','outcome','2026-01-06T00:00:00.000Z','gc','0123456789abcdef','ann',NULL,NULL,'{"from": 1, "upTo": 1, "anchor": "9ef0debe4dd5cac7b8269e0d5390dfb8d03cf647be478da612a3a9e325f48e03"}','ok',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'283c1103918667bbea3e52efe5eae6cc6f535d600b7d13202037f9671fd7379f');
CREATE TABLE audit_anchors (
        audit_id INTEGER PRIMARY KEY,
        hash TEXT NOT NULL,
        at TEXT NOT NULL
    );
INSERT INTO "audit_anchors" VALUES(1,'9ef0debe4dd5cac7b8269e0d5390dfb8d03cf647be478da612a3a9e325f48e03','2026-01-06T00:00:00.000Z');
CREATE TABLE bytes_written (
        token TEXT PRIMARY KEY,
        day TEXT NOT NULL,
        bytes INTEGER NOT NULL
    );
INSERT INTO "bytes_written" VALUES('0a1b2c3d4e5f','2026-01-05',1234);
CREATE TABLE changes (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run TEXT NOT NULL,
        position INTEGER NOT NULL,
        path TEXT NOT NULL,
        before TEXT NOT NULL,
        after TEXT
    );
INSERT INTO "changes" VALUES(1,'run-1',0,'notes/été.txt','{"kind": "absent"}','{"kind": "file", "mode": 420, "size": 1, "digest": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}');
INSERT INTO "changes" VALUES(2,'run-4',0,'notes/été.txt','{"kind": "file", "mode": 420, "size": 1, "digest": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}',NULL);
CREATE TABLE grants (
        id TEXT PRIMARY KEY,
        created_at TEXT NOT NULL,
        created_by TEXT NOT NULL,
        workspace TEXT NOT NULL,
        body TEXT NOT NULL
    );
INSERT INTO "grants" VALUES('1122334455667788','2026-01-05T08:00:00.000Z','ann','0123456789abcdef','{"kind":"command","operation":"runCommand","paths":[],"commands":[{"words":["git","push"],"options":[],"cwd":null}]}');
CREATE TABLE notes (
        run TEXT NOT NULL,
        position INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (run, position)
    );
INSERT INTO "notes" VALUES('run-4',0,'{"skipped": []}');
CREATE TABLE positions (
        run TEXT PRIMARY KEY,
        position INTEGER NOT NULL
    );
INSERT INTO "positions" VALUES('run-1',1);
INSERT INTO "positions" VALUES('run-2',0);
INSERT INTO "positions" VALUES('run-3',0);
INSERT INTO "positions" VALUES('run-4',0);
CREATE TABLE problems (
        run TEXT PRIMARY KEY,
        problems INTEGER NOT NULL
    );
INSERT INTO "problems" VALUES('run-2',1);
CREATE TABLE run_log (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('event', 'status')),
        body TEXT NOT NULL
    );
INSERT INTO "run_log" VALUES(1,'run-1','status','{"runId": "run-1", "status": "running"}');
INSERT INTO "run_log" VALUES(2,'run-1','status','{"runId": "run-1", "status": "completed"}');
INSERT INTO "run_log" VALUES(3,'run-2','status','{"runId": "run-2", "status": "running"}');
INSERT INTO "run_log" VALUES(4,'run-2','status','{"runId": "run-2", "status": "awaiting_approval"}');
INSERT INTO "run_log" VALUES(5,'run-1','event','{"type": "fileCreated", "operationId": "op-1", "path": "notes/\u00e9t\u00e9.txt"}');
INSERT INTO "run_log" VALUES(6,'run-2','event','{"type":"deleteFile","operationId":"op-0","path":"gone.txt","success":false}');
CREATE TABLE runs (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        workspace TEXT NOT NULL,
        status TEXT NOT NULL,
        caller TEXT NOT NULL,
        asker TEXT NOT NULL,
        dialect TEXT NOT NULL,
        options TEXT NOT NULL,
        operations TEXT NOT NULL,
        size INTEGER NOT NULL DEFAULT 0,
        count INTEGER NOT NULL,
        owner TEXT,
        cancel_requested INTEGER NOT NULL DEFAULT 0,
        idempotency_key TEXT,
        request_digest TEXT,
        reverts TEXT,
        response TEXT,
        started_at TEXT NOT NULL,
        completed_at TEXT
    );
INSERT INTO "runs" VALUES(1,'run-1','0123456789abcdef','completed','{"user":"ann","agent":"claude","session":null,"token":null,"scope":null}','','agent_spaces','{"atomic":false,"dry_run":false}','[["op-1", "createFile", "writeFile",{"path":"notes/été.txt","content":"eA==","mode":"overwrite","create_directories":false,"expected_hash":null}]]',120,1,NULL,0,'key-1','abababababababababababababababababababababababababababababababab',NULL,NULL,'2026-01-05T09:00:00.000Z','2026-01-05T09:00:00.010Z');
INSERT INTO "runs" VALUES(2,'run-2','0123456789abcdef','awaiting_approval','{"user":"ann","agent":"claude","session":null,"token":null,"scope":null}','','agent_spaces','{"atomic":false,"dry_run":false}','[["op-1", "shell", "runCommand",{"command":"rm -rf data/","cwd":".","timeout_ms":null,"environment":{}}]]',120,1,NULL,0,NULL,NULL,NULL,NULL,'2026-01-05T09:01:00.000Z',NULL);
INSERT INTO "runs" VALUES(3,'run-3','0123456789abcdef','running','{"user":"ann","agent":"claude","session":null,"token":null,"scope":null}','','agent_spaces','{"atomic":false,"dry_run":false}','[["op-1", "shell", "runCommand",{"command":"rm -rf data/","cwd":".","timeout_ms":null,"environment":{}}]]',120,1,'deadbeefdeadbeef',0,NULL,NULL,NULL,NULL,'2026-01-05T09:02:00.000Z',NULL);
INSERT INTO "runs" VALUES(4,'run-4','0123456789abcdef','completed','{"user":"ann","agent":"claude","session":null,"token":null,"scope":null}','','agent_spaces','{"atomic":false,"dry_run":false}','[]',120,0,NULL,0,NULL,NULL,'run-1','{"files": []}','2026-01-05T09:03:00.000Z','2026-01-05T09:03:01.000Z');
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
CREATE UNIQUE INDEX runs_once ON runs (workspace, asker, idempotency_key);
CREATE INDEX runs_status ON runs (workspace, status);
CREATE INDEX run_log_run ON run_log (run, id);
CREATE INDEX approvals_run ON approvals (run);
CREATE INDEX changes_run ON changes (run, id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('runs',4);
INSERT INTO "sqlite_sequence" VALUES('run_log',6);
INSERT INTO "sqlite_sequence" VALUES('changes',2);
COMMIT;
PRAGMA user_version = 4;
