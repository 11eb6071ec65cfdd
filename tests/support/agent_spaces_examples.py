"""The JSON examples of the Agent Spaces protocol reference, as they stand there."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
TIME = "2024-01-15T10:30:00Z"

OPERATIONS: dict[str, Json] = {
    "message": {"type": "message", "id": "msg-1", "content": "Processing data..."},
    "createFile": {
        "type": "createFile",
        "id": "file-1",
        "path": "src/utils.ts",
        "content": "export const helper = () => {};",
        "encoding": "utf-8",
        "overwrite": False,
    },
    "readFile": {"type": "readFile", "id": "read-1", "path": "config.json", "encoding": "utf-8"},
    "editFile": {
        "type": "editFile",
        "id": "edit-1",
        "path": "src/app.ts",
        "edits": [{"oldContent": "const x = 1;", "newContent": "const x = 42;"}],
    },
    "deleteFile": {"type": "deleteFile", "id": "del-1", "path": "temp.txt"},
    "shell": {
        "type": "shell",
        "id": "shell-1",
        "command": "bun run test.ts",
        "cwd": "src",
        "timeout": 30000,
        "env": {"DEBUG": "true"},
    },
}

OPERATIONS_MESSAGE: Json = {
    "protocolVersion": "1.0",
    "operations": [
        {"type": "message", "content": "Starting..."},
        {"type": "createFile", "path": "app.ts", "content": "..."},
        {"type": "shell", "command": "bun run app.ts"},
    ],
}

EVENTS: dict[str, Json] = {
    "message": {"type": "message", "timestamp": TIME, "operationId": "msg-1", "success": True},
    "createFile": {
        "type": "createFile",
        "timestamp": TIME,
        "operationId": "file-1",
        "path": "src/utils.ts",
        "success": True,
        "bytesWritten": 31,
    },
    "createFile on failure": {
        "type": "createFile",
        "path": "src/utils.ts",
        "success": False,
        "error": "File already exists",
    },
    "readFile": {
        "type": "readFile",
        "timestamp": TIME,
        "operationId": "read-1",
        "path": "config.json",
        "success": True,
        "content": '{"key": "value"}',
        "encoding": "utf-8",
        "size": 16,
    },
    "editFile": {
        "type": "editFile",
        "timestamp": TIME,
        "operationId": "edit-1",
        "path": "src/app.ts",
        "success": True,
        "editsApplied": 1,
    },
    "deleteFile": {
        "type": "deleteFile",
        "timestamp": TIME,
        "operationId": "del-1",
        "path": "temp.txt",
        "success": True,
    },
    "shell": {
        "type": "shell",
        "timestamp": TIME,
        "operationId": "shell-1",
        "command": "bun run test.ts",
        "success": True,
        "exitCode": 0,
        "stdout": "All tests passed!\n",
        "stderr": "",
        "durationMs": 1234,
    },
    "shell on timeout": {
        "type": "shell",
        "command": "sleep 1000",
        "success": False,
        "timedOut": True,
        "exitCode": 124,
        "durationMs": 30000,
    },
    "approvalRequired": {
        "type": "approvalRequired",
        "timestamp": TIME,
        "operationId": "shell-1",
        "operationType": "shell",
        "reason": "Destructive command requires approval",
        "details": {"command": "rm -rf data/", "policy": "shell.approvalRequired"},
    },
    "policyDenied": {
        "type": "policyDenied",
        "timestamp": TIME,
        "operationType": "shell",
        "reason": "Command 'sudo' is blocked",
        "suggestion": "Remove sudo from command",
    },
    "error": {
        "type": "error",
        "timestamp": TIME,
        "category": "execution",
        "message": "Docker container not available",
        "details": {},
    },
}

EVENTS_MESSAGE: Json = {"protocolVersion": "1.0", "runId": "run_abc123", "status": "completed", "events": []}
