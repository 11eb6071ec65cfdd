"""Hostile text in names, contents, outputs and reasons is displayed and has no effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.html_reader import check
from tests.support.recorded_answers import Recorded
from tests.support.run_workspace import PERSON, Scene
from wap_kernel.client.backend import RunUpdate
from wap_kernel.client.render import bundle, units
from wap_kernel.client.render.live_view import LiveRun
from wap_kernel.client.results import (
    AuditRecords,
    ClientResult,
    FileText,
    GrantList,
    Listing,
    Overview,
    PolicyReport,
    Problem,
    RunList,
    RunResult,
    SearchHits,
    VerdictList,
)
from wap_kernel.dialects.wap import tools as wap

ATTACKS = {
    "script": "<script>alert(1)</script>",
    "pre": "</pre></div><h1>hello",
    "image": '"><img src=x onerror=alert(1)>',
    "attribute": "' onmouseover='alert(1)",
    "entity": "&lt;b&gt; &#60;script&#62;",
    "comment": "<!-- x --><![CDATA[ y ]]>",
    "hyperlink": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "paste": "\x1b[200~rm -rf /\x1b[201~",
    "cursor": "\x1b[2J\x1b[1;1H\x9b2J",
    "override": "gnp.\u202efdp\u202c \u2066x\u2069 \u200e\u200f",
    "zero width": "a\u200bb\u2060c\ufeffd\u00ade",
    "nul": "a\x00b\x08c\x7fd",
    "surrogate": "\udcff\ud800",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "tags": "\U000e0041\U000e0042",
    "fillers": "\u3164\u115f\u2800",
}


@pytest.fixture(params=ATTACKS)
def attack(request: pytest.FixtureRequest) -> str:
    return ATTACKS[request.param]


def shown(answer: ClientResult, attack: str) -> None:
    both = bundle(answer)
    seen = units.escape_invisible(attack)
    assert seen in check(both).text
    assert seen in both["text/plain"]


OUTCOME = {"operationId": "a", "success": True}


def _event(**event: Any) -> RunResult:
    return RunResult({"runId": "run_1", "status": "completed", "events": [event]})


def _pending(**pending: Any) -> RunResult:
    told = {"operation": {"type": "shell"}, "command": "ls", **pending}
    return RunResult({"runId": "r", "status": "awaiting_approval", "events": [], "pendingApproval": told})


def _effect(*changes: dict[str, Any], **more: Any) -> RunResult:
    effect = {"exitCode": 0, "stdout": "", "stderr": "", "changes": changes, "counts": {}, **more}
    return _pending(effect=effect)


def _refused(bad: str) -> dict[str, str]:
    return {"path": bad, "rule": "r", "reason": bad}


def _hits(path: str = "p", text: str = "t", pattern: str = "t", before: str = "b", **asked: Any) -> SearchHits:
    match = {"path": path, "line": 2, "matchText": text, "contextBefore": [before], "contextAfter": []}
    return SearchHits({"matches": [match], "isTruncated": False, "totalMatches": 1}, pattern=pattern, **asked)


PLACES: dict[str, Callable[[str], ClientResult]] = {
    "run id": lambda bad: RunResult({"runId": bad, "status": "running", "events": []}),
    "status": lambda bad: RunResult({"runId": "r", "status": bad, "events": []}),
    "type": lambda bad: _event(type=bad, **OUTCOME),
    "path": lambda bad: _event(type="createFile", path=bad, **OUTCOME),
    "move": lambda bad: _event(type="moveFile", source=bad, destination="b", **OUTCOME),
    "command": lambda bad: _event(type="shell", command=bad, **OUTCOME),
    "stdout": lambda bad: _event(type="shell", command="c", stdout=bad, **OUTCOME),
    "stderr": lambda bad: _event(type="shell", command="c", stderr=bad, **OUTCOME),
    "diff": lambda bad: _event(type="editFile", path="a", diff=f"--- a\n+++ b\n@@ -1 +1 @@\n+{bad}\n", **OUTCOME),
    "content": lambda bad: _event(type="readFile", path="a", content=bad, **OUTCOME),
    "closest": lambda bad: _event(type="editFile", path="a", success=False, closest={"startLine": 1, "text": bad}),
    "error": lambda bad: _event(type="readFile", path="a", success=False, error=bad),
    "left": lambda bad: _event(type="revert", run="r", restored=[], left=[bad], success=True),
    "reason": lambda bad: _event(type="policyDenied", operationType="shell", reason=bad),
    "suggestion": lambda bad: _event(type="policyDenied", operationType="shell", reason="r", suggestion=bad),
    "run error": lambda bad: _event(type="error", category="system", message=bad),
    "asked command": lambda bad: _pending(command=bad),
    "asked rule": lambda bad: _pending(rule=bad),
    "asked reason": lambda bad: _pending(reason=bad),
    "agent": lambda bad: _pending(agent=bad),
    "user": lambda bad: _pending(user=bad),
    "folder": lambda bad: _pending(cwd=bad),
    "environment": lambda bad: _pending(env={bad: "1"}),
    "expiry": lambda bad: _pending(expiresAt=bad),
    "bound file": lambda bad: _pending(boundTo=["a", bad], boundToCount=30),
    "file that is not bound": lambda bad: _pending(notBound=[bad]),
    "deleted path": lambda bad: _effect({"path": bad, "change": "deleted"}),
    "created path": lambda bad: _effect({"path": bad, "change": "created", "kind": "folder"}),
    "moved path": lambda bad: _effect({"path": "b", "source": bad, "change": "moved", "kind": "folder"}),
    "effect's diff": lambda bad: _effect({"path": "a", "change": "changed", "diff": f"@@ -1 +1 @@\n+{bad}\n"}),
    "effect's note": lambda bad: _effect({"path": "a", "change": "changed", "note": bad}),
    "kind of change": lambda bad: _effect({"path": "a", "change": bad}),
    "effect's stdout": lambda bad: _effect(stdout=bad),
    "effect's stderr": lambda bad: _effect(stderr=bad),
    "effect's refusal": lambda bad: _effect(refusedChanges=[{"path": bad, "rule": "r", "reason": bad}]),
    "refused change": lambda bad: _event(type="shell", command="c", refusedChanges=[_refused(bad)], **OUTCOME),
    "conflict": lambda bad: _event(type="shell", command="c", conflicts=[bad], **OUTCOME),
    "simulated change": lambda bad: _event(
        type="shell", command="c", simulated=True, changes=[{"path": bad, "change": "created"}], **OUTCOME
    ),
    "applied run": lambda bad: _event(type="apply", run=bad, applied=["a"], **OUTCOME),
    "listed tool": lambda bad: RunList({"runs": [{"runId": "r", "status": "completed", "tool": bad}]}),
    "commits": lambda bad: _pending(commits=[bad, "a b"], overwritten=["c d", bad]),
    "globs in the audit": lambda bad: AuditRecords({"records": [{"summary": {"path": bad, "include": [bad]}}]}),
    "asked diff": lambda bad: _pending(command=None, path="p", diff=f"+{bad}"),
    "asked note": lambda bad: _pending(command=None, path="p", note=bad),
    "file name": lambda bad: FileText({"content": "x"}, path=bad),
    "file content": lambda bad: FileText({"content": bad}, path="a"),
    "entry": lambda bad: Listing({"files": [{"path": bad, "isDirectory": False}], "totalFound": 1}, path="."),
    "listed folder": lambda bad: Listing({"files": [], "totalFound": 0}, path=bad),
    "hit path": lambda bad: _hits(path=bad),
    "hit": lambda bad: _hits(text=bad),
    "context": lambda bad: _hits(before=bad),
    "pattern": lambda bad: _hits(pattern=bad),
    "regex": lambda bad: _hits(pattern=bad, regex=True),
    "marked": lambda bad: _hits(text=f"x{bad}y", pattern=bad),
    "listed run": lambda bad: RunList({"runs": [{"runId": bad, "status": "completed", "startedAt": "x"}]}),
    "listed agent": lambda bad: RunList({"runs": [{"runId": "r", "status": "error", "agent": bad}]}),
    "audited": lambda bad: AuditRecords({"records": [{"tool": "shell", "outcome": "ok", "summary": {"path": bad}}]}),
    "audited error": lambda bad: AuditRecords({"records": [{"tool": "t", "outcome": "ok", "error": bad}]}),
    "verdict": lambda bad: VerdictList({"verdicts": [{"operationId": "a", "verdict": "deny", "reason": bad}]}),
    "grant": lambda bad: GrantList({"grants": [{"id": "g", "allows": bad, "createdBy": "ada"}]}),
    "workspace": lambda bad: Overview({"workspace": {"root": bad}, "waiting": []}),
    "server": lambda bad: Overview({"endpoint": {"kind": "server", "name": bad}, "waiting": []}),
    "what was tried": lambda bad: Overview({"endpoint": {"kind": "embedded", "tried": [bad]}, "waiting": []}),
    "grant's id": lambda bad: GrantList({"grants": [{"id": bad, "allows": "x", "createdBy": "ada"}]}),
    "denied path": lambda bad: PolicyReport({"layers": [{"name": "x", "filesystem": {"deniedPaths": [bad]}}]}),
    "problem": lambda bad: Problem({"error": bad, "code": "X"}),
    "hint": lambda bad: Problem({"error": "x", "hint": bad}),
    "second line": lambda bad: Problem({"error": f"x\n{bad}"}),
}


@pytest.mark.parametrize("place", PLACES)
def test_it_is_seen_and_does_nothing(place: str, attack: str) -> None:
    if place == "entry":
        attack = attack.replace("/", "|")  # which would make folders of it
    shown(PLACES[place](attack), attack)


def test_a_live_run_shows_it_too(attack: str) -> None:
    live = LiveRun(2, [{"type": "shell", "command": attack}])
    live.feed(RunUpdate("1", "output", {"operationId": "a", "stream": "stdout", "chunk": f"{attack}\n{attack}"}))
    both = live.bundle(attack, 1.0)
    assert (
        check(both).text.count(units.escape_invisible(attack))
        == both["text/plain"].count(units.escape_invisible(attack))
        >= 3
    )


def test_a_name_cannot_pass_for_a_line_of_ours() -> None:
    forged = _event(type="createFile", path="a\n  done    delete everything", **OUTCOME)
    assert len(bundle(forged)["text/plain"].split("\n")) == 3  # its head, its row, how to undo it
    forged = _event(type="shell", command="c", stdout="ok\n  denied  nothing\n", **OUTCOME)
    assert "\n          |   denied  nothing" in bundle(forged)["text/plain"]
    listed = Listing({"files": [{"path": "a\n└ b", "isDirectory": False}], "totalFound": 1}, path=".")
    assert "└ a\\n└ b" in bundle(listed)["text/plain"]


def test_a_command_to_agree_to_is_shown_whole() -> None:
    command = "echo " + "a" * 4000 + "; rm -rf ~"
    both = bundle(_pending(command=command))
    assert command in both["text/plain"] and command in check(both).text
    script = "\n".join(f"step {number}" for number in range(80)) + "\nrm -rf ~"
    assert "rm -rf ~" in bundle(_pending(command=script))["text/plain"]


def test_real_files_and_real_output(tmp_path: Path) -> None:
    """The same through the engine: names on a disk, contents, the output of a command."""
    root = tmp_path / "ws"
    root.mkdir()
    name = "<img src=x onerror=alert(1)>\u202egnp.exe"
    (root / name).write_text("</pre><script>alert(1)</script>\x1b]52;c;ZXZpbA==\x07\n")
    scene = Scene(root, tmp_path / "state")
    found: list[ClientResult] = []

    async def record() -> None:
        async with scene.opened():

            async def call(tool: str, **parameters: Any) -> dict[str, Any]:
                body = json.dumps(parameters).encode()
                answered: dict[str, Any] = json.loads(await wap.call_tool(tool, body, scene.runner, PERSON))
                return answered

            found.append(Listing(await call("exploreFiles", path="."), path="."))
            found.append(FileText(await call("readFile", path=name), path=name))
            query = "<script>"
            found.append(SearchHits(await call("searchFiles", paths=["."], query=query, type="literal"), pattern=query))
            found.append(RunResult(await scene.run({"type": "shell", "command": "ls; cat -- *"})))

    asyncio.run(record())
    for answer in found:
        both = bundle(answer)
        for written in (both["text/plain"], check(both).text):
            assert "<img src=x onerror=alert(1)>\\u202egnp.exe" in written
            if not isinstance(answer, Listing):
                assert "</pre><script>alert(1)</script>\\x1b]52;c;ZXZpbA==\\x07" in written


def test_recorded_answers_hold_nothing_of_it(recorded: Recorded) -> None:
    for answer in recorded.answers.values():
        assert "\\x1b" not in bundle(answer)["text/plain"]


def test_letters_from_right_to_left_do_not_exchange_arguments() -> None:
    """A browser would show `1/2` before the first letter; in an override it keeps the order in which it is written."""
    command = "rm -rf \u05d0 1/2 \u05d1"
    pending = {"approvalId": "apr_1", "operation": {"type": "shell"}, "command": command, "reason": "It asks"}
    run = RunResult({"runId": "run_1", "status": "awaiting_approval", "events": [], "pendingApproval": pending})
    assert f'<bdo dir="ltr">{command}</bdo>' in run._repr_mimebundle_()["text/html"].replace("\n", "")
