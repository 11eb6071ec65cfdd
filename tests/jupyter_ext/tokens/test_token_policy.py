"""The policy of an agent token: the server's, narrowed by its own; no commands without a sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_tokens import bearer, mint, use


@pytest.fixture
def settings() -> dict[str, Any]:
    return {}


@pytest.fixture
def wap_settings(settings: dict[str, Any]) -> dict[str, Any]:
    return settings


async def test_a_tokens_preset_narrows_the_servers(fetch: Any, call: Any, jp_root_dir: Path) -> None:
    (jp_root_dir / "a.txt").write_text("a")
    reader = await mint(fetch, preset="restrictive")
    assert (await use(fetch, reader, "readFile", path="a.txt")).status == 200
    written = await use(fetch, reader, "writeFile", path="a.txt", content="b")
    assert (written.code, written.body["error"].startswith("Filesystem is read-only")) == ("PERMISSION_DENIED", True)
    assert (await use(fetch, reader, "executeCommand", command="true")).code == "PERMISSION_DENIED"
    assert (await call("writeFile", path="a.txt", content="b")).status == 200  # the person is not bound by it


async def test_a_token_cannot_widen_the_servers_policy(fetch: Any, jp_root_dir: Path) -> None:
    (jp_root_dir / "x.pem").write_text("secret")
    wide = {"filesystem": {"allowedPaths": ["**"], "deniedPaths": []}, "shell": {"unknown": "allow"}}
    agent = await mint(fetch, preset="permissive", policy=wide)
    assert (await use(fetch, agent, "readFile", path="x.pem")).code == "PERMISSION_DENIED"
    assert (await use(fetch, agent, "executeCommand", command="sudo id")).code == "PERMISSION_DENIED"
    assert (await use(fetch, agent, "executeCommand", command="rm -r x")).code == "APPROVAL_REQUIRED"


async def test_a_tokens_own_policy_binds_files_and_commands(fetch: Any, call: Any, jp_root_dir: Path) -> None:
    (jp_root_dir / "solutions").mkdir()
    (jp_root_dir / "solutions" / "one.py").write_text("print(42)")
    student = await mint(fetch, policy={"deniedPaths": ["solutions/**"]})
    assert (await use(fetch, student, "readFile", path="solutions/one.py")).code == "PERMISSION_DENIED"
    assert (await use(fetch, student, "exploreFiles", path=".")).body["totalFound"] == 0
    found = await use(fetch, student, "searchFiles", paths=["."], query="42", type="literal")
    assert found.body["totalMatches"] == 0
    ran = await use(fetch, student, "executeCommand", command="cat solutions/one.py; ls solutions")
    assert "42" not in json.dumps(ran.body) and "one.py" not in json.dumps(ran.body.get("stdout", ""))
    assert (await call("executeCommand", command="cat solutions/one.py")).body["stdout"] == "print(42)"


async def test_the_policy_that_is_shown_is_the_tokens(fetch: Any) -> None:
    agent = await mint(fetch, preset="restrictive")
    answer = await fetch("wap/policy", headers=bearer(agent))
    assert [layer["name"] for layer in answer.body["layers"]][:2] == ["standard", "restrictive"]
    assert answer.body["effective"]["access"] == "read"
    body = json.dumps({"protocolVersion": "1.0", "operations": [{"type": "shell", "command": "ls"}]})
    checked = await fetch("wap/policy/check", method="POST", body=body, headers=bearer(agent))
    assert [verdict["verdict"] for verdict in checked.body["verdicts"]] == ["deny"]


LS = {"type": "shell", "command": "ls"}
UNKNOWN = {"type": "shell", "command": "factor 6"}
"""A command that no rule names; it runs on a layer."""
DELETE = {"type": "shell", "command": "rm -r x"}
READ = {"type": "readFile", "path": "a.txt"}
CREATE = {"type": "createFile", "path": "b.txt", "content": "b"}


def setting(name: str, operation: Mapping[str, Any] = LS) -> dict[str, Any]:
    return {**operation, "env": {name: "x"}}


PREDICTED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, LS, "allow default"),
    ({}, UNKNOWN, "allow default"),
    ({}, {**UNKNOWN, "isolation": "shared"}, "ask shell.shared"),
    ({}, DELETE, "ask rm -r|-R|--recursive"),
    ({}, {"type": "shell", "command": "sudo id"}, "deny blocked"),
    ({}, {"type": "readFile", "path": "server.pem"}, "deny standard: *.pem"),
    ({}, setting("FINE"), "allow default"),
    *(
        ({}, setting(name), "deny environment")
        for name in "LD_PRELOAD PATH BASH_ENV GIT_DIR PS4 BASH_FUNC_git%%".split()
    ),
    ({}, setting("LD_PRELOAD", DELETE), "deny environment"),
    ({}, setting("not a name"), "deny environment"),
    ({"tools": ["readFile"]}, READ, "allow default"),
    ({"tools": ["readFile"]}, LS, "deny token.tools"),
    ({"tools": ["readFile"]}, CREATE, "deny token.tools"),
    ({"tools": ["executeCommand"]}, LS, "allow default"),
    ({"tools": ["writeFile"]}, CREATE, "allow default"),
    ({"policy": {"filesystem": {"access": "read"}}}, CREATE, "deny filesystem.access"),
    ({"policy": {"shell": {"enabled": False}}}, LS, "deny shell.enabled"),
]
"""The fields of a token, an operation, and the verdict on it."""


async def predict_and_perform(fetch: Any, wanted: Mapping[str, Any], operation: Mapping[str, Any]) -> tuple[str, str]:
    """Return the verdict beforehand and the outcome; nothing else in an agent's answers is comparable."""
    headers = bearer(await mint(fetch, **wanted))
    body = json.dumps({"protocolVersion": "1.0", "operations": [operation]})
    checked = await fetch("wap/policy/check", method="POST", body=body, headers=headers)
    (verdict,) = checked.body["verdicts"]
    ran = await fetch("wap/runs", method="POST", body=body, headers=headers)
    if ran.status == 403:
        assert ran.body["error"].startswith(verdict["reason"])
        return f"{verdict['verdict']} {verdict['rule']}", "deny"
    event = ran.body["events"][-1]
    kinds = {"policyDenied": "deny", "approvalRequired": "ask"}
    became = kinds.get(event["type"]) or ("allow" if event["success"] else "deny")
    if became != "allow":
        assert verdict["reason"] in (event.get("reason") or event["error"])
    return f"{verdict['verdict']} {verdict['rule']}", became


async def test_what_is_said_beforehand_is_what_happens(fetch: Any, jp_root_dir: Path) -> None:
    (jp_root_dir / "a.txt").write_text("a")
    (jp_root_dir / "server.pem").write_text("secret")
    for wanted, operation, predicted in PREDICTED:
        (jp_root_dir / "b.txt").unlink(missing_ok=True)
        found = await predict_and_perform(fetch, wanted, operation)
        assert found == (predicted, predicted.partition(" ")[0]), (wanted, operation)


class TestUnconfined:
    @pytest.fixture(params=[False, True])
    def settings(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        return {"provider": "local", "allow_unconfined": request.param}

    async def test_an_agent_gets_no_unconfined_command_unless_told_otherwise(
        self, fetch: Any, call: Any, settings: dict[str, Any], jp_root_dir: Path
    ) -> None:
        agent = await mint(fetch)
        answer = await use(fetch, agent, "executeCommand", command="echo x > made")
        expected = (200, None) if settings["allow_unconfined"] else (503, "PROVIDER_UNAVAILABLE")
        assert (answer.status, answer.code) == expected
        assert (jp_root_dir / "made").exists() == settings["allow_unconfined"]
        assert (await call("executeCommand", command="echo x > made")).status == 200  # a person may
        asked = await call("executeCommand", command="python3 -c 1")
        assert (asked.code, asked.body["details"]["rule"]) == ("APPROVAL_REQUIRED", "unconfined")

    @pytest.mark.parametrize("operation", [LS, UNKNOWN, CREATE], ids=lambda each: each["type"])
    async def test_what_is_said_beforehand_is_what_happens(
        self, fetch: Any, settings: dict[str, Any], operation: dict[str, Any]
    ) -> None:
        predicted, became = await predict_and_perform(fetch, {}, operation)
        assert predicted.partition(" ")[0] == became
        assert (predicted == "deny provider") == (operation is not CREATE and not settings["allow_unconfined"])
