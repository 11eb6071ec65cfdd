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
from wap_kernel.caller import Caller
from wap_kernel.dialects import wap
from wap_kernel.policy import presets
from wap_kernel.policy.verdict import Answer

DENIED, SIZE = "PERMISSION_DENIED", "SIZE_LIMIT_EXCEEDED"
SECRET = "the-secret-of-this-file"

TOOLS: Mapping[str, dict[str, Any]] = {
    "exploreFiles": {"path": "FOLDER"},
    "readFile": {"path": "FILE"},
    "searchFiles": {"paths": ["FILE"], "query": "secret", "type": "literal"},
    "writeFile": {"path": "FILE", "content": "more", "mode": "append"},
    "modifyFile": {"path": "FILE", "operations": [{"type": "insert", "afterLine": 0, "newContent": "x"}]},
    "createDirectory": {"path": "FOLDER/new"},
    "copyFile": {"source": "FILE", "destination": "copied.txt", "overwrite": True},
    "moveFile": {"source": "FILE", "destination": "moved.txt", "overwrite": True},
    "deleteFile": {"path": "FILE"},
    "getWorkspaceInfo": {},
}
READING = ("exploreFiles", "readFile", "searchFiles", "copyFile")
CHANGING = ("writeFile", "modifyFile", "createDirectory", "moveFile", "deleteFile")

# What is closed: a file and a folder of each kind.
PLACES: Mapping[str, tuple[str, str]] = {
    "denied": ("server.pem", "keys.pem"),
    "read-only": ("locked/a.txt", "locked"),
    "protected": (".cws-policy.json", ".git"),
    "oversize": ("big.txt", "."),
}

EXPECTED: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "permissive": {
        "denied": dict.fromkeys((*READING, *CHANGING), DENIED),
        "read-only": dict.fromkeys(CHANGING, DENIED),
        "protected": dict.fromkeys(CHANGING, DENIED),
        "oversize": dict.fromkeys(("readFile", "writeFile", "modifyFile", "copyFile"), SIZE),
    },
    "standard": {
        "denied": dict.fromkeys((*READING, *CHANGING), DENIED),
        "read-only": dict.fromkeys(CHANGING, DENIED),
        "protected": dict.fromkeys(("exploreFiles", *CHANGING), DENIED),  # its folder is .git, denied besides
        "oversize": dict.fromkeys(("readFile", "writeFile", "modifyFile", "copyFile"), SIZE),
    },
    "restrictive": {
        "denied": dict.fromkeys((*READING, *CHANGING), DENIED),
        "read-only": dict.fromkeys(("copyFile", *CHANGING), DENIED),
        "protected": dict.fromkeys((*READING, *CHANGING), DENIED),  # hidden files are denied
        "oversize": {"readFile": SIZE, **dict.fromkeys(("copyFile", *CHANGING), DENIED)},
    },
}
"""The code of a refusal; what is not named is done."""


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


def parameters(tool: str, place: str) -> dict[str, Any]:
    file, folder = PLACES[place]
    text = json.dumps(TOOLS[tool]).replace("FILE", file).replace("FOLDER", folder)
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("place", PLACES)
async def test_every_tool_on_every_closed_path(
    call: Any, extension: Any, jp_root_dir: Path, preset: str, place: str
) -> None:
    got, verdicts = {}, {}
    for tool in TOOLS:
        lay_out(jp_root_dir, preset)
        body = json.dumps(parameters(tool, place)).encode()
        operation = await wap.parse(tool, body, extension.workspace, Caller())
        (verdict,) = await extension.workspace.check([operation], Caller())
        if verdict.answer is not Answer.ALLOW:
            assert verdict.answer is Answer.DENY, verdict
            verdicts[tool] = verdict.code.value
        answer = await call(tool, **parameters(tool, place))
        if answer.status != 200:
            got[tool] = answer.code
            assert SECRET not in json.dumps(answer.body)
            if verdict.answer is not Answer.ALLOW:
                assert verdict.reason in answer.body["error"]
    assert got == EXPECTED[preset][place]
    assert verdicts == got  # the same in process, before anything is done


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
