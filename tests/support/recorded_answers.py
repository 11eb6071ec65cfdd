"""Answers of a real engine for the tests of their rendering."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.support.run_workspace import ASKING, PERSON, Scene
from wap_kernel.client.backend import RunUpdate
from wap_kernel.client.results import (
    ApprovalNotice,
    AuditRecords,
    ClientResult,
    FileText,
    GitOutcome,
    GrantList,
    Listing,
    Note,
    NotebookCells,
    Overview,
    PolicyReport,
    Problem,
    RunList,
    RunResult,
    SearchHits,
    VerdictList,
)
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.errors import WapError
from wap_kernel.policy.parse import merge_policy
from wap_kernel.state.audit.query import AuditQuery

APP = 'GREETING = "Hello"\n\n\ndef greet(name):\n    return f"{GREETING}, {name}!"\n'
OPERATIONS: list[dict[str, Any]] = [
    {"type": "message", "content": "Tidying up"},
    {"type": "readFile", "path": "app.py"},
    {"type": "editFile", "path": "app.py", "edits": [{"oldContent": '"Hello"', "newContent": '"Welcome"'}]},
    {"type": "createFile", "path": "notes/todo.txt", "content": "one\n"},
    {"type": "createFile", "path": "app.py", "content": "no"},
    {"type": "editFile", "path": "app.py", "edits": [{"oldContent": "def greets(name):", "newContent": ""}]},
    {"type": "readFile", "path": ".env"},
    {"type": "shell", "id": "colours", "command": r"printf '\033[31mred\033[0m plain\n'; echo oops >&2; exit 3"},
    {"type": "shell", "id": "long", "command": "seq 1 200"},
    {"type": "shell", "id": "delete", "command": "rm -rf data/"},
]

ATOMIC: list[dict[str, Any]] = [
    {"type": "createFile", "path": "new.txt", "content": "one\n"},
    {"type": "readFile", "path": "app.py"},
    {"type": "shell", "command": "touch other.txt"},
    {"type": "readFile", "path": "nope"},
    {"type": "createFile", "path": "never.txt", "content": "two\n"},
]


class Recorded:
    """Answers by name, and the stream of a run."""

    def __init__(self) -> None:
        self.answers: dict[str, ClientResult] = {}
        self.stream: list[RunUpdate] = []

    def __getitem__(self, name: str) -> ClientResult:
        return self.answers[name]


def record_answers(folder: Path) -> Recorded:
    """Return the answers of an engine that works in `folder`."""
    root = folder / "ws"
    (root / "data" / "deep").mkdir(parents=True)
    (root / "data" / "deep" / "x.txt").write_text("x")
    (root / "app.py").write_text(APP)
    policy = merge_policy(ASKING, {"filesystem": {"deniedPaths": [".env"]}})
    return asyncio.run(_record(Scene(root, folder / "state", policy=policy, provider="bubblewrap")))


async def _record(scene: Scene) -> Recorded:
    recorded = Recorded()
    found = recorded.answers
    async with scene.opened():
        workspace, runner = scene.runner.workspace, scene.runner

        async def call(tool: str, **parameters: Any) -> dict[str, Any]:
            answered: dict[str, Any] = json.loads(
                await wap.call_tool(tool, json.dumps(parameters).encode(), runner, PERSON)
            )
            return answered

        found["listing"] = Listing(await call("exploreFiles", path=".", recursive=True, returnMetadata=True), path=".")
        found["file"] = FileText(await call("readFile", path="app.py"), path="app.py", first_line=1)
        part = await call("readFile", path="app.py", startLine=4, endLine=5)
        found["part"] = FileText(part, path="app.py", first_line=4)
        hits = await call("searchFiles", paths=["."], query="GREETING", type="literal")
        found["hits"] = SearchHits(hits, pattern="GREETING", regex=False, ignore_case=False)
        hits = await call("searchFiles", paths=["."], query=r"gr\w+\(", type="regex")
        found["regex hits"] = SearchHits(hits, pattern=r"gr\w+\(", regex=True, ignore_case=False)
        try:
            await call("readFile", path="nope.py")
        except WapError as error:
            found["problem"] = Problem.from_error(error, line=7)
        asking = await scene.run(*OPERATIONS)
        found["asking"] = RunResult(asking, operations=OPERATIONS)
        summaries = await runner.summaries((await runner.page(PERSON, None, 10, None))[0], PERSON)
        found["runs"] = RunList({"runs": summaries})
        info = await call("getWorkspaceInfo")
        place = {"kind": "server", "name": "http://localhost:8888/", "reason": "this kernel's own"}
        found["notice"] = ApprovalNotice({"runs": [run for run in summaries if "pendingApproval" in run]})
        found["overview"] = Overview({"endpoint": place, "workspace": info, "preset": "standard", "waiting": summaries})
        found["run"] = RunResult(await scene.decide(asking["runId"], True))
        found["dry"] = RunResult(
            await scene.run({"type": "deleteFile", "path": "app.py"}, {"type": "shell", "command": "ls"}, dryRun=True)
        )
        found["atomic"] = RunResult(await scene.run(*ATOMIC, atomic=True), operations=ATOMIC)
        reverted = await runner.revert(asking["runId"], PERSON, force=False)
        found["reverted"] = RunResult(await scene.message(await runner.wait(reverted.id, 30)))
        found["policy"] = PolicyReport(await workspace.describe_policy(PERSON))
        found["verdicts"] = await _verdicts(scene)
        found["audit"] = AuditRecords(await workspace.audit_page(AuditQuery(limit=30)))
        found["grants"] = GrantList({"grants": []})
        cell = {
            "id": "a1",
            "type": "code",
            "source": "1 + 1",
            "executionCount": 1,
            "outputs": [{"type": "x", "text": "2"}],
        }
        found["notebook"] = NotebookCells({"cells": [cell], "totalCells": 1, "isTruncated": False}, path="a.ipynb")
        found["git"] = GitOutcome({"action": "status", "exit_code": 0, "stderr": "", "untracked": ["a<b>.py"]})
        found["note"] = Note({"text": "%wap ls    lists files\n"})
        async for live in runner.stream_events(asking["runId"], None, PERSON):
            recorded.stream.append(RunUpdate(live.id, live.name, live.data))
    return recorded


async def _verdicts(scene: Scene) -> VerdictList:
    operations = [{"type": "shell", "command": "rm -rf data"}, {"type": "readFile", "path": ".env"}]
    body = json.dumps({"protocolVersion": "1.0", "operations": operations}).encode()
    steps = agent_spaces.parse_message(body).steps()
    verdicts = await scene.runner.workspace.check([step.operation for step in steps], PERSON)
    told = [
        {"operationId": step.id, "verdict": one.kind.value, "rule": one.rule, "reason": one.reason}
        for step, one in zip(steps, verdicts, strict=True)
    ]
    return VerdictList({"verdicts": told}, operations=operations)
