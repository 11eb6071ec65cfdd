"""POST wap/workspace/{tool}: the workspace-tool-interface over REST, for people and for agents with a token."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from jupyter_server.auth import Authorizer

from jupyter_ext import tool_definitions
from tests.support.agent_tokens import bearer, mint
from tests.support.http_runs import SECONDS, decide
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.model.operations import Effect

REQUESTS: dict[str, dict[str, Any]] = {
    "bash": {"command": "echo hello"},
    "read": {"file_path": "/workspace/a.txt"},
    "write": {"file_path": "/workspace/new/b.txt", "content": "b"},
    "edit": {"file_path": "/workspace/a.txt", "old_string": "a", "new_string": "A"},
    "glob": {"pattern": "*.txt"},
    "grep": {"pattern": "a"},
    "git": {"action": "status"},
}


@pytest.fixture(autouse=True)
def file(jp_root_dir: Any) -> None:
    (jp_root_dir / "a.txt").write_text("a\n")


async def use(fetch: Any, tool: str, token: Any = None, query: dict[str, str] | None = None, **fields: Any) -> Any:
    headers = {} if token is None else {"headers": bearer(token)}
    body = json.dumps(fields)
    return await fetch(f"wap/workspace/{tool}", method="POST", body=body, params=query or {}, **headers)


async def test_every_tool_answers(fetch: Any) -> None:
    answers = {tool: await use(fetch, tool, **fields) for tool, fields in REQUESTS.items()}
    assert {tool: answer.status for tool, answer in answers.items()} == dict.fromkeys(interface_tools.TOOLS, 200)
    assert answers["bash"].body["stdout"] == "hello\n"
    assert answers["read"].body["content"] == "1: a"
    assert answers["edit"].body["lines_changed"] == 1
    assert answers["glob"].body["matches"] == ["/workspace/a.txt"]
    assert answers["git"].body["reason"] == "no-repository"


async def test_command_with_nonzero_exit_code(fetch: Any) -> None:
    answer = await use(fetch, "bash", command="exit 7")
    assert (answer.status, answer.body["exit_code"]) == (200, 7)


@pytest.mark.parametrize(
    ("tool", "fields", "status", "code"),
    [
        ("read", {"file_path": "nothing"}, 404, "FILE_NOT_FOUND"),
        ("glob", {"pattern": "../*"}, 400, "INVALID_ARGUMENT"),
        ("glob", {"pattern": "["}, 400, "INVALID_ARGUMENT"),
        ("grep", {"pattern": "a", "include": "../*.ts"}, 400, "INVALID_ARGUMENT"),
        ("read", {"file_path": "/etc/passwd"}, 403, "PERMISSION_DENIED"),
        ("read", {"filePath": "a.txt"}, 400, "INVALID_ARGUMENT"),
        ("edit", {"file_path": "a.txt", "old_string": "z", "new_string": ""}, 422, "EDIT_NOT_FOUND"),
        ("bash", {"command": "sleep 60", "timeout_ms": 50}, 422, "TIMEOUT"),
        ("git", {"action": "fetch"}, 503, "PROVIDER_UNAVAILABLE"),
        ("nothing", {}, 404, "NOT_FOUND"),
    ],
)
async def test_errors_have_the_form_of_every_rest_dialect(
    fetch: Any, tool: str, fields: dict[str, Any], status: int, code: str
) -> None:
    answer = await use(fetch, tool, **fields)
    assert (answer.status, answer.code) == (status, code)
    assert set(answer.body) <= {"error", "code", "details"}


OUTSIDE = (
    "/workspace/../../etc/passwd",
    "/workspace/../outside",
    "/workspace/../nothing",
    "/workspace/link",
    "/etc/passwd",
)
ATTACKS: list[tuple[str, dict[str, Any]]] = [
    *(("read", {"file_path": path}) for path in (*OUTSIDE, "/workspace/..", "/workspace/.env")),
    *(("write", {"file_path": path, "content": "x"}) for path in (*OUTSIDE, "/workspace/.env")),
    *(
        ("edit", {"file_path": path, "old_string": "SECRET", "new_string": "x"})
        for path in (*OUTSIDE, "/workspace/.env")
    ),
    *(("glob", {"pattern": "*", "path": path}) for path in ("/workspace/..", "/workspace/../..", "/etc")),
    *(("grep", {"pattern": "SECRET|root", "path": path}) for path in (*OUTSIDE, "/workspace/..", "/workspace/.env")),
    *(("bash", {"command": "cat outside", "workdir": path}) for path in ("/workspace/..", "/workspace/../..", "/etc")),
    *(("git", {"action": "status", "workdir": path}) for path in ("/workspace/..", "/etc")),
    ("git", {"action": "add", "files": ["/workspace/../outside"]}),
]


async def test_no_path_leads_out_or_to_what_policy_denies(fetch: Any, jp_root_dir: Any) -> None:
    outside, hidden = jp_root_dir.parent / "outside", jp_root_dir / ".env"
    for file in (outside, hidden):
        file.write_text("SECRET\n")
    (jp_root_dir / "link").symlink_to(outside)
    (jp_root_dir / ".cws-policy.json").write_text('{"deniedPaths": [".env"]}')
    texts: dict[tuple[str, str], str] = {}
    for tool, fields in ATTACKS:
        answer = await use(fetch, tool, **fields)
        assert (answer.status, answer.code) == (403, "PERMISSION_DENIED"), (tool, fields, answer.body)
        assert "SECRET" not in str(answer.body) and str(jp_root_dir) not in str(answer.body)
        path = fields.get("file_path") or fields.get("path") or ""
        texts[tool, path] = answer.body["error"].replace(path, "PATH")
    for tool in ("read", "write", "edit", "grep"):
        there, missing = (texts[tool, f"/workspace/../{name}"] for name in ("outside", "nothing"))
        assert there == missing
    assert outside.read_text() == hidden.read_text() == "SECRET\n"
    for tool, fields in (
        ("glob", {"pattern": "**/.env"}),
        ("grep", {"pattern": "SECRET"}),
    ):
        assert (await use(fetch, tool, **fields)).body["count"] == 0


async def test_old_string_not_found(fetch: Any) -> None:
    answer = await use(fetch, "edit", file_path="a.txt", old_string="aa", new_string="")
    assert answer.body["error"] == "oldString not found in content"
    assert answer.body["details"]["closest"]["start_line"] == 1


async def test_a_large_body_is_read_as_well(fetch: Any, jp_root_dir: Any) -> None:
    content = "line\n" * 100_000
    assert (await use(fetch, "write", file_path="large.txt", content=content)).status == 200
    assert (jp_root_dir / "large.txt").read_text() == content


async def test_only_post(fetch: Any) -> None:
    answer = await fetch("wap/workspace/read", method="GET")
    assert (answer.status, answer.code, answer.headers["Allow"]) == (405, "METHOD_NOT_ALLOWED", "POST, OPTIONS")


# -- who may


class Notes(Authorizer):
    """Allows what it is told and remembers what it was asked."""

    def __init__(self, allowed: tuple[str, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.allowed = allowed
        self.asked: list[str] = []

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        self.asked.append(action)
        return action in self.allowed


@pytest.mark.parametrize(
    ("tool", "fields", "asked"),
    [
        ("read", REQUESTS["read"], ["read"]),
        ("write", REQUESTS["write"], ["write"]),
        ("bash", REQUESTS["bash"], ["execute"]),
        ("git", {"action": "status"}, ["read"]),
        ("git", {"action": "commit", "message": "m"}, ["read", "write"]),
        ("git", {"action": "push"}, ["read", "execute"]),
    ],
)
async def test_the_authorizer_is_asked_about_the_operation(
    fetch: Any, jp_serverapp: Any, tool: str, fields: dict[str, Any], asked: list[str]
) -> None:
    for allowed in (tuple(asked), ("read",), ()):
        notes = Notes(allowed, parent=jp_serverapp)
        jp_serverapp.web_app.settings["authorizer"] = notes
        answer = await use(fetch, tool, **fields)
        refused = next((action for action in asked if action not in allowed), None)
        assert notes.asked == (asked if refused is None else asked[: asked.index(refused) + 1])
        assert (answer.code == "PERMISSION_DENIED") == (refused is not None)


@pytest.mark.parametrize("authorization", ["", "token wrong"])
async def test_strangers(fetch: Any, authorization: str) -> None:
    for tool in REQUESTS:
        answer = await fetch(
            f"wap/workspace/{tool}", method="POST", body="{}", headers={"Authorization": authorization}
        )
        assert (answer.status, answer.code) == (403, "UNAUTHENTICATED")


async def test_an_agent_token_opens_the_tools_that_it_names(fetch: Any, jp_root_dir: Any) -> None:
    token = await mint(fetch, tools=["read", "grep"])
    assert (await use(fetch, "read", token, **REQUESTS["read"])).status == 200
    assert (await use(fetch, "grep", token, **REQUESTS["grep"])).status == 200
    for tool in sorted(set(REQUESTS) - {"read", "grep"}):
        answer = await use(fetch, tool, token, **REQUESTS[tool])
        assert answer.code == "PERMISSION_DENIED" and answer.body["details"]["allowedTools"] == ["read", "grep"]
    answer = await fetch("wap/api/readFile", method="POST", body='{"path": "a.txt"}', headers=bearer(token))
    assert answer.code == "PERMISSION_DENIED"
    token = await mint(fetch, tools=["readFile", "executeCommand"])
    for tool in REQUESTS:
        assert (await use(fetch, tool, token, **REQUESTS[tool])).code == "PERMISSION_DENIED"
    assert (jp_root_dir / "a.txt").read_text() == "a\n"


async def test_an_agent_token_has_its_limits(fetch: Any) -> None:
    token = await mint(fetch, limits={"bytesWrittenPerDay": 3})
    assert (await use(fetch, "write", token, file_path="a.txt", content="123")).status == 200
    answer = await use(fetch, "write", token, file_path="a.txt", content="4")
    assert (answer.status, answer.code) == (429, "RATE_LIMITED") and answer.headers["Retry-After"]


# -- approval


async def asking(fetch: Any) -> str:
    """The run that waits for a person, once there is one."""
    while not (runs := (await fetch("wap/runs", params={"status": "awaiting_approval"})).body["runs"]):  # noqa: ASYNC110 - over HTTP
        await asyncio.sleep(0.01)
    run_id: str = runs[0]["runId"]
    return run_id


@pytest.mark.parametrize("decision", ["approved", "denied"])
async def test_a_call_that_waits_for_a_person(fetch: Any, jp_root_dir: Any, decision: str) -> None:
    token = await mint(fetch, policy={"confirmationRequired": ["edit"]})
    waiting = asyncio.ensure_future(use(fetch, "edit", token, {"wait": "60"}, **REQUESTS["edit"]))
    run_id = await asyncio.wait_for(asking(fetch), SECONDS)
    assert (await decide(fetch, run_id, decision, operationId="edit")).status == 200
    answer = await waiting
    if decision == "approved":
        assert (answer.status, answer.body["replacements"]) == (200, 1)
    else:
        assert (answer.status, answer.code) == (403, "PERMISSION_DENIED")
    assert (jp_root_dir / "a.txt").read_text() == ("A\n" if decision == "approved" else "a\n")


async def test_a_call_that_does_not_wait_says_which_run_does(fetch: Any) -> None:
    token = await mint(fetch, policy={"confirmationRequired": ["write"]})
    answer = await use(fetch, "write", token, **REQUESTS["write"])
    assert (answer.status, answer.code) == (403, "APPROVAL_REQUIRED")
    run = (await fetch(f"wap/runs/{answer.body['details']['runId']}", headers=bearer(token))).body
    assert run["pendingApproval"]["approvalId"] == answer.body["details"]["approvalId"]
    assert run["pendingApproval"]["path"] == "new/b.txt"


# -- definitions


@pytest.mark.parametrize("chosen", tool_definitions.FORMATS)
async def test_the_definitions(fetch: Any, chosen: str) -> None:
    answer = await fetch("wap/tools", params={"dialect": "tool_interface", "format": chosen})
    tools = [tool.get("function", tool) for tool in answer.body["tools"]]
    assert [tool["name"] for tool in tools] == list(REQUESTS)
    for tool in tools:
        schema = tool.get("inputSchema") or tool.get("input_schema") or tool["parameters"]
        assert all(name == name.lower() for name in schema["properties"])
        assert all("description" in field for field in schema["properties"].values())
        assert len(tool["description"]) < 1024


async def test_a_token_sees_the_definitions_of_its_tools(fetch: Any) -> None:
    token = await mint(fetch, tools=["glob", "git"])
    answer = await fetch("wap/tools", params={"dialect": "tool_interface"}, headers=bearer(token))
    assert [tool["name"] for tool in answer.body["tools"]] == ["glob", "git"]


def test_what_a_token_may_do_with_git() -> None:
    assert tool_definitions.list_effects({"git"}) == (Effect.READ, Effect.WRITE, Effect.EXECUTE)
    assert tool_definitions.list_effects({"grep"}) == (Effect.READ,)


@pytest.mark.parametrize(
    ("route", "sent"),
    [
        ("wap/workspace/read", {"file_path": "/https://bob:hunter2@h.org/x"}),
        ("wap/workspace/git", {"action": "clone", "url": "ftp://bob:hunter2@h.org/x"}),
        ("wap/api/readFile", {"path": "/https://bob:hunter2@h.org/x"}),
    ],
)
async def test_what_is_wrong_with_a_request_is_told_without_its_password(
    fetch: Any, route: str, sent: dict[str, str]
) -> None:
    answer = await fetch(route, method="POST", body=json.dumps(sent))
    assert answer.status in (400, 403)
    assert "hunter2" not in str(answer.body)
