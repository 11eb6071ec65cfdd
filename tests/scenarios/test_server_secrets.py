"""The server's own secrets and settings stay closed, wherever its configuration puts them below the root."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code, WapError

SECRET = "the server's own"


def _expect_protected(server: Any, path: Path, *, readable: bool) -> None:
    """`path` lies below the root, which is asked through the engine, as a handler would."""
    (extension,) = server.extension_manager.extension_apps["jupyter_ext"]
    runner = extension.runner
    name = os.path.relpath(path, runner.workspace.root)
    for tool, parameters, allowed in [
        ("readFile", {"path": name}, readable),
        ("writeFile", {"path": name, "content": "x"}, False),
        ("deleteFile", {"path": name, "recursive": True}, False),
    ]:
        body = json.dumps(parameters).encode()
        try:
            asyncio.run(wap.call_tool(tool, body, runner, Caller()))
        except WapError as error:
            assert (allowed, error.code) == (False, Code.PERMISSION_DENIED), (tool, error.text)
        else:
            assert allowed, tool
    search = json.dumps({"paths": ["."], "query": SECRET, "type": "literal"}).encode()
    found = json.loads(asyncio.run(wap.call_tool("searchFiles", search, runner, Caller())))
    assert found["totalMatches"] == int(readable)


def _file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SECRET)
    return path


def test_a_runtime_dir_below_the_root_is_hidden(jp_configurable_serverapp: Any, jp_root_dir: Path) -> None:
    announced = _file(jp_root_dir / "run" / "jpserver-1.json")
    server = jp_configurable_serverapp(runtime_dir=str(announced.parent))
    _expect_protected(server, announced, readable=False)


@pytest.mark.parametrize(
    ("traits", "readable"),
    [
        (["cookie_secret_file"], False),
        (["certfile", "keyfile"], False),  # the last one is looked at
        (["certfile"], False),  # which then holds the key too
        (["keyfile", "certfile"], True),
        (["keyfile", "certfile", "client_ca"], True),
    ],
)
def test_files_of_the_server_below_the_root(
    jp_configurable_serverapp: Any, jp_root_dir: Path, traits: list[str], readable: bool
) -> None:
    files = {trait: str(_file(jp_root_dir / "own" / trait)) for trait in traits[-1:]}
    others = {trait: str(jp_root_dir.parent / trait) for trait in traits[:-1]}
    settings = {"jpserver_extensions": {"jupyter_ext": True}, **files, **others}
    server = jp_configurable_serverapp(config={"ServerApp": settings})
    _expect_protected(server, jp_root_dir / "own" / traits[-1], readable=readable)


def test_the_file_that_holds_the_token_is_hidden(
    jp_configurable_serverapp: Any, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _file(jp_root_dir / "token")
    monkeypatch.setenv("JUPYTER_TOKEN_FILE", str(file))
    _expect_protected(jp_configurable_serverapp(), file, readable=False)


def test_configuration_below_the_root_is_read_only(
    jp_configurable_serverapp: Any, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(jp_root_dir)
    named = jp_root_dir / "mine.py"
    named.write_text(f"# {SECRET}\n")
    server = jp_configurable_serverapp(argv=["--config=mine.py"])
    _expect_protected(server, named, readable=True)
