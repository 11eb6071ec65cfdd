"""No message of the MCP server contains a credential of the server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_clients import INITIALIZE, SECONDS, request

SECRET = "Correct-Horse-Battery-Staple-0123"
CODE = """
import sys
from wap_kernel.engine import open_workspace
from wap_kernel.redaction.results import CurrentRedactor
opened = open_workspace.open_workspace
def open_with_secret(*args, **options):
    workspace = opened(*args, **options)
    workspace.redactor = CurrentRedactor(lambda: tuple(sys.argv[2:]))
    return workspace
from wap_kernel.dialects.mcp.stdio import serve
serve.open_workspace = open_with_secret
import asyncio
asyncio.run(serve.serve(sys.argv[1], {}, asyncio.Event(), grace=60))
"""


@pytest.mark.parametrize("is_known", [True, False])
def test_a_credential_stands_in_no_name(tmp_path: Path, is_known: bool) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / f"{SECRET}.txt").write_text("x")
    messages: list[dict[str, Any]] = [
        INITIALIZE,
        request("resources/list", 1),
        request("completion/complete", 2, ref={"type": "ref/resource"}, argument={"name": "path", "value": ""}),
        request("tools/call", 3, name=SECRET, arguments={}),
        request("prompts/get", 4, name=SECRET),
        request("resources/read", 5, uri=f"file://{root}/none/{SECRET}"),
    ]
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    command = [sys.executable, "-c", CODE, str(root), *([SECRET] if is_known else [])]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=SECONDS, check=True)
    answers = {message["id"]: line for line in done.stdout.splitlines() if "id" in (message := json.loads(line))}
    assert set(answers) == {0, 1, 2, 3, 4, 5}
    assert {number for number, line in answers.items() if SECRET in line} == (set() if is_known else {1, 2, 3, 4, 5})
