"""A server extension that replaces the contents manager when it loads, as jupytext does."""

from __future__ import annotations

from typing import Any

from jupyter_server.services.contents.largefilemanager import LargeFileManager


class PairedManager(LargeFileManager):
    """A manager that saves each file twice, the second time past its own `save`."""

    def save(self, model: dict[str, Any], path: str = "") -> Any:
        super().save(dict(model), f"{path}.pair")
        return super().save(model, path)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    server.contents_manager = PairedManager(parent=server, log=server.log)
    server.session_manager.contents_manager = server.contents_manager
    server.web_app.settings["contents_manager"] = server.contents_manager
