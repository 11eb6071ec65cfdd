"""Policy over REST: what would be said, what is in force, and what a workspace's own file can do."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.policy_calls import SECRET, lay_out
from tests.support.policy_matrix import DENIED
from tests.support.server_processes import OPEN
from wap_kernel.policy import presets


@pytest.fixture(params=presets.PRESETS)
def preset(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def wap_settings(preset: str) -> dict[str, Any]:
    return {"preset": preset, "policy": {"filesystem": {"readOnlyPaths": ["locked/**"]}}}


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
    "standard": "allow allow allow allow deny deny allow deny allow",
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

    async def test_what_is_unknown_runs_on_a_layer(self, call: Any) -> None:
        answer = await call("executeCommand", command="frobnicate")
        assert (answer.status, answer.body["exitCode"]) == (200, 127)

    async def test_confirmation_required_by_the_workspace_asks(self, call: Any, jp_root_dir: Path) -> None:
        (jp_root_dir / ".cws-policy.json").write_text('{"confirmationRequired": ["runCommand"]}')
        answer = await call("executeCommand", command="true")
        assert (answer.code, answer.body["details"]["rule"]) == ("APPROVAL_REQUIRED", "confirmationRequired")

    async def test_the_older_keys_ask_and_do_not_shut_the_workspace(self, call: Any, jp_root_dir: Path) -> None:
        policy, file = jp_root_dir / ".cws-policy.json", jp_root_dir / "a.txt"
        file.write_text("a\n")
        policy.write_text('{"confirmationRequired": ["delete", "applyPatch", "task.run"]}')
        assert (await call("readFile", path="a.txt")).status == 200
        edits = [{"type": "insert", "afterLine": 0, "newContent": "x"}]
        for answer in (
            await call("deleteFile", path="a.txt"),
            await call("modifyFile", path="a.txt", operations=edits),
            await call("executeCommand", command="true"),
        ):
            assert (answer.code, answer.body["details"]["rule"]) == ("APPROVAL_REQUIRED", "confirmationRequired")
        assert (await call("writeFile", path="b.txt", content="b")).status == 200
        policy.write_text('{"confirmationRequired": ["delete", "frobnicate"]}')
        answer = await call("readFile", path="a.txt")
        assert answer.code == DENIED and "unknown tool 'frobnicate'" in answer.body["error"]

    async def test_timeouts_are_capped_by_the_preset(self, call: Any) -> None:
        assert (await call("getWorkspaceInfo")).body["limits"]["maxTimeoutMs"] == 600_000


class TestNamedProvider:
    """A provider that is named and cannot start refuses commands and falls back to nothing."""

    @pytest.fixture
    def preset(self) -> str:
        return "standard"

    @pytest.fixture
    def wap_settings(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setenv("RUNSC_PATH", "/nonexistent/runsc")
        return {**OPEN, "provider": "gvisor"}

    async def test_commands_are_refused_and_files_served(self, call: Any, jp_root_dir: Path) -> None:
        answer = await call("executeCommand", command="touch ran")
        assert (answer.status, answer.code) == (503, "PROVIDER_UNAVAILABLE")
        assert "gvisor" in answer.body["error"]
        assert not (jp_root_dir / "ran").exists()
        assert (await call("exploreFiles", path=".")).status == 200
        assert (await call("getWorkspaceInfo")).body["provider"] == "gvisor"
