"""What binds an agent with a token: the server's policy, narrowed by the token's own; and nothing without a sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.jupyter_ext.agents import bearer, mint, use


@pytest.fixture
def settings() -> dict[str, Any]:
    return {}


@pytest.fixture
def jp_server_config(settings: dict[str, Any]) -> dict[str, Any]:
    return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}}, "WapExtension": settings}


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
    assert (await use(fetch, agent, "executeCommand", command="frobnicate")).code == "APPROVAL_REQUIRED"


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
