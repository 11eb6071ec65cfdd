"""The official SDKs, in their versions since 2025, over HTTP, `wap mcp FOLDER` and `wap mcp --url`.

Each version has an environment of its own. The drivers in tests/support/mcp_sdks work there as a client does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import peers
from tests.support.mcp_lines import server, shared, token_file
from tests.support.node_programs import find_node
from tests.support.program_cache import install_npm, install_python
from tests.support.server_processes import LiveServer, Place
from wap_kernel.dialects.coding_environment.tools import TOOLS
from wap_kernel.dialects.mcp.protocol import HANDSHAKE_VERSIONS

__all__ = ["server", "shared", "token_file"]

pytestmark = pytest.mark.download

SECONDS = 180
DRIVERS = Path(__file__).parents[1] / "support" / "mcp_sdks"
TYPESCRIPT = "2.4.0"


class Sdk(NamedTuple):
    version: str
    protocol: str
    """Version of the protocol that it negotiates."""
    has_elicitation: bool = True
    requirements: tuple[str, ...] = ()


# Until 1.20 the SDK imports a private name of pydantic, which later versions of pydantic do not have.
OLD_PYDANTIC = ("pydantic<2.12",)
SDKS = (
    Sdk("1.9.4", "2025-03-26", has_elicitation=False, requirements=OLD_PYDANTIC),
    Sdk("1.12.4", "2025-06-18", requirements=OLD_PYDANTIC),
    Sdk("1.20.0", "2025-06-18", requirements=OLD_PYDANTIC),
    Sdk("1.30.0", "2025-11-25"),
    Sdk("2.3.0", "2025-11-25"),
)


@pytest.fixture(params=["http", "folder", "bridge"])
def way(request: pytest.FixtureRequest, shared: Place, token_file: Path) -> dict[str, Any]:
    """The way to the workspace, as the driver expects it: `$PORT` is a proxy that cuts the connections once."""
    for path in shared.root.iterdir():
        path.unlink()
    given: dict[str, Any] = {"root": str(shared.root)}
    server: LiveServer | None = None if request.param == "folder" else request.getfixturevalue("server")
    if server is not None:
        given["upstream"] = server.port
    if server is not None and request.param == "http":
        return {**given, "url": f"http://127.0.0.1:$PORT{server.base_url}wap/mcp", "token": server.token}
    where = [str(shared.root)] if server is None else ["--url", f"http://127.0.0.1:$PORT{server.base_url}"]
    token = [] if server is None else ["--token-file", str(token_file)]
    arguments = ["-m", "wap_kernel.cli", "mcp", *where, *token]
    return {**given, "command": sys.executable, "args": arguments, "env": shared.environment}


def _expect(way: dict[str, Any], protocol: str, *, has_elicitation: bool = True) -> dict[str, Any]:
    """Return what a driver prints. From 2026-07-28 on nothing is resumed: a request ends with its connection."""
    expected: dict[str, Any] = {
        "server": "wap",
        "version": protocol,
        "tools": list(TOOLS),
        "called": [False, False, "one\n"],
        "failed": [True, "FILE_NOT_FOUND"],
        "resources": [True, "one\n", True],
        "progress": True,
        "cancelled": [True, False, way["root"]],
    }
    if "upstream" in way and protocol in HANDSHAKE_VERSIONS:
        expected["resumed"] = [True, "begun\nresumed\n"]
    if has_elicitation:
        expected |= {"agreed": ["hi\n", [True]], "declined": ["APPROVAL_REQUIRED", [True]]}
    return expected


@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.version)
def test_a_version_of_the_python_sdk_does_everything(sdk: Sdk, way: dict[str, Any]) -> None:
    python = install_python(f"mcp-{sdk.version}", f"mcp=={sdk.version}", *sdk.requirements)
    seen = _run([str(python), str(DRIVERS / "driver.py")], way)
    assert seen == {"sdk": sdk.version, "seen": _expect(way, sdk.protocol, has_elicitation=sdk.has_elicitation)}


@pytest.mark.parametrize(("mode", "protocol"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_version_2_of_the_typescript_sdk_does_everything(way: dict[str, Any], mode: str, protocol: str) -> None:
    modules = install_npm("mcp-typescript-2", f"@modelcontextprotocol/client@{TYPESCRIPT}").parent
    seen = _run([find_node(20), str(DRIVERS / "driver.mjs"), str(modules), mode], way)
    assert seen == {"sdk": TYPESCRIPT, "seen": _expect(way, protocol)}


def _run(command: list[str], way: dict[str, Any]) -> Any:
    given, environment = json.dumps(way), peers.environment()
    done = subprocess.run(command, input=given, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
