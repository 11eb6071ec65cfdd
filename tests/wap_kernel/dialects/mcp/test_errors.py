"""No message of the MCP server contains a credential of the server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.support.coding_environment import Coding
from tests.support.mcp_clients import refused
from wap_kernel.dialects.mcp.identity import LocalRequester
from wap_kernel.dialects.mcp.server import build_server
from wap_kernel.dialects.mcp.subscriptions import ResourceChanges
from wap_kernel.redaction.results import CurrentRedactor

SECRET = "Correct-Horse-Battery-Staple-0123"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_credential_stands_in_no_name(tmp_path: Path, is_known: bool) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / f"{SECRET}.txt").write_text("x")
    replies: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, types.LoggingMessageNotification):
            replies.append(str(message.params.data))

    async def work() -> None:
        async with Coding(root, tmp_path / "state").opened() as coding:
            coding.workspace.redactor = CurrentRedactor(lambda: (SECRET,) if is_known else ())
            asker = LocalRequester("s")
            server = build_server(coding.runner, lambda _: asker, ResourceChanges())
            async with Client(server, mode="legacy", message_handler=hear) as client:
                replies.append(str(await client.list_resources()))
                template = types.ResourceTemplateReference(uri="file:///{+path}")
                replies.append(str(await client.complete(template, {"name": "path", "value": ""})))
                replies.append(str((await refused(client.call_tool(SECRET, {}))).error))
                replies.append(str((await refused(client.get_prompt(SECRET))).error))
                replies.append(str((await refused(client.read_resource(f"file://{root}/none/{SECRET}"))).error))

    asyncio.run(work())
    assert len(replies) == 6
    assert [one for one in replies if (SECRET in one) is is_known] == []
