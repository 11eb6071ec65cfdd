"""docs/clients.md: the programs themselves read its configurations, and their models call the tools.

The model is a script on loopback; nothing else can be reached.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.client_configurations import DOCUMENT, find_block, list_parts
from tests.support.client_desk import Desk, open_desk
from tests.support.program_cache import install_npm
from tests.support.scripted_model import Call, ScriptedModel

pytestmark = pytest.mark.download

SECONDS = 180
TEXT = DOCUMENT.read_text()
TASK = "Do what has to be done."
CALLS = (Call("deleteFile", {"path": "missing.txt"}), Call("readFile", {"path": "todo.txt"}))
NOWHERE = "http://127.0.0.1:9"
"""A proxy that does not exist: what is not on this machine cannot be reached."""


class Program(NamedTuple):
    client: str
    """Name in docs/clients.md."""
    packages: tuple[str, ...]
    prepare: Callable[[Desk, str, Path, ScriptedModel], list[list[str]]]
    """Write the configuration of the document for a server's name, and return the commands to run."""
    environment: Mapping[str, str]


def _prepare_codex(desk: Desk, name: str, home: Path, model: ScriptedModel) -> list[list[str]]:
    own = f"""model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{model.url}/v1"
wire_api = "responses"
requires_openai_auth = false

"""
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(own + _only(name, desk.filled(find_block(TEXT, "Codex", "toml"))))
    return [["codex", "exec", "--skip-git-repo-check", "--sandbox", "read-only", TASK]]


def _only(name: str, toml: str) -> str:
    """Return the part of a TOML text about one server."""
    (part,) = (part for part in toml.split("\n\n") if f"[mcp_servers.{name}]" in part)
    return part


def _prepare_opencode(desk: Desk, name: str, home: Path, model: ScriptedModel) -> list[list[str]]:
    settings = json.loads(desk.filled(find_block(TEXT, "opencode", "json")))
    settings["mcp"] = {name: settings["mcp"][name]}
    settings |= {"autoupdate": False, "share": "disabled"}
    settings["provider"] = {
        "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{model.url}/v1", "apiKey": "none"},
            "models": {"scripted": {"name": "scripted"}},
        }
    }
    (home / "project" / "opencode.json").write_text(json.dumps(settings))
    return [["opencode", "run", "--model", "scripted/scripted", TASK]]


def _prepare_claude(desk: Desk, name: str, home: Path, model: ScriptedModel) -> list[list[str]]:
    (part,) = (part for client, part in list_parts(desk.filled(TEXT)) if client == "Claude Code")
    lines = [line.strip() for line in part.splitlines() if line.startswith("    claude mcp add")]
    (add,) = (line for line in lines if ("--transport http" in line) == (name == "http"))
    return [shlex.split(add), ["claude", "--print", "--allowedTools", "mcp__wap", "--", TASK]]


def _prepare_gemini(desk: Desk, name: str, home: Path, model: ScriptedModel) -> list[list[str]]:
    settings = json.loads(desk.filled(find_block(TEXT, "Gemini CLI", "json")))
    settings["mcpServers"] = {name: settings["mcpServers"][name]}
    settings |= {
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    }
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    return [["gemini", "--model", "gemini-2.5-flash", "--prompt", TASK]]


PROGRAMS = (
    Program("Codex", ("@openai/codex@0.166.0",), _prepare_codex, {}),
    Program(
        "opencode",
        ("opencode-ai@1.18.33",),
        _prepare_opencode,
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
    ),
    Program(
        "Claude Code",
        ("@anthropic-ai/claude-code@2.1.197",),
        _prepare_claude,
        {
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": "MODEL",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            # Wait for the servers; a busy machine takes longer than Claude Code does by itself.
            "MCP_CONNECTION_NONBLOCKING": "0",
            "MCP_CONNECT_TIMEOUT_MS": "60000",
            "MCP_TIMEOUT": "60000",
        },
    ),
    Program(
        "Gemini CLI",
        ("@google/gemini-cli@0.61.0",),
        _prepare_gemini,
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "MODEL", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
)
CASES = [
    *((PROGRAMS[0], name) for name in ("wap", "wap-folder")),
    *((PROGRAMS[1], name) for name in ("wap", "wap-folder")),
    *((PROGRAMS[2], name) for name in ("http", "stdio")),
    *((PROGRAMS[3], name) for name in ("wap", "wap-folder")),
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("place")) as opened:
        yield opened


@pytest.mark.parametrize(("program", "name"), CASES, ids=[f"{program.client} {name}" for program, name in CASES])
def test_a_program_calls_the_tools(desk: Desk, tmp_path: Path, program: Program, name: str) -> None:
    commands = install_npm(program.client.lower().replace(" ", "-"), *program.packages)
    (tmp_path / "project").mkdir()
    with ScriptedModel(CALLS).serve() as model:
        environment = _build_environment(desk, tmp_path, commands, program, model)
        said = [
            _run(command, environment, tmp_path / "project") for command in program.prepare(desk, name, tmp_path, model)
        ]
    assert len(model.results) == len(CALLS), "\n".join((*said, *sorted(model.offered), *model.paths))
    missing, found = model.results
    assert "FILE_NOT_FOUND" in missing and "missing.txt" in missing, missing
    assert "TODO: this" in found
    assert model.last_words in said[-1]


def _build_environment(
    desk: Desk, home: Path, commands: Path, program: Program, model: ScriptedModel
) -> dict[str, str]:
    kept = {key: value for key, value in desk.environment.items() if not key.lower().endswith("_proxy")}
    return {
        **kept,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "PATH": os.pathsep.join((str(commands), kept["PATH"])),
        "HTTP_PROXY": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "NO_PROXY": "127.0.0.1,localhost",
        **{key: model.url if value == "MODEL" else value for key, value in program.environment.items()},
    }


def _run(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    """Return what a program prints; end it and everything that it started after a while."""
    process = subprocess.Popen(
        command,
        env={**environment, "PWD": str(folder)},  # opencode believes it
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        pytest.fail(f"{command[0]} did not end: {said[-5_000:]}")
    assert process.returncode == 0, said
    return said
