"""The tools for Jupyter AI, by way of jupyter-server-mcp, which runs in the server's process and calls these functions.

The port of jupyter-server-mcp demands no token. So every caller is an agent and never a person: all of them share one
agent token, which only this process holds. A person can see it in the list of tokens and revoke it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta, timezone
from inspect import Parameter, Signature
from typing import Annotated, Any

from jupyter_server.serverapp import ServerApp
from pydantic import Field, WithJsonSchema

from wap_kernel.dialects import json_schema
from wap_kernel.dialects.coding_environment.outcome import CallOutcome, encode_failure
from wap_kernel.dialects.coding_environment.rpc_errors import to_rpc_error
from wap_kernel.dialects.coding_environment.tool_call import call_tool
from wap_kernel.dialects.coding_environment.tools import TOOLS, CodingTool
from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.model.limits import DEFAULT_PAGE

from .app import WapExtension
from .handlers.base import RATE_LIMITER
from .tokens.models import AgentToken, TokenSpec
from .tokens.store import AgentTokenStore

NAME = "jupyter-server-mcp"
MINTER = "server"
"""The creator of the token: no person, but the server itself."""
LIFETIME = timedelta(days=365)
"""The lifetime of the token; a server that runs longer must be restarted to get another."""
UNUSED_LIFETIME = timedelta(days=7)
"""The time after which an unused token of an earlier server is revoked."""
TOKEN = "wap_jupyter_server_mcp"
"""The application setting that holds the future of the token."""

Function = Callable[..., Awaitable[dict[str, Any]]]


class ToolError(Exception):
    """The error of a tool call as a model reads it: the same JSON as over MCP."""


def tools() -> list[str]:
    """List the import path of each tool, for the entry point `jupyter_server_mcp.tools`; none without the extension."""
    app = _find_extension()
    if app is None or app.runner is None:
        return []
    return [f"{__name__}:{name}" for name in TOOLS if not app.mcp_tools or name in app.mcp_tools]


def __getattr__(name: str) -> Function:
    """Return a tool as a function of this module, built from the same table as MCP's."""
    if name not in TOOLS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _build_function(TOOLS[name])


def _build_function(tool: CodingTool[Any]) -> Function:
    async def function(**arguments: Any) -> dict[str, Any]:
        return await _call_tool(tool.name, {name: value for name, value in arguments.items() if value is not None})

    parameters = _build_parameters(tool)
    function.__name__ = function.__qualname__ = tool.name
    function.__doc__ = tool.description
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    function.__annotations__["return"] = dict[str, Any]
    function.__signature__ = Signature(parameters, return_annotation=dict[str, Any])  # type: ignore[attr-defined]  # PEP 362
    return function


def _build_parameters(tool: CodingTool[Any]) -> list[Parameter]:
    """Build the parameters with the schemas of MCP. Values are passed on unchecked: the tool call checks them."""
    schema = json_schema.build_schema(tool.parameters, "validation")
    required = schema.get("required", ())
    absent = Field(default_factory=lambda: None)
    return [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if name in required else absent,
            annotation=Annotated[Any, WithJsonSchema(property_schema)],
        )
        for name, property_schema in schema["properties"].items()
    ]


async def _call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        outcome = await _call_engine(name, arguments)
    except WapError as error:
        outcome = encode_failure(to_rpc_error(name, error))
    if outcome.error is not None:
        raise ToolError(outcome.text)
    return outcome.structured


async def _call_engine(name: str, arguments: dict[str, Any]) -> CallOutcome:
    app = _find_extension()
    if app is None or app.runner is None:
        raise ProviderUnavailable("This server has no workspace.", hint="Is the extension jupyter_ext enabled?")
    agent = await _verify_agent(app)
    limiter = app.settings[RATE_LIMITER]
    return await call_tool(
        name,
        arguments,
        app.runner,
        agent.to_caller(),
        wait=app.mcp_wait,
        admit=lambda _, operation: limiter.admit(agent, operation),
    )


async def _verify_agent(app: WapExtension) -> AgentToken:
    """Return the verified token of all callers. After a revocation there is no other until the server restarts."""
    if app.tokens is None:
        raise ProviderUnavailable("The agent tokens of this server are not available.")
    if TOKEN not in app.settings:  # concurrent calls wait for the same token
        app.settings[TOKEN] = asyncio.ensure_future(_mint_token(app.tokens))
    minting: asyncio.Future[str] = app.settings[TOKEN]
    try:
        token = await asyncio.shield(minting)
    except WapError:
        if app.settings.get(TOKEN) is minting:
            del app.settings[TOKEN]  # the next call tries again
        raise
    return await app.tokens.verify(token)


async def _mint_token(tokens: AgentTokenStore) -> str:
    """Mint a token and return its text; revoke the unused tokens of earlier servers.

    Another server on the same folder may hold a token too; it uses it now and then, which keeps the token.
    """
    now = datetime.now(timezone.utc)
    async for token in _list_all(tokens):
        is_ours = (token.name, token.created_by, token.revoked_at) == (NAME, MINTER, None)
        if is_ours and (token.last_used_at or token.created_at) < now - UNUSED_LIFETIME:
            await tokens.revoke(token.id)
    spec = TokenSpec(name=NAME, expires_at=now + LIFETIME)
    _, minted = await tokens.mint(spec, MINTER)
    return minted


async def _list_all(tokens: AgentTokenStore) -> AsyncIterator[AgentToken]:
    page, following = await tokens.page(DEFAULT_PAGE)
    while True:
        for token in page:
            yield token
        if following is None:
            return
        page, following = await tokens.page(DEFAULT_PAGE, following)


def _find_extension() -> WapExtension | None:
    """Return the extension of the server in this process, if it has one."""
    if not ServerApp.initialized():
        return None
    extensions = ServerApp.instance().extension_manager.extension_apps
    return next((app for apps in extensions.values() for app in apps if isinstance(app, WapExtension)), None)
