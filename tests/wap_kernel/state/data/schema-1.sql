-- A state.db of schema 1 with rows in every table, as `.dump` of sqlite3 writes it. Never changed afterwards.
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
    );
INSERT INTO "audit" VALUES(1,'aa11-1','intent','2026-01-05T09:00:00.000Z','writeFile','0123456789abcdef','ann','claude','s-1','{"path": "notes/\u00e9t\u00e9.txt"}',NULL,NULL,NULL,NULL);
INSERT INTO "audit" VALUES(2,'aa11-1','outcome','2026-01-05T09:00:00.004Z','writeFile','0123456789abcdef','ann','claude','s-1','{"path": "notes/\u00e9t\u00e9.txt"}','ok',NULL,NULL,4.125);
INSERT INTO "audit" VALUES(3,'aa11-2','outcome','2026-01-05T09:00:01.000Z','readFile','0123456789abcdef','ann',NULL,NULL,'{}','denied','PERMISSION_DENIED','The path leaves the workspace: ../x',0.051);
INSERT INTO "audit" VALUES(4,'aa11-3','intent','2026-01-05T09:00:02.000Z','runCommand','0123456789abcdef','bob',NULL,NULL,'{"command": "printf ''it''''s\\n''; sleep 9", "cwd": ".", "environment": ["KEY"]}',NULL,NULL,NULL,NULL);
CREATE INDEX audit_operation ON audit (operation_id);
COMMIT;
PRAGMA user_version = 1;
