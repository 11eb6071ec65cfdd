"""Whatever is told over HTTP, by whatever route: no credential of the server is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_clients import Connect, connect, mcp_url, refused

__all__ = ["connect", "mcp_url"]

TOKEN = "Correct-Horse-Battery-Staple-0123"


@pytest.fixture
def wap_settings(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "git-token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    git = {"remotes": ["https://git.example.org/*"], "tokenFile": str(path)}
    return {"preset": "standard", "provider": "local", "git": git}


async def test_every_route(fetch: Any, jp_root_dir: Path) -> None:
    (jp_root_dir / f"{TOKEN}.txt").write_text("x\n")
    (jp_root_dir / "inside.txt").write_text(f"key = {TOKEN}\n")
    headers = {"X-Wap-Agent": f"agent {TOKEN}", "X-Wap-Session": TOKEN}
    answers: list[Any] = []

    async def ask(route: str, /, method: str = "GET", **body: Any) -> Any:
        sent = {"body": json.dumps(body)} if method == "POST" else {}
        answer = await fetch(route, method=method, headers=headers, **sent)
        assert answer.headers["Content-Length"] != "0" or answer.status == 204
        answers.append(answer.body)
        return answer

    for path in ("inside.txt", f"{TOKEN}.txt", f"none/{TOKEN}"):
        await ask("wap/api/readFile", "POST", path=path)
        await ask("wap/workspace/read", "POST", file_path=path)
    await ask("wap/api/exploreFiles", "POST", path=".")
    await ask("wap/api/searchFiles", "POST", query="x")
    await ask("wap/workspace/glob", "POST", pattern="**")
    await ask("wap/api/writeFile", "POST", path=f"b-{TOKEN}", content="")
    asked = await ask("wap/api/executeCommand", "POST", command=f"some-tool --key={TOKEN}")
    run, approval = asked.body["details"]["runId"], asked.body["details"]["approvalId"]
    await ask("wap/runs", "POST", protocolVersion="1.0", operations=[{"type": TOKEN}])
    await ask(f"wap/runs/{run}")
    reason = {"approvalId": approval, "decision": "denied", "reason": f"no {TOKEN}"}
    assert (await ask(f"wap/runs/{run}/decision", "POST", **reason)).status == 200
    await ask(f"wap/runs/{run}")
    for path in (f"runs/{TOKEN}", f"runs/{run}/output/{TOKEN}", "runs", "audit", "policy", "grants", "tokens", "api"):
        await ask(f"wap/{path}")
    await ask(f"wap/runs/{TOKEN}/cancel", "POST")
    await ask("wap/policy/check", "POST", operations=[{"type": "shell", "command": f"{TOKEN} > /etc/{TOKEN}"}])
    assert (await ask("wap/tokens", "POST", name=f"x {TOKEN}", tools=["readFile"])).status == 201
    await ask("wap/tokens")
    told = json.dumps(answers)
    assert told.count("***") > 20
    assert TOKEN not in told


async def test_over_mcp(connect: Connect, jp_root_dir: Path) -> None:
    (jp_root_dir / f"{TOKEN}.txt").write_text("x\n")
    async with connect() as client:
        assert TOKEN not in str(await client.list_resources())
        told = [
            str(await client.call_tool("listFiles", {"path": "."})),
            str(await refused(client.call_tool(TOKEN, {}))),
            str(await refused(client.get_prompt(TOKEN))),
            str(await refused(client.call_tool("readFile", {"path": f"none/{TOKEN}"}))),
        ]
    assert TOKEN not in "".join(told)
    assert [one for one in told if "***" not in one] == []
