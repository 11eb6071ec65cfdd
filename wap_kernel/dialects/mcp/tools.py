"""tools/list and tools/call: the tools of the Coding Environment over MCP."""

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
from wap_kernel.dialects.mcp.elicitation import open_elicitation
from wap_kernel.dialects.mcp.identity import CallerResolver, Message
from wap_kernel.model.errors import InvalidArgument, NotFound
from wap_kernel.model.limits import MAX_WAIT_SECONDS, MCP_MAX_TOOL_NAME_CHARACTERS
from wap_kernel.model.operations import Effect
from wap_kernel.runs.runner import Runner

WAIT_META_KEY = "wap/wait"
"""The key in a call's `_meta` for the seconds to wait for an approval in Jupyter."""


class Tools:
    """The tools on offer: `only` these, or all of the dialect."""

    def __init__(self, runner: Runner, resolver: CallerResolver, only: Collection[str] | None, wait: float) -> None:
        self._runner = runner
        self._resolver = resolver
        self._only = only
        self._wait = wait
        self._definitions = {name: _build_definition(tool) for name, tool in TOOLS.items()}

    def input_schema(self, name: str) -> dict[str, Any] | None:
        definition = self._definitions.get(name)
        return None if definition is None else definition.input_schema

    async def list(self, message: Message, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        async with errors.translate_errors("tools/list"):
            caller = await self._resolver.authorize(message, Effect.READ, "tools/list")
        return types.ListToolsResult(tools=[self._definitions[tool.name] for tool in list_tools(caller, self._only)])

    async def call(
        self, message: Message, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        started = time.monotonic()
        elicitation = open_elicitation(message, params)
        try:
            self._check_offered(params.name)
            outcome = await call_tool(
                params.name,
                params.arguments,
                self._runner,
                self._resolver.caller(message),
                confirm=None if elicitation is None else elicitation.confirm,
                progress=_get_progress(message),
                wait=_get_wait(message, self._wait),
                authorize=self._resolver.requester(message).authorize,
                admit=lambda _, operation: self._resolver.requester(message).admit(operation),
            )
        except RpcError as error:
            if elicitation is not None and elicitation.pending_request is not None:
                return elicitation.pending_request
            await self._log(message, params.name[:MCP_MAX_TOOL_NAME_CHARACTERS], started, str(error.data.get("code")))
            raise errors.to_mcp_error(error) from None
        if elicitation is not None and elicitation.pending_request is not None:
            return elicitation.pending_request
        await self._log(message, params.name, started, "error" if outcome.is_error else None)
        return _build_result(outcome)

    def _check_offered(self, name: str) -> None:
        if name not in TOOLS or (self._only is not None and name not in self._only):
            known = [known for known in TOOLS if self._only is None or known in self._only]
            missing = NotFound(
                f"There is no tool named {name[:MCP_MAX_TOOL_NAME_CHARACTERS]!r}.", hint=f"Tools: {', '.join(known)}."
            )
            raise to_rpc_error("tools/call", missing)

    async def _log(self, message: Message, tool: str, started: float, failure: str | None) -> None:
        """Log the outcome of a call to the client; a successful read only at level debug."""
        duration = round((time.monotonic() - started) * 1000)
        data = {"tool": self._runner.workspace.redactor.mask_known(tool), "outcome": failure or "ok"}
        is_read = tool in TOOLS and TOOLS[tool].effect is Effect.READ
        level: types.LoggingLevel = "warning" if failure else "debug" if is_read else "info"
        try:
            await client_log.send_log(message, level, {**data, "durationMs": duration})
        except MCPError:  # the client has disconnected; the answer is what counts
            pass


def _build_definition(tool: CodingTool[Any]) -> types.Tool:
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


def _build_result(outcome: CallOutcome) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=outcome.text)],
        structured_content=outcome.structured,
        is_error=outcome.is_error,
    )


def _get_progress(message: Message) -> Progress | None:
    """Return the progress callback; None where the client wants no progress, since following the output costs time."""
    if message.meta is None or message.meta.get("progress_token") is None:
        return None
    return message.session.report_progress


def _get_wait(message: Message, default: float) -> float:
    seconds = default if message.meta is None else message.meta.get(WAIT_META_KEY, default)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise to_rpc_error(
            "tools/call",
            InvalidArgument(f"{WAIT_META_KEY}: The value must be a number of seconds up to {MAX_WAIT_SECONDS:g}."),
        )
    return float(seconds)
