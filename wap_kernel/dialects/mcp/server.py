"""Build the MCP server of a workspace: the handlers of its messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from wap_kernel.dialects.mcp import client_log, errors
from wap_kernel.dialects.mcp.completion import Completions
from wap_kernel.dialects.mcp.identity import CallerResolver, Message, RequesterLookup
from wap_kernel.dialects.mcp.prompts import Prompts
from wap_kernel.dialects.mcp.resources import Resources
from wap_kernel.dialects.mcp.subscriptions import ResourceChanges
from wap_kernel.dialects.mcp.tools import Tools
from wap_kernel.model.package import __version__
from wap_kernel.runs.runner import Runner

INSTRUCTIONS = """Tools to work in one folder, the workspace, beside a person who watches. Paths are relative to it. \
{tools}Every call is checked against a policy and recorded. A refusal says what to do instead; where a person has to \
agree, say so and go on with something else."""
_TOOL_ADVICE = {
    "getWorkspaceInfo": "Begin with getWorkspaceInfo.",
    "listFiles": "See what there is with listFiles.",
    "searchFiles": "Find text with searchFiles.",
    "globFiles": "Find files with globFiles.",
    "editFile": "Change parts of a file with editFile.",
    "git": "Commit with git.",
}


def build_server(
    runner: Runner,
    get_requester: RequesterLookup,
    changes: ResourceChanges,
    *,
    only: Collection[str] | None = None,
    wait: float = 0.0,
) -> Server[Any]:
    """Build a server that offers `only` these tools, or all; calls wait `wait` seconds for an approval by default."""
    resolver = CallerResolver(runner.workspace, get_requester)
    tools = Tools(runner, resolver, only, wait)
    resources = Resources(runner.workspace, resolver, changes, only)
    prompts = Prompts(runner, resolver, only)

    @asynccontextmanager
    async def close_resources(_: Server[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            resources.close()

    server: Server[Any] = Server(
        "wap",
        version=__version__,
        title="Workspace",
        instructions=_build_instructions(only),
        lifespan=close_resources,
        get_tool_input_schema=tools.input_schema,
        on_list_tools=tools.list,
        on_call_tool=tools.call,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_subscribe_resource=resources.subscribe,
        on_unsubscribe_resource=resources.unsubscribe,
        on_subscriptions_listen=resources.listen,
        on_list_prompts=prompts.list,
        on_get_prompt=prompts.get,
        on_completion=Completions(resources).complete,
    )

    async def discover(message: Message, _: types.RequestParams) -> types.DiscoverResult:
        """Answer as the SDK does, but promise no notifications of changed lists."""
        capabilities = server.get_capabilities(protocol_version=message.protocol_version)
        for capability in (capabilities.tools, capabilities.prompts, capabilities.resources):
            if capability is not None:
                capability.list_changed = False
        return types.DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=capabilities,
            instructions=server.instructions,
        )

    server.add_request_handler("server/discover", types.RequestParams, discover)
    server.middleware.append(errors.build_error_middleware(runner.workspace.redactor))
    # Not by the constructor, which warns that logging is deprecated; today's clients ask for it.
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, client_log.set_level)
    return server


def _build_instructions(only: Collection[str] | None) -> str:
    advice = [text for tool, text in _TOOL_ADVICE.items() if only is None or tool in only]
    return INSTRUCTIONS.format(tools="".join(f"{text} " for text in advice))
