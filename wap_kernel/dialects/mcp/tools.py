"""tools/list and tools/call: the Coding Environment's tools, as MCP has them said."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from wap_kernel.dialects import json_schema
from wap_kernel.dialects.coding_environment.outcome import CallOutcome
from wap_kernel.dialects.coding_environment.progress import Progress
from wap_kernel.dialects.coding_environment.rpc_errors import RpcError, to_rpc_error
from wap_kernel.dialects.coding_environment.tool_call import call_tool
from wap_kernel.dialects.coding_environment.tools import TOOLS, CodingTool, list_tools
from wap_kernel.dialects.mcp import client_log, errors
from wap_kernel.dialects.mcp.elicitation import elicitation
from wap_kernel.dialects.mcp.identity import CallerResolver, Message
from wap_kernel.model.errors import InvalidArgument, NotFound
from wap_kernel.model.limits import MAX_WAIT_SECONDS, MCP_MAX_TOOL_NAME_CHARACTERS
from wap_kernel.model.operations import Effect
from wap_kernel.runs.runner import Runner

WAIT = "wap/wait"
"""In a call's `_meta`: how many seconds it waits for a person in Jupyter to agree."""


class Tools:
    """`only` these, or all of the dialect's."""

    def __init__(self, runner: Runner, desk: CallerResolver, only: Collection[str] | None, wait: float) -> None:
        self._runner = runner
        self._desk = desk
        self._only = only
        self._wait = wait
        self._definitions = {name: _definition(tool) for name, tool in TOOLS.items()}

    def input_schema(self, name: str) -> dict[str, Any] | None:
        found = self._definitions.get(name)
        return None if found is None else found.input_schema

    async def list(self, message: Message, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        async with errors.as_errors("tools/list"):
            caller = await self._desk.authorize(message, Effect.READ, "tools/list")
        return types.ListToolsResult(tools=[self._definitions[tool.name] for tool in list_tools(caller, self._only)])

    async def call(
        self, message: Message, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        began = time.monotonic()
        asked = elicitation(message, params)
        try:
            self._require(params.name)
            outcome = await call_tool(
                params.name,
                params.arguments,
                self._runner,
                self._desk.caller(message),
                confirm=None if asked is None else asked.confirm,
                progress=_progress(message),
                wait=_wait(message, self._wait),
                authorize=self._desk.asker(message).authorize,
                admit=lambda _, operation: self._desk.asker(message).admit(operation),
            )
        except RpcError as error:
            if asked is not None and asked.due is not None:
                return asked.due
            await self._tell(message, params.name[:MCP_MAX_TOOL_NAME_CHARACTERS], began, str(error.data.get("code")))
            raise errors.as_sent(error) from None
        if asked is not None and asked.due is not None:
            return asked.due
        await self._tell(message, params.name, began, "error" if outcome.is_error else None)
        return _result(outcome)

    def _require(self, name: str) -> None:
        if name not in TOOLS or (self._only is not None and name not in self._only):
            known = [known for known in TOOLS if self._only is None or known in self._only]
            missing = NotFound(
                f"There is no tool named {name[:MCP_MAX_TOOL_NAME_CHARACTERS]!r}.", hint=f"Tools: {', '.join(known)}."
            )
            raise to_rpc_error("tools/call", missing)

    async def _tell(self, message: Message, tool: str, began: float, failure: str | None) -> None:
        """Reading is not worth a word unless somebody asks for every one."""
        duration = round((time.monotonic() - began) * 1000)
        told = {"tool": self._runner.workspace.redactor.mask_known(tool), "outcome": failure or "ok"}
        is_reading = tool in TOOLS and TOOLS[tool].effect is Effect.READ
        level: types.LoggingLevel = "warning" if failure else "debug" if is_reading else "info"
        try:
            await client_log.tell(message, level, {**told, "durationMs": duration})
        except MCPError:  # nobody listens any more; the answer is what counts
            pass


def _definition(tool: CodingTool[Any]) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=json_schema.build_schema(tool.parameters, "validation"),
        output_schema=json_schema.build_schema(tool.response, "serialization"),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.effect is Effect.READ,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.effect is Effect.EXECUTE,
        ),
    )


def _result(outcome: CallOutcome) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=outcome.text)],
        structured_content=outcome.structured,
        is_error=outcome.is_error,
    )


def _progress(message: Message) -> Progress | None:
    """None where the client does not want to hear of it: following the output costs something."""
    if message.meta is None or message.meta.get("progress_token") is None:
        return None
    return message.session.report_progress


def _wait(message: Message, default: float) -> float:
    said = default if message.meta is None else message.meta.get(WAIT, default)
    if isinstance(said, bool) or not isinstance(said, (int, float)) or not 0 <= said <= MAX_WAIT_SECONDS:
        raise to_rpc_error("tools/call", InvalidArgument(f"{WAIT}: It is a number of seconds up to {MAX_WAIT_SECONDS:g}."))
    return float(said)
