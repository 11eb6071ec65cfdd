"""A server extension with one route that authenticates and answers `{}`: the least that any request can cost."""

from __future__ import annotations

from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

PATH = "/benchmark/empty"


class EmptyHandler(APIHandler):
    """A handler that authenticates and answers nothing: the least that a request can cost."""

    @web.authenticated
    def get(self) -> None:
        self.finish("{}")


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    route = url_path_join(serverapp.web_app.settings["base_url"], PATH)
    serverapp.web_app.add_handlers(".*$", [(route, EmptyHandler)])
