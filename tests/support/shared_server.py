"""One Jupyter server for the tests of a module; each test gets a fresh root, a fresh state and its own settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp
from traitlets.config import Config

from jupyter_ext.app import WapExtension

EXTENSIONS = {"jupyter_ext": True, "jupyter_server_terminals": True}
"""Those that pytest-jupyter's servers have with the extension."""


class SharedServer:
    """A server whose extension is closed after a test and opened again, with another root and other settings."""

    def __init__(self, folder: Path, base_url: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        (folder / "root").mkdir()
        config = {"ServerApp": {"jpserver_extensions": EXTENSIONS}, "NotebookNotary": {"db_file": ":memory:"}}
        ServerApp.clear_instance()
        self.app = ServerApp.instance(
            log_level="DEBUG",
            base_url=base_url,
            config=Config(config),
            allow_root=True,
            open_browser=False,
            root_dir=str(folder / "root"),
        )
        self._loop.run_until_complete(self._initialize())
        self.app.log.propagate = True
        self.app.log.handlers = []
        (self.extension,) = self.app.extension_manager.extension_apps["jupyter_ext"]
        self._run(self.extension.stop_extension())
        ServerApp.clear_instance()
        self._settings = dict(self.app.web_app.settings)
        self._token = self.app.identity_provider.token

    @classmethod
    def can_serve(cls, config: Mapping[str, Any]) -> bool:
        """Return whether `config` says nothing but what the extension can be told when it opens."""
        server = {"jpserver_extensions": {**EXTENSIONS, **config["ServerApp"].get("jpserver_extensions", {})}}
        return set(config) <= {"ServerApp", "WapExtension"} and {**config["ServerApp"], **server} == {
            "jpserver_extensions": EXTENSIONS
        }

    def open(self, root: Path, environment: Mapping[str, Path], settings: Mapping[str, Any]) -> bool:
        """Return whether the extension serves `root` with these settings."""
        for each in ServerApp._walk_mro():
            each._instance = self.app
        for name, value in {**environment, "root_dir": root}.items():
            setattr(self.app, name, str(value))
        self.app.contents_manager.root_dir = str(root)
        for name, trait in WapExtension.class_own_traits(config=True).items():
            setattr(self.extension, name, settings.get(name, trait.default(self.extension)))
        self.extension.unavailable = ""
        self._run(self._open())
        return self.extension.workspace is not None

    def close(self) -> None:
        """Close the extension, and take back what a test changed in the server."""
        ServerApp.clear_instance()
        self._run(self.extension.stop_extension())
        self._run(self.app.kernel_manager.shutdown_all())
        settings = self.app.web_app.settings
        settings.clear()
        settings.update(self._settings)
        self.app.identity_provider.token = self._token

    def end(self) -> None:
        self._run(self.app._cleanup())
        self.app.kernel_manager.context.destroy()

    async def _initialize(self) -> None:
        self.app.initialize(argv=[], new_httpserver=False)

    async def _open(self) -> None:
        self.extension.initialize_settings()
        self.app.web_app.settings.update(self.extension.settings)

    def _run(self, something: Any) -> None:
        self._loop.run_until_complete(something)


def keep_environment(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Keep a server that starts now in `folder`, with nothing of the user's."""
    for name in ("config", "data", "runtime"):
        (folder / name).mkdir()
        patch.setenv(f"JUPYTER_{name.upper()}_DIR", str(folder / name))
    patch.setenv("HOME", str(folder))
    for name in ("SYSTEM_JUPYTER_PATH", "ENV_JUPYTER_PATH", "SYSTEM_CONFIG_PATH", "ENV_CONFIG_PATH"):
        patch.setattr(f"jupyter_core.paths.{name}", [str(folder / "none")])
