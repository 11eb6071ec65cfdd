"""The table of contents: every route of the extension, in the order in which they are tried."""

from __future__ import annotations

from .base import WapHandler
from .documents import OpenApiHandler, ToolsHandler
from .missing import MissingHandler
from .policy import CheckHandler, PolicyHandler
from .tokens import TokenHandler, TokensHandler
from .tools import ToolHandler

ROUTES: tuple[tuple[str, type[WapHandler]], ...] = (
    (r"/wap/api/([A-Za-z]+)", ToolHandler),
    (r"/wap/tools", ToolsHandler),
    (r"/wap/policy", PolicyHandler),
    (r"/wap/policy/check", CheckHandler),
    (r"/wap/tokens", TokensHandler),
    (r"/wap/tokens/([^/]+)", TokenHandler),
    (r"/wap/openapi\.json", OpenApiHandler),
    (r"/wap(?:/.*)?", MissingHandler),
)
