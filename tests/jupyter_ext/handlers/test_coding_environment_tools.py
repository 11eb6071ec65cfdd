"""GET wap/tools?dialect=coding_environment: the same tools that MCP clients see, for whoever calls a model by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.agent_tokens import bearer, mint
from wap_kernel.dialects.coding_environment.tools import TOOLS

DIALECT = {"dialect": "coding_environment"}


@pytest.mark.parametrize("chosen_format", ["mcp", "openai", "anthropic"])
async def test_all_are_listed(fetch: Any, chosen_format: str) -> None:
    answer = await fetch("wap/tools", params={**DIALECT, "format": chosen_format})
    assert [tool.get("function", tool)["name"] for tool in answer.body["tools"]] == list(TOOLS)


async def test_mcp_definitions_are_complete(fetch: Any) -> None:
    tools = (await fetch("wap/tools", params=DIALECT)).body["tools"]
    by_name = {tool["name"]: tool for tool in tools}
    assert by_name["runCommand"]["annotations"] == {
        "title": "Run a command",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }
    assert by_name["readFile"]["annotations"]["readOnlyHint"]
    assert set(by_name["readFile"]["inputSchema"]["properties"]) == {"workspaceRoot", "path", "startLine", "endLine"}
    assert by_name["readFile"]["inputSchema"]["required"] == ["path"]


async def test_a_token_may_name_tools_of_any_dialect(fetch: Any) -> None:
    async def listed(*tools: str) -> list[str]:
        minted = await mint(fetch, tools=list(tools))
        answer = await fetch("wap/tools", params=DIALECT, headers=bearer(minted))
        return [tool["name"] for tool in answer.body["tools"]]

    runs = ["getRun", "getOutput", "cancelRun"]
    assert await listed("executeCommand") == ["runCommand", "runOperations", *runs]
    assert await listed("runCommand") == ["runCommand", "runOperations", *runs]
    assert await listed("globFiles") == ["globFiles", *runs]
    assert await listed("exploreFiles", "modifyFile") == [
        *("listFiles", "editFile", "globFiles", "editNotebook", "runOperations"),
        *runs,
    ]
