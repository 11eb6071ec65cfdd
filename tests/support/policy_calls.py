"""For the policy matrix: a workspace with all that is closed, and every tool called by its dialect's own way in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import mcp_types as types
from mcp import Client

from tests.support.http_runs import batch
from tests.support.policy_matrix import DENIED, PLACES, SIZE, Call
from wap_kernel.dialects.agent_spaces.operations import parse_message
from wap_kernel.dialects.coding_environment import tools as coding_tools
from wap_kernel.dialects.coding_environment import workspace_root
from wap_kernel.dialects.tool_interface import tool_call
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.caller import Caller
from wap_kernel.model.operations import Operation
from wap_kernel.policy import presets
from wap_kernel.policy.verdict import Verdict, VerdictKind

SECRET = "the-secret-of-this-file"
_CELL = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": SECRET}
_NOTEBOOK = json.dumps({"cells": [_CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def lay_out(root: Path, preset: str, repository: Path | None = None) -> None:
    """All places anew; `.git` is a copy of that repository's, or just a folder."""
    for name in os.listdir(root):
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in ("keys.pem", "locked"):
        (root / name).mkdir()
    if repository is None:
        (root / ".git").mkdir()
    else:
        shutil.copytree(repository / ".git", root / ".git")
    for name in ("server.pem", "locked/a.txt"):
        (root / name).write_text(SECRET)
    (root / ".cws-policy.json").write_text("{}")
    for place in PLACES.values():
        (root / place.notebook).write_text(_NOTEBOOK)
    limit = presets.load_preset(preset).filesystem.max_file_size
    assert limit is not None
    for name in ("big.txt", "big.ipynb"):
        with (root / name).open("wb") as file:
            file.truncate(limit + 1)


def commit_all(root: Path) -> None:
    """Make it a repository in which everything small is committed."""
    shutil.rmtree(root / ".git")
    for words in ("init -q --template=", "add server.pem locked .cws-policy.json", "commit -qm all"):
        settings = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", root, *settings, *words.split()], check=True, timeout=60)


def contents(root: Path) -> dict[str, bytes | int]:
    """What stands in the workspace, of large files their size."""
    found = {}
    for path in root.rglob("*"):
        if path.is_file() and not path.is_relative_to(root / ".git/objects"):
            size = path.stat().st_size
            found[str(path.relative_to(root))] = path.read_bytes() if size < 100_000 else size
    return found


class Answered(NamedTuple):
    code: str | None
    """Of a refusal."""
    text: str


def _of_rest(status: int, body: Mapping[str, Any]) -> Answered:
    return Answered(None, json.dumps(body)) if status == 200 else Answered(body["code"], body["error"])


def _of_event(event: Mapping[str, Any]) -> Answered:
    """The event of a denial has no code; the rule tells which it is."""
    if event["type"] != "policyDenied":
        assert event.get("success", True) or event["type"] == "shell", event
        return Answered(None, json.dumps(event))
    return Answered(SIZE if event["rule"] == "maxFileSize" else DENIED, event["reason"])


class Everything:
    """Calls any tool of any dialect over HTTP, and says in process what to expect."""

    def __init__(self, fetch: Any, client: Client, extension: Any) -> None:
        self._fetch = fetch
        self._client = client
        self._workspace = extension.workspace

    async def answer(self, call: Call, place: str) -> Answered:
        fields = call.at(place)
        ways = {"wap": "wap/api", "interface": "wap/workspace"}
        if call.dialect in ways:
            path = f"{ways[call.dialect]}/{call.tool}"
            answer = await self._fetch(path, method="POST", body=json.dumps(fields))
            return _of_rest(answer.status, answer.body)
        if call.dialect == "agent spaces":
            answer = await self._fetch("wap/runs", method="POST", body=batch({"type": call.tool, **fields}))
            return _of_event(answer.body["events"][-1])
        return await self._over_mcp(call.tool, fields)

    async def _over_mcp(self, tool: str, fields: dict[str, Any]) -> Answered:
        result = await self._client.call_tool(tool, fields)
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        answer = json.loads(content.text)
        if result.is_error:
            return Answered(answer["error"]["data"]["code"], answer["error"]["message"])
        return _of_event(answer["events"][-1]) if tool == "runOperations" else Answered(None, content.text)

    async def foreseen(self, call: Call, place: str) -> Verdict:
        """What is said in process, before anything is done."""
        (verdict,) = await self._workspace.check([await self._operation(call, call.at(place))], Caller())
        assert verdict.kind is not VerdictKind.ASK, verdict
        return verdict

    async def _operation(self, call: Call, fields: dict[str, Any]) -> Operation:
        body = json.dumps(fields).encode()
        if call.dialect == "wap":
            return await wap.parse_request(call.tool, body, self._workspace, Caller())
        if call.dialect == "interface":
            return await tool_call.parse_request(call.tool, body, self._workspace, Caller())
        if call.dialect == "agent spaces" or call.tool == "runOperations":
            operations = fields.get("operations") or [{"type": call.tool, **fields}]
            return parse_message(batch(*operations).encode()).steps()[0].operation
        sent = coding_tools.TOOLS[call.tool].parse(body)
        folder = workspace_root.build_root_folder(".", self._workspace.names_of_root)
        operation: Operation = sent.build_operation(folder)
        return operation
