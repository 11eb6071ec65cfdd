"""The MCP server of a workspace: which messages it takes, and who answers them."""

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
from wap_kernel.dialects.mcp.subscriptions import Changes
from wap_kernel.dialects.mcp.tools import Tools
from wap_kernel.model.version import __version__
from wap_kernel.runs.runner import Runner

INSTRUCTIONS = """Tools to work in one folder, the workspace, beside a person who watches. Paths are relative to it. \
{tools}Every call is checked against a policy and recorded. A refusal says what to do instead; where a person has to \
agree, say so and go on with something else."""
_TOOLS = {
    "getWorkspaceInfo": "Begin with getWorkspaceInfo.",
    "listFiles": "See what there is with listFiles.",
    "searchFiles": "Find text with searchFiles.",
    "globFiles": "Find files with globFiles.",
    "editFile": "Change parts of a file with editFile.",
    "git": "Commit with git.",
}


def build_server(
    runner: Runner,
    asker_of: RequesterLookup,
    changes: Changes,
    *,
    only: Collection[str] | None = None,
    wait: float = 0.0,
) -> Server[Any]:
    """`only` these tools, or all. `wait`: the seconds that a call waits for a person, where it does not say."""
    desk = CallerResolver(runner.workspace, asker_of)
    tools = Tools(runner, desk, only, wait)
    resources = Resources(runner.workspace, desk, changes, only)
    prompts = Prompts(runner, desk, only)

    @asynccontextmanager
    async def life(_: Server[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            resources.close()

    server: Server[Any] = Server(
        "wap",
        version=__version__,
        title="Workspace",
        instructions=_instructions(only),
        lifespan=life,
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
        """As the SDK has it, but for what it promises: nothing that is listed here is told of when it changes."""
        able = server.get_capabilities(protocol_version=message.protocol_version)
        for listed in (able.tools, able.prompts, able.resources):
            if listed is not None:
                listed.list_changed = False
        return types.DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS), capabilities=able, instructions=server.instructions
        )

    server.add_request_handler("server/discover", types.RequestParams, discover)
    server.middleware.append(errors.explaining(runner.workspace.redactor))
    # Not by the constructor, which warns that logging is going away; clients of today ask for it.
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, client_log.set_level)
    return server


def _instructions(only: Collection[str] | None) -> str:
    told = [text for tool, text in _TOOLS.items() if only is None or tool in only]
    return INSTRUCTIONS.format(tools="".join(f"{text} " for text in told))
