"""Policy over REST: every tool, every preset, every kind of closed path; the same verdict in process and over HTTP."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.jupyter_ext.conftest import OPEN
from tests.jupyter_ext.policy_matrix import CALLS, DENIED, EXPECTED, PLACES, Call, Refusal, of_event, of_rest
from wap_kernel.caller import Caller
from wap_kernel.dialects import coding_environment, tool_interface, wap
from wap_kernel.dialects.agent_spaces import OperationsMessage, parse_message
from wap_kernel.dialects.coding_environment import RpcError
from wap_kernel.policy import presets
from wap_kernel.policy.verdict import Answer, Verdict

SECRET = "the-secret-of-this-file"


@pytest.fixture(params=presets.PRESETS)
def preset(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def jp_server_config(preset: str) -> dict[str, Any]:
    settings = {"preset": preset, "policy": {"filesystem": {"readOnlyPaths": ["locked/**"]}}}
    return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}}, "WapExtension": settings}


def lay_out(root: Path, preset: str) -> None:
    for name in os.listdir(root):
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in ("keys.pem", "locked", ".git"):
        (root / name).mkdir()
    for name in ("server.pem", "locked/a.txt"):
        (root / name).write_text(SECRET)
    (root / ".cws-policy.json").write_text("{}")
    limit = presets.load(preset).filesystem.max_file_size
    assert limit is not None
    with (root / "big.txt").open("w") as file:
        file.truncate(limit + 1)


class Everything:
    """Calls any tool of any dialect, each by its own way in."""

    def __init__(self, fetch: Any, extension: Any) -> None:
        self._fetch = fetch
        self._runner = extension.runner

    async def refusal(self, call: Call, place: str) -> Refusal | None:
        fields = call.at(place)
        ways = {"wap": "wap/api", "interface": "wap/workspace"}
        if call.dialect in ways:
            path = f"{ways[call.dialect]}/{call.tool}"
            answer = await self._fetch(path, method="POST", body=json.dumps(fields))
            return of_rest(answer.status, answer.body)
        if call.dialect == "agent spaces":
            body = message({"type": call.tool, **fields})
            answer = await self._fetch("wap/runs", method="POST", body=body)
            return of_event(answer.body["events"][-1])
        return await self._over_mcp(call.tool, fields)

    async def _over_mcp(self, tool: str, fields: dict[str, Any]) -> Refusal | None:
        """As the MCP server does it: an error of JSON-RPC for the catalog's tools, a result for the others."""
        try:
            outcome = await coding_environment.call(tool, fields, self._runner, Caller())
        except RpcError as error:
            return Refusal(error.data["code"], error.message)
        if not outcome.is_error:
            return None
        told = json.loads(outcome.text)
        return Refusal(told["code"], told["error"])

    async def foreseen(self, call: Call, place: str) -> Verdict | None:
        """What is said in process, before anything is done; None for a dialect that is asked otherwise."""
        if call.dialect == "wap":
            body = json.dumps(call.at(place)).encode()
            operation = await wap.parse(call.tool, body, self._runner.workspace, Caller())
        elif call.dialect == "agent spaces":
            operation = parse_message(message({"type": call.tool, **call.at(place)}).encode()).steps()[0].operation
        else:
            return None
        (verdict,) = await self._runner.workspace.check([operation], Caller())
        assert verdict.answer is not Answer.ASK, verdict
        return verdict


def test_the_matrix_leaves_out_no_tool_that_takes_a_path() -> None:
    """Commands, git and notebooks have tests of their own, and a batch is made of the others."""
    named: dict[str, set[str]] = {}
    for call in CALLS:
        named.setdefault(call.dialect, set()).add(call.tool)
    assert named["wap"] == wap.TOOLS.keys() - {"executeCommand", "readNotebook", "modifyNotebook"}
    assert named["interface"] == tool_interface.TOOLS.keys() - {"bash", "git"}
    schema = OperationsMessage.model_json_schema()["properties"]["operations"]["items"]
    assert named["agent spaces"] == schema["discriminator"]["mapping"].keys() - {"shell"}
    others = {"searchFiles", "runCommand", "git", "runOperations", "getRun", "readNotebook", "editNotebook"}
    assert named["mcp"] == coding_environment.TOOLS.keys() - others


async def test_every_tool_on_every_closed_path(fetch: Any, extension: Any, jp_root_dir: Path, preset: str) -> None:
    everything = Everything(fetch, extension)
    for place, expected in EXPECTED[preset].items():
        said: dict[str, set[str]] = {}
        for call in CALLS:
            lay_out(jp_root_dir, preset)
            where = f"{call.dialect} {call.tool}, {place}"
            verdict = await everything.foreseen(call, place)
            refusal = await everything.refusal(call, place)
            assert (refusal.code if refusal else None) == expected.get(call.deed), where
            if refusal is not None:
                assert SECRET not in refusal.text, where
                said.setdefault(call.deed, set()).add(refusal.text.partition(". ")[0])
            if verdict is not None:
                denied = verdict.answer is Answer.DENY
                assert (verdict.code.value if denied else None) == expected.get(call.deed), where
                assert refusal is None or verdict.reason in refusal.text, where
        assert {deed: len(texts) for deed, texts in said.items()} == dict.fromkeys(said, 1), said


@pytest.mark.parametrize("place", ["denied", "read-only", "protected"])
async def test_commands_are_bound_as_well(call: Any, jp_root_dir: Path, preset: str, place: str) -> None:
    lay_out(jp_root_dir, preset)
    file, _ = PLACES[place]
    answer = await call("executeCommand", command=f"cat {file}; echo more >> {file}; mv {file} elsewhere")
    if preset == "restrictive":
        assert (answer.status, answer.code) == (403, DENIED)
        assert answer.body["error"].startswith("Shell is disabled")
        return
    if answer.status == 200:  # it was run, in a sandbox
        assert (SECRET in answer.body["stdout"]) == (place == "read-only")
    else:
        assert (answer.status, answer.code) == (403, DENIED)
    assert (jp_root_dir / file).read_text() == ("{}" if place == "protected" else SECRET)
    assert not (jp_root_dir / "elsewhere").exists()


def message(*operations: dict[str, Any]) -> str:
    return json.dumps({"protocolVersion": "1.0", "operations": operations})


OPERATIONS = (
    {"type": "message", "content": "hello"},
    {"type": "readFile", "path": "a.txt", "id": "mine"},
    {"type": "createFile", "path": "new/a.txt", "content": "x"},
    {"type": "editFile", "path": "a.txt", "edits": [{"oldContent": "a", "newContent": "b"}]},
    {"type": "deleteFile", "path": "server.pem"},
    {"type": "readFile", "path": "link"},
    {"type": "shell", "command": "ls -la"},
    {"type": "shell", "command": "sudo id"},
    {"type": "shell", "command": "frobnicate --now"},
)
CHECKED: Mapping[str, str] = {
    "restrictive": "allow allow deny deny deny deny deny deny deny",
    "standard": "allow allow allow allow deny deny allow deny ask",
    "permissive": "allow allow allow allow deny deny allow deny allow",
}


async def test_verdicts_for_an_operations_message(fetch: Any, jp_root_dir: Path, preset: str) -> None:
    lay_out(jp_root_dir, preset)
    (jp_root_dir / "a.txt").write_text("a")
    (jp_root_dir / "link").symlink_to("/etc/passwd")
    before = sorted(os.listdir(jp_root_dir))
    answer = await fetch("wap/policy/check", method="POST", body=message(*OPERATIONS))
    verdicts = answer.body["verdicts"]
    assert " ".join(verdict["verdict"] for verdict in verdicts) == CHECKED[preset]
    assert [verdict["operationId"] for verdict in verdicts] == ["op-1", "mine", *(f"op-{n}" for n in range(3, 10))]
    for verdict in verdicts:
        assert set(verdict) - {"suggestion"} == {"operationId", "verdict", "rule", "reason"}
    assert sorted(os.listdir(jp_root_dir)) == before and (jp_root_dir / "a.txt").read_text() == "a"
    if preset != "restrictive":
        assert verdicts[7]["reason"] == "Command 'sudo' is blocked"


async def test_a_malformed_message_names_position_and_field(fetch: Any) -> None:
    answer = await fetch("wap/policy/check", method="POST", body=message({"type": "readFile", "path": "../x"}))
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")
    assert answer.body["details"]["problems"][0]["field"] == "operations.0.readFile.path"


async def test_the_policy_in_force(fetch: Any, jp_root_dir: Path, preset: str) -> None:
    answer = await fetch("wap/policy")
    assert [layer["name"] for layer in answer.body["layers"]] == [preset]
    assert answer.body["effective"]["access"] == ("read" if preset == "restrictive" else "read-write")
    assert answer.body["grants"] == []
    (jp_root_dir / ".cws-policy.json").write_text('{"maxFileSize": 7, "deniedPaths": ["x/**"]}')
    answer = await fetch("wap/policy")
    assert [layer["name"] for layer in answer.body["layers"]] == [preset, ".cws-policy.json"]
    assert answer.body["effective"]["maxFileSize"] == 7


class TestStandard:
    @pytest.fixture
    def preset(self) -> str:
        return "standard"

    async def test_the_workspaces_file_is_read_again_when_it_changes(self, call: Any, jp_root_dir: Path) -> None:
        (jp_root_dir / "notes.txt").write_text("x")
        policy = jp_root_dir / ".cws-policy.json"
        assert (await call("readFile", path="notes.txt")).status == 200
        policy.write_text('{"deniedPaths": ["notes.txt"]}')
        assert (await call("readFile", path="notes.txt")).code == DENIED
        assert (await call("exploreFiles", path=".")).body["totalFound"] == 1
        policy.write_text("{")
        broken = await call("getWorkspaceInfo")
        assert broken.code == DENIED and ".cws-policy.json" in broken.body["error"]
        policy.unlink()
        assert (await call("readFile", path="notes.txt")).status == 200

    async def test_a_workspace_cannot_widen_its_policy(self, call: Any, jp_root_dir: Path) -> None:
        (jp_root_dir / "server.pem").write_text(SECRET)
        wide = {"preset": "permissive", "allowedPaths": ["**/*"], "deniedPaths": [], "allowedCommands": ["sudo", "ls"]}
        (jp_root_dir / ".cws-policy.json").write_text(json.dumps(wide))
        assert (await call("readFile", path="server.pem")).code == DENIED
        assert (await call("executeCommand", command="sudo id")).code == DENIED
        listed = await call("executeCommand", command="cat x")
        assert listed.code == DENIED and 'Command "cat" is not in allowed commands' in listed.body["error"]

    async def test_what_is_unknown_asks(self, call: Any) -> None:
        answer = await call("executeCommand", command="frobnicate")
        assert (answer.status, answer.code) == (403, "APPROVAL_REQUIRED")

    async def test_confirmation_required_by_the_workspace_asks(self, call: Any, jp_root_dir: Path) -> None:
        (jp_root_dir / ".cws-policy.json").write_text('{"confirmationRequired": ["runCommand"]}')
        answer = await call("executeCommand", command="true")
        assert (answer.code, answer.body["details"]["rule"]) == ("APPROVAL_REQUIRED", "confirmationRequired")

    async def test_timeouts_are_capped_by_the_preset(self, call: Any) -> None:
        assert (await call("getWorkspaceInfo")).body["limits"]["maxTimeoutMs"] == 600_000


class TestNamedProvider:
    """A provider that is named and cannot start refuses commands and falls back to nothing."""

    @pytest.fixture
    def preset(self) -> str:
        return "standard"

    @pytest.fixture
    def jp_server_config(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setenv("RUNSC_PATH", "/nonexistent/runsc")
        settings = {**OPEN, "provider": "gvisor"}
        return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}}, "WapExtension": settings}

    async def test_commands_are_refused_and_files_served(self, call: Any, jp_root_dir: Path) -> None:
        answer = await call("executeCommand", command="touch ran")
        assert (answer.status, answer.code) == (503, "PROVIDER_UNAVAILABLE")
        assert "gvisor" in answer.body["error"]
        assert not (jp_root_dir / "ran").exists()
        assert (await call("exploreFiles", path=".")).status == 200
        assert (await call("getWorkspaceInfo")).body["provider"] == "gvisor"
