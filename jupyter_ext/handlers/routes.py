"""The route table: every route of the extension, in the order in which Tornado tries them."""

from __future__ import annotations

from .approvals import DecisionHandler, GrantHandler, GrantsHandler
from .audit import AuditHandler
from .base import NotFoundHandler, WapHandler
from .documents import OpenApiHandler, ToolsHandler
from .event_streams import EventsHandler, RunStreamHandler
from .mcp import McpHandler
from .policy import PolicyCheckHandler, PolicyHandler
from .runs import (
    ApplyHandler,
    CancelHandler,
    ChangesHandler,
    OutputHandler,
    RevertHandler,
    RunHandler,
    RunOperationsHandler,
    RunsHandler,
)
from .tokens import TokenHandler, TokensHandler
from .tools import ToolHandler, WorkspaceToolHandler

ROUTES: tuple[tuple[str, type[WapHandler]], ...] = (
    (r"/wap/api/runOperations", RunOperationsHandler),
    (r"/wap/api/([A-Za-z]+)", ToolHandler),
    (r"/wap/workspace/([a-z]+)", WorkspaceToolHandler),
    (r"/wap/runs", RunsHandler),
    (r"/wap/runs/([^/]+)", RunHandler),
    (r"/wap/runs/([^/]+)/decision", DecisionHandler),
    (r"/wap/runs/([^/]+)/cancel", CancelHandler),
    (r"/wap/runs/([^/]+)/revert", RevertHandler),
    (r"/wap/runs/([^/]+)/apply", ApplyHandler),
    (r"/wap/runs/([^/]+)/changes", ChangesHandler),
    (r"/wap/runs/([^/]+)/output/([^/]+)", OutputHandler),
    (r"/wap/runs/([^/]+)/stream", RunStreamHandler),
    (r"/wap/events", EventsHandler),
    (r"/wap/mcp", McpHandler),
    (r"/wap/tools", ToolsHandler),
    (r"/wap/audit", AuditHandler),
    (r"/wap/policy", PolicyHandler),
    (r"/wap/policy/check", PolicyCheckHandler),
    (r"/wap/grants", GrantsHandler),
    (r"/wap/grants/([^/]+)", GrantHandler),
    (r"/wap/tokens", TokensHandler),
    (r"/wap/tokens/([^/]+)", TokenHandler),
    (r"/wap/openapi\.json", OpenApiHandler),
    (r"/wap(?:/.*)?", NotFoundHandler),
)
