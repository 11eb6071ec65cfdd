"""The wiring: which folder is served, what the traits do, when there is no workspace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.contents.manager import ContentsManager
from traitlets import TraitError
from traitlets.config import Config

from jupyter_ext.app import WapExtension
from wap_kernel.cli import main
from wap_kernel.model.results import Limits


class ElsewhereContentsManager(ContentsManager):
    """Keeps its files in no local folder."""

    def dir_exists(self, path: str) -> bool:
        return True


def _configured(settings: dict[str, Any]) -> Any:
    return pytest.mark.parametrize("jp_server_config", [Config(settings)], ids=[next(iter(settings))])


def _with(**sections: Any) -> dict[str, Any]:
    return {**sections, "ServerApp": {"jpserver_extensions": {"jupyter_ext": True}, **sections.get("ServerApp", {})}}


async def test_the_root_is_the_servers_root_dir(call: Any, jp_root_dir: Path) -> None:
    answer = await call("getWorkspaceInfo")
    assert answer.body["root"] == str(jp_root_dir)


@pytest.fixture
def preferred(jp_root_dir: Path) -> Path:
    folder = jp_root_dir / "course" / "week 1"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("section", ["FileContentsManager", "ServerApp"])
@pytest.mark.filterwarnings("ignore:ServerApp.preferred_dir config is deprecated:FutureWarning")
def test_the_root_is_the_preferred_dir_when_set(jp_configurable_serverapp: Any, preferred: Path, section: str) -> None:
    settings = _with()
    settings.setdefault(section, {})["preferred_dir"] = str(preferred)
    server = jp_configurable_serverapp(config=settings)
    assert _extension(server).workspace.root == str(preferred)


def _extension(server: ServerApp) -> Any:
    (app,) = server.extension_manager.extension_apps["jupyter_ext"]
    return app


def test_traits_set_the_limits(jp_configurable_serverapp: Any, tmp_path: Path) -> None:
    values = {name: number for number, name in enumerate(Limits.model_fields, start=1000)}
    state = tmp_path / "state"
    server = jp_configurable_serverapp(config=_with(WapExtension={**values, "state_dir": str(state)}))
    assert _extension(server).workspace.limits == Limits(**values)
    assert state.is_dir()


OTHERS = (
    *("undo", "preset", "policy", "provider", "allow_unconfined", "git", "state_dir"),
    *("mcp_tools", "mcp_wait", "mcp_errors"),
)


def test_every_limit_is_a_trait_with_help_and_the_engines_default() -> None:
    traits = WapExtension.class_own_traits(config=True)
    assert set(traits) == {*Limits.model_fields, *OTHERS}
    for name, default in Limits().model_dump().items():
        assert traits[name].default_value == default
        assert traits[name].help


def test_the_reference_names_every_trait() -> None:
    """Jupyter's own --help-all does not: it loads no extensions."""
    reference = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
    missing = [name for name in WapExtension.class_own_traits(config=True) if f"`{name}`" not in reference]
    assert missing == []


def test_a_tool_that_there_is_not_cannot_be_offered() -> None:
    with pytest.raises(TraitError, match=r"There is no tool named 'readfile'\. Tools: readFile, writeFile, "):
        WapExtension(mcp_tools=["listFiles", "readfile"])


UNAVAILABLE = [
    ("wap/api/readFile", "POST"),
    ("wap/api/executeCommand", "POST"),
    ("wap/tools", "GET"),
    ("wap/openapi.json", "GET"),
    ("wap/nothing", "GET"),
]


async def _expect_unavailable(fetch: Any, *words: str) -> None:
    for path, method in UNAVAILABLE:
        answer = await fetch(path, method=method, body="{}" if method == "POST" else None)
        assert (answer.status, answer.code) == (503, "PROVIDER_UNAVAILABLE"), path
        for word in words:
            assert word in answer.body["error"]
    stranger = await fetch("wap/tools", headers={"Authorization": "token wrong"})
    assert stranger.code == "UNAUTHENTICATED"


@_configured(_with(ServerApp={"contents_manager_class": ElsewhereContentsManager}))
@pytest.mark.filterwarnings("ignore:The synchronous ContentsManager classes are deprecated:DeprecationWarning")
async def test_a_contents_manager_that_is_not_local(
    fetch: Any, extension: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await _expect_unavailable(fetch, "ElsewhereContentsManager", "FileContentsManager")
    assert extension.current_activity() is None


@pytest.fixture
def on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wap_kernel.engine.workspace.sys", SimpleNamespace(platform="win32"))


async def test_windows(on_windows: None, fetch: Any) -> None:
    await _expect_unavailable(fetch, "Windows", "WSL")


ON_WINDOWS = """
import sys
import wap_kernel.engine.workspace, jupyter_ext.app  # loads everything that is not ours, for the system that this is

for name in [name for name in sys.modules if name.partition(".")[0] in ("wap_kernel", "jupyter_ext")]:
    del sys.modules[name]
for name in ("fcntl", "grp", "posix", "pty", "pwd", "resource", "termios"):
    sys.modules[name] = None  # importing it raises ImportError
sys.platform = "win32"

import wap_kernel, jupyter_ext, jupyter_ext.app
from wap_kernel.model.errors import WapError
from wap_kernel.engine.workspace import Workspace

try:
    Workspace(".")
except WapError as error:
    print(error.code.value, error.text)

import wap_kernel.providers.bubblewrap, wap_kernel.providers.gvisor.provider
from wap_kernel.cli import main as cli

print("doctor", cli.main(["doctor"]))
"""


def test_windows_imports_and_refuses() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", ON_WINDOWS], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PROVIDER_UNAVAILABLE")
    assert "WSL" in done.stdout
    assert done.stdout.splitlines()[-1] == f"doctor {main.FAILURE}"
    assert done.stderr.startswith("wap: wap does not run on Windows itself.")


@pytest.mark.parametrize("jp_server_config", [_with(WapExtension={"state_dir": "/dev/null/state"})])
async def test_a_workspace_that_cannot_be_opened(fetch: Any) -> None:
    await _expect_unavailable(fetch)


async def test_two_servers_in_one_process_serve_their_own_folders(
    jp_serverapp: Any, extension: Any, tmp_path: Path
) -> None:
    other_root = tmp_path / "other"
    other_root.mkdir()
    other = ServerApp(root_dir=str(other_root), config=Config(_with()), allow_root=True, port=0)
    other.initialize(argv=[], new_httpserver=False)
    try:
        assert _extension(other).workspace.root == str(other_root)
        assert extension.workspace.root != str(other_root)
        settings = (jp_serverapp.web_app.settings["wap"], other.web_app.settings["wap"])
        assert settings == (extension, _extension(other))
    finally:
        await other._cleanup()


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, jupyter_ext; print(*{name.split('.')[0] for name in sys.modules})"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    loaded = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert not {"jupyter_server", "tornado", "pydantic", "traitlets"} & set(loaded.stdout.split())
