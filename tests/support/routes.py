"""Every route of the extension as one request: what the authorizer is to be asked, and what an allowed caller gets."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.support.server_fixtures import FILE

_INSERT = {"type": "insert", "afterLine": 0, "newContent": "x"}
_CELL = {"type": "insert", "source": "x"}
_BATCH = {"protocolVersion": "1.0", "operations": []}

_DECISION = {"decision": "approved", "approvalId": "x"}


class Door(NamedTuple):
    method: str
    path: str
    fields: dict[str, Any] | None
    asked: str
    resource: str = "wap"
    status: int = 200

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def body(self) -> str | None:
        return None if self.fields is None else json.dumps(self.fields)


# In an order in which they can be taken one after the other, where FILE stands.
DOORS = (
    Door("POST", "wap/api/exploreFiles", {"path": "."}, "read"),
    Door("POST", "wap/api/readFile", {"path": FILE}, "read"),
    Door("POST", "wap/api/writeFile", {"path": "new.txt", "content": "x"}, "write"),
    Door("POST", "wap/api/modifyFile", {"path": FILE, "operations": [_INSERT]}, "write"),
    Door("POST", "wap/api/searchFiles", {"paths": ["."], "query": "a", "type": "literal"}, "read"),
    Door("POST", "wap/api/executeCommand", {"command": "true"}, "execute"),
    Door("POST", "wap/api/getWorkspaceInfo", {}, "read"),
    Door("POST", "wap/api/createDirectory", {"path": "folder"}, "write"),
    Door("POST", "wap/api/copyFile", {"source": FILE, "destination": "copy.txt"}, "write"),
    Door("POST", "wap/api/moveFile", {"source": "copy.txt", "destination": "moved.txt"}, "write"),
    Door("POST", "wap/api/deleteFile", {"path": "moved.txt"}, "write"),
    Door("POST", "wap/api/readNotebook", {"path": "work.ipynb"}, "read", status=404),
    Door("POST", "wap/api/modifyNotebook", {"path": "work.ipynb", "operations": [_CELL]}, "write", status=404),
    Door("POST", "wap/api/runOperations", _BATCH, "read", status=201),
    Door("POST", "wap/workspace/bash", {"command": "true"}, "execute"),
    Door("POST", "wap/workspace/read", {"file_path": FILE}, "read"),
    Door("POST", "wap/workspace/write", {"file_path": "new.txt", "content": "y"}, "write"),
    Door("POST", "wap/workspace/edit", {"file_path": "new.txt", "old_string": "y", "new_string": "z"}, "write"),
    Door("POST", "wap/workspace/glob", {"pattern": "*"}, "read"),
    Door("POST", "wap/workspace/grep", {"pattern": "a"}, "read"),
    Door("POST", "wap/workspace/git", {"action": "status"}, "read"),
    Door("POST", "wap/runs", _BATCH, "read", status=201),
    Door("GET", "wap/runs", None, "read"),
    Door("GET", "wap/runs/x", None, "read", status=404),
    Door("POST", "wap/runs/x/decision", _DECISION, "write", "wap_approvals", status=404),
    Door("POST", "wap/runs/x/cancel", None, "write", status=404),
    Door("POST", "wap/runs/x/revert", None, "write", status=404),
    Door("POST", "wap/runs/x/apply", {}, "write", status=404),
    Door("GET", "wap/runs/x/changes", None, "read", status=404),
    Door("GET", "wap/runs/x/output/x", None, "read", status=404),
    Door("GET", "wap/runs/x/stream", None, "read", status=404),
    Door("GET", "wap/events", None, "read"),
    Door("POST", "wap/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, "read", status=400),
    Door("GET", "wap/mcp", None, "read", status=400),
    Door("DELETE", "wap/mcp", None, "read", status=400),
    Door("GET", "wap/tools", None, "read"),
    Door("GET", "wap/policy", None, "read"),
    Door("POST", "wap/policy/check", _BATCH, "read"),
    Door("GET", "wap/audit", None, "read", "wap_audit"),
    Door("GET", "wap/grants", None, "read", "wap_approvals"),
    Door("DELETE", "wap/grants/x", None, "write", "wap_approvals", status=404),
    Door("POST", "wap/tokens", {"name": "an agent"}, "write", "wap_tokens", status=201),
    Door("GET", "wap/tokens", None, "read", "wap_tokens"),
    Door("DELETE", "wap/tokens/x", None, "write", "wap_tokens", status=404),
    Door("GET", "wap/openapi.json", None, "read"),
)
