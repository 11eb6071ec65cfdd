"""The tools for Jupyter AI, by way of jupyter-server-mcp, which runs in the server's process and calls these functions.

Its port asks nobody for a token. So whoever calls is an agent and never a person: there is a token for all of them,
which nobody holds but this process. It stands in the list of tokens and can be revoked there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta, timezone
from inspect import Parameter, Signature
from typing import Annotated, Any

from jupyter_server.serverapp import ServerApp
from pydantic import Field, WithJsonSchema

from wap_kernel.dialects import json_schema
from wap_kernel.dialects.coding_environment.outcome import CallOutcome
from wap_kernel.dialects.coding_environment.rpc_errors import RpcError, rpc_error
from wap_kernel.dialects.coding_environment.tool_call import call
from wap_kernel.dialects.coding_environment.tools import TOOLS, CodingTool
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.model.limits import DEFAULT_PAGE

from .app import WapExtension
from .handlers.base import RATES
from .tokens.store import AgentToken, AgentTokens, Order

NAME = "jupyter-server-mcp"
LIFETIME = timedelta(days=365)
"""Of its token; a server that runs longer than that is started again for it."""
FORGOTTEN = timedelta(days=7)
"""A token that was not used for so long is nobody's any more."""
TOKEN = "wap_jupyter_server_mcp"
"""Where the application's settings hold it, once it is there."""

Function = Callable[..., Awaitable[dict[str, Any]]]


class ToolFailed(Exception):
    """What a model reads when a call has failed: JSON, as the same tool over MCP has it."""


def tools() -> list[str]:
    """For the entry point `jupyter_server_mcp.tools`: where each function is found. None without the extension."""
    app = _extension()
    if app is None or app.runner is None:
        return []
    return [f"{__name__}:{name}" for name in TOOLS if not app.mcp_tools or name in app.mcp_tools]


def __getattr__(name: str) -> Function:
    """Each tool as a function of this module, made from the same table as MCP's."""
    if name not in TOOLS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _function(TOOLS[name])


def _function(tool: CodingTool[Any]) -> Function:
    async def function(**arguments: Any) -> dict[str, Any]:
        return await _answer(tool.name, {name: value for name, value in arguments.items() if value is not None})

    parameters = _parameters(tool)
    function.__name__ = function.__qualname__ = tool.name
    function.__doc__ = tool.description
    function.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": dict[str, Any]}
    function.__signature__ = Signature(parameters, return_annotation=dict[str, Any])  # type: ignore[attr-defined]  # PEP 362
    return function


def _parameters(tool: CodingTool[Any]) -> list[Parameter]:
    """They are told as MCP tells them and passed on unread: what they mean is checked in one place."""
    schema = json_schema.of(tool.parameters, "validation")
    needed = schema.get("required", ())
    absent = Field(default_factory=lambda: None)
    return [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if name in needed else absent,
            annotation=Annotated[Any, WithJsonSchema(described)],
        )
        for name, described in schema["properties"].items()
    ]


async def _answer(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        outcome = await _outcome(name, arguments)
    except (RpcError, WapError) as error:
        failure = rpc_error(name, error) if isinstance(error, WapError) else error
        raise ToolFailed(json.dumps({"error": failure.message, **failure.data}, ensure_ascii=False)) from None
    if outcome.structured is None:
        raise ToolFailed(outcome.text)
    return outcome.structured


async def _outcome(name: str, arguments: dict[str, Any]) -> CallOutcome:
    app = _extension()
    if app is None or app.runner is None:
        raise ProviderUnavailable("There is no workspace here.", hint="Is the extension jupyter_ext enabled?")
    agent = await _agent(app)
    rates = app.settings[RATES]
    return await call(
        name,
        arguments,
        app.runner,
        Caller(user=agent.created_by, agent=agent.name, token=agent.id, scope=agent.scope),
        wait=app.mcp_wait,
        admit=lambda _, operation: rates.admit(agent, operation),
    )


async def _agent(app: WapExtension) -> AgentToken:
    """Who calls. A token that was revoked stays so until the server starts again."""
    if app.tokens is None:
        raise ProviderUnavailable("There are no agent tokens here now.")
    if TOKEN not in app.settings:  # calls that come at once wait for the same one
        app.settings[TOKEN] = asyncio.ensure_future(_mint(app.tokens))
    minting: asyncio.Future[str] = app.settings[TOKEN]
    try:
        token = await asyncio.shield(minting)
    except WapError:
        if app.settings.get(TOKEN) is minting:
            del app.settings[TOKEN]  # the next call tries again
        raise
    return await app.tokens.verify(token)


async def _mint(tokens: AgentTokens) -> str:
    """What the holder sends. Of servers that ran before there is one left each; another server on the same folder may
    hold one too, and uses it now and then."""
    user, now = Caller().user, datetime.now(timezone.utc)
    async for token in _all(tokens):
        is_ours = (token.name, token.created_by, token.revoked_at) == (NAME, user, None)
        if is_ours and (token.last_used_at or token.created_at) < now - FORGOTTEN:
            await tokens.revoke(token.id)
    order = Order(name=NAME, expires_at=now + LIFETIME)
    _, minted = await tokens.mint(order, user)
    return minted


async def _all(tokens: AgentTokens) -> AsyncIterator[AgentToken]:
    page, following = await tokens.page(DEFAULT_PAGE)
    while True:
        for token in page:
            yield token
        if following is None:
            return
        page, following = await tokens.page(DEFAULT_PAGE, following)


def _extension() -> WapExtension | None:
    """Of the server of this process, if it has it."""
    if not ServerApp.initialized():
        return None
    extensions = ServerApp.instance().extension_manager.extension_apps
    return next((app for apps in extensions.values() for app in apps if isinstance(app, WapExtension)), None)
