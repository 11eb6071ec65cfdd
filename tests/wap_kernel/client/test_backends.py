"""A server and the engine in this process answer alike: the same fields, the same values, the same errors."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.server_processes import Place
from tests.support.time_limits import growing
from wap_kernel.client.backend import Backend
from wap_kernel.client.embedded_backend import EmbeddedBackend
from wap_kernel.client.server_backend import ServerBackend
from wap_kernel.model.errors import Code, WapError

CHANGING = {
    "at",
    "timestamp",
    "startedAt",
    "completedAt",
    "createdAt",
    "expiresAt",
    "durationMs",
    "user",
    "by",
    "createdBy",
    "nextCursor",
}
"""What is different each time, and who is asked by a server: somebody without a name."""
ID = re.compile(r"\b(run|apr)_[0-9a-f]{16}\b|\b[0-9a-f]{12,32}(-\d+)?\b")


def same(value: Any) -> Any:
    """What should be the same in both."""
    if isinstance(value, dict):
        return {name: "..." if name in CHANGING else same(item) for name, item in value.items()}
    if isinstance(value, list):
        return [same(item) for item in value]
    return ID.sub("ID", value) if isinstance(value, str) else value


def message(*operations: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"protocolVersion": "1.0", "operations": list(operations), **more}


def ended(backend: Backend, *operations: dict[str, Any], **more: Any) -> dict[str, Any]:
    begun = backend.start(message(*operations, **more), secrets.token_hex(8))
    for sent in backend.follow(begun["runId"]):
        if sent.data.get("status") == "awaiting_approval":
            break
    return backend.get(begun["runId"])


def every_kind(backend: Backend) -> dict[str, Any]:
    return ended(
        backend,
        {"type": "message", "content": "Hello"},
        {"type": "createFile", "path": "made/a.txt", "content": "one\n", "overwrite": True},
        {"type": "editFile", "path": "made/a.txt", "edits": [{"oldContent": "one", "newContent": "two"}]},
        {"type": "editFile", "path": "made/a.txt", "edits": [{"oldContent": "nowhere", "newContent": ""}]},
        {"type": "readFile", "path": "made/a.txt"},
        {"type": "readFile", "path": ".git/config"},
        {"type": "shell", "id": "sh", "command": "echo out; echo err >&2; exit 3"},
        {"type": "deleteFile", "path": "made/a.txt"},
    )


def asking(backend: Backend) -> dict[str, Any]:
    return ended(backend, {"type": "shell", "command": "chmod 600 docs/a.txt"})


def decided(backend: Backend, decision: Any, **more: Any) -> dict[str, Any]:
    asked = asking(backend)
    run_id, approval = asked["runId"], asked["pendingApproval"]["approvalId"]
    answers = {"reason": None, "remember": False, **more}
    backend.decide(run_id, approval, decision, answers["reason"], remember=answers["remember"])
    told = [sent.name for sent in backend.follow(run_id)]
    return {"asked": asked, "told": told, "run": backend.get(run_id)}


def reverted(backend: Backend) -> dict[str, Any]:
    made = ended(backend, {"type": "createFile", "path": "made/b.txt", "content": "x", "overwrite": True})
    changes = backend.changes(made["runId"])
    undone = backend.revert(made["runId"], force=False)["runId"]
    told = [sent.name for sent in backend.follow(undone)]
    return {"changes": changes, "told": told, "run": backend.get(undone)}


def granted(backend: Backend) -> dict[str, Any]:
    decided(backend, "approved", remember=True)
    grants = backend.grants()
    backend.revoke(grants["grants"][0]["id"])
    return {"grants": grants, "left": backend.grants()}


def output(backend: Backend) -> dict[str, Any]:
    run = every_kind(backend)
    return {
        "first": backend.output(run["runId"], "sh", "stdout", 0, 2),
        "stderr": backend.output(run["runId"], "sh", "stderr", 0, 100),
    }


def listed(backend: Backend) -> dict[str, Any]:
    run, waiting = every_kind(backend), asking(backend)
    try:
        return {"two": backend.runs(None, 2)["runs"], "waiting": backend.runs("awaiting_approval", 1)["runs"]}
    finally:
        backend.cancel(waiting["runId"])
        assert run["status"] == "completed"


def streamed(backend: Backend) -> list[Any]:
    run = every_kind(backend)
    sent = list(backend.follow(run["runId"]))
    after = list(backend.follow(run["runId"], sent[2].id))
    assert after == sent[3:]
    assert list(backend.follow(run["runId"], sent[-1].id)) == []
    return [[one.name, one.data] for one in sent if one.name != "output"]


ANSWERS: dict[str, Callable[[Backend], Any]] = {
    "info": lambda backend: backend.call("getWorkspaceInfo", {}),
    "list": lambda backend: backend.call("exploreFiles", {"path": "docs", "returnMetadata": True}),
    "read": lambda backend: backend.call("readFile", {"path": "docs/a.txt", "startLine": 2}),
    "search": lambda backend: backend.call("searchFiles", {"paths": ["docs"], "query": "two", "type": "literal"}),
    "execute": lambda backend: backend.call("executeCommand", {"command": "echo hi", "timeout": 20_000}),
    "run": every_kind,
    "stream": streamed,
    "dry run": lambda backend: ended(
        backend,
        {"type": "createFile", "path": "dry.txt", "content": "x"},
        {"type": "deleteFile", "path": "missing"},
        dryRun=True,
    ),
    "atomic": lambda backend: ended(
        backend,
        {"type": "createFile", "path": "atomic.txt", "content": "x"},
        {"type": "deleteFile", "path": "missing"},
        atomic=True,
    ),
    "asking": lambda backend: backend.cancel(asking(backend)["runId"]),
    "approved": lambda backend: decided(backend, "approved"),
    "denied": lambda backend: decided(backend, "denied", reason="No."),
    "reverted": reverted,
    "granted": granted,
    "output": output,
    "runs": listed,
    "policy": lambda backend: backend.policy(),
    "check": lambda backend: backend.check(
        message({"type": "shell", "command": "rm -rf x"}, {"type": "readFile", "path": "a"})
    ),
    "audit": lambda backend: [
        backend.call("getWorkspaceInfo", {}),
        backend.call("getWorkspaceInfo", {}),  # so that there is a next page
        backend.audit(1, "getWorkspaceInfo", "ok"),
    ],
}


@pytest.fixture(autouse=True)
def docs(place: Place) -> None:
    (place.root / "docs").mkdir(exist_ok=True)
    (place.root / "docs" / "a.txt").write_text("one\ntwo\nthree\n")


@pytest.mark.parametrize("ask", ANSWERS.values(), ids=ANSWERS.keys())
def test_both_answer_the_same(
    on_server: ServerBackend, in_process: EmbeddedBackend, ask: Callable[[Backend], Any]
) -> None:
    assert same(ask(in_process)) == same(ask(on_server))


def _again(backend: Backend) -> None:
    key = secrets.token_hex(8)
    first = backend.start(message({"type": "message", "content": "x"}), key)
    assert backend.start(message({"type": "message", "content": "x"}), key)["runId"] == first["runId"]
    backend.start(message({"type": "message", "content": "y"}), key)


def _decided_twice(backend: Backend) -> None:
    run = decided(backend, "approved")["run"]
    backend.decide(run["runId"], "apr_0123456789abcdef", "approved", None, remember=False)


REFUSED: dict[str, tuple[Callable[[Backend], Any], Code]] = {
    "a file that is missing": (lambda backend: backend.call("readFile", {"path": "none"}), Code.FILE_NOT_FOUND),
    "a path outside": (lambda backend: backend.call("readFile", {"path": "../x"}), Code.PERMISSION_DENIED),
    "a tool that is none": (lambda backend: backend.call("sudo", {}), Code.NOT_FOUND),
    "a field that is none": (lambda backend: backend.call("readFile", {"path": "a", "x": 1}), Code.INVALID_ARGUMENT),
    "what JSON cannot hold": (lambda backend: backend.call("readFile", {"path": {1, 2}}), Code.INVALID_ARGUMENT),
    "no number": (lambda backend: backend.call("readFile", {"path": float("nan")}), Code.INVALID_ARGUMENT),
    "too large": (
        lambda backend: backend.call("writeFile", {"path": "a", "content": "x" * (33 << 20)}),
        Code.SIZE_LIMIT_EXCEEDED,
    ),
    "what must be approved": (
        lambda backend: backend.call("executeCommand", {"command": "rm -rf nothing/at/all"}),
        Code.APPROVAL_REQUIRED,
    ),
    "an operation that is none": (lambda backend: backend.start(message({"type": "x"}), "k"), Code.INVALID_ARGUMENT),
    "a key used before": (_again, Code.CONFLICT),
    "a run that is none": (lambda backend: backend.get("run_0123456789abcdef"), Code.NOT_FOUND),
    "a stream that is none": (lambda backend: list(backend.follow("run_0123456789abcdef")), Code.NOT_FOUND),
    "an approval that is none": (_decided_twice, Code.NOT_FOUND),
    "cancelled too late": (lambda backend: backend.cancel(every_kind(backend)["runId"]), Code.CONFLICT),
    "an operation's output that is none": (
        lambda backend: backend.output(every_kind(backend)["runId"], "none", "stdout", 0, 10),
        Code.NOT_FOUND,
    ),
    "a stream that is no stream": (lambda backend: backend.output("run_x", "a", "log", 0, 10), Code.INVALID_ARGUMENT),
    "a status that is none": (lambda backend: backend.runs("done", 1), Code.INVALID_ARGUMENT),
    "no runs at all": (lambda backend: backend.runs(None, 0), Code.INVALID_ARGUMENT),
    "an outcome that is none": (lambda backend: backend.audit(1, None, "good"), Code.INVALID_ARGUMENT),
    "a dry run without layers": (
        lambda backend: backend.start(message({"type": "shell", "command": "ls"}, dryRun=True), "k"),
        Code.INVALID_ARGUMENT,
    ),
    "a run to apply that is none": (lambda backend: backend.apply("run_0123456789abcdef", None), Code.NOT_FOUND),
    "a path to apply that is none": (
        lambda backend: backend.apply(every_kind(backend)["runId"], ["/etc/x"]),
        Code.PERMISSION_DENIED,
    ),
    "a grant that is none": (lambda backend: backend.revoke("none"), Code.NOT_FOUND),
}


@pytest.mark.parametrize(("ask", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_both_refuse_the_same(
    on_server: ServerBackend, in_process: EmbeddedBackend, ask: Callable[[Backend], Any], code: Code
) -> None:
    errors = []
    for backend in (in_process, on_server):
        with pytest.raises(WapError) as refused:
            ask(backend)
        errors.append(refused.value)
    assert [error.code for error in errors] == [code, code]
    assert isinstance(errors[0], type(errors[1])), "over HTTP an error has the class of its code"
    assert same(errors[0].text) == same(errors[1].text)
    assert same(errors[0].details) == same(errors[1].details)


def test_what_comes_in_time(backend: Backend) -> None:
    begun = backend.start(
        message({"type": "shell", "command": "echo begun; sleep 1000", "timeout": 600_000}), secrets.token_hex(8)
    )
    try:
        for seconds in growing(0.5):
            sent = list(backend.follow(begun["runId"], seconds=seconds))
            if len(sent) > 1:
                break
        assert [one.data.get("chunk") for one in sent] == [None, "begun\n"]
        assert list(backend.follow(begun["runId"], sent[-1].id, 0.05)) == []
    finally:
        assert backend.cancel(begun["runId"])["status"] == "cancelled"
