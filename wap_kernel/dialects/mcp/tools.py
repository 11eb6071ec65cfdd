"""tools/list and tools/call: the tools of the Coding Environment over MCP."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any, Literal

from wap_kernel.dialects.coding_environment.outcome import CallOutcome
from wap_kernel.dialects.coding_environment.progress import Progress
from wap_kernel.dialects.coding_environment.rpc_errors import to_rpc_error
from wap_kernel.dialects.coding_environment.tool_call import call_tool
from wap_kernel.dialects.coding_environment.tools import TOOLS, CodingTool, get_profile, list_tools
from wap_kernel.dialects.mcp import tool_definitions
from wap_kernel.dialects.mcp.client_log import send_log
from wap_kernel.dialects.mcp.connection import Call
from wap_kernel.dialects.mcp.elicitation import open_elicitation
from wap_kernel.dialects.mcp.messages import Result
from wap_kernel.dialects.mcp.params import CallToolParams, parse_page, parse_params
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import InvalidArgument, NotFound, PermissionDenied
from wap_kernel.model.limits import MAX_WAIT_SECONDS, MCP_MAX_TOOL_NAME_CHARACTERS
from wap_kernel.model.operations import Effect
from wap_kernel.runs.runner import Runner

WAIT_KEY = "wap/wait"
"""The key in a call's `_meta` for the seconds to wait for an approval in Jupyter."""
ERRORS_KEY = "wap/errors"
"""The key in a call's `_meta` for the form of its error."""
OUTPUT_SCHEMAS_KEY = "wap/outputSchemas"
"""The key in the `_meta` of tools/list by which a client requests the schemas of answers."""

ErrorForm = Literal["result", "rpc"]
"""The form of a tool's error: a result with `isError`, which models see, or a JSON-RPC error, as the catalog has it."""


class Tools:
    """The tools on offer: `only` these, or all of the dialect."""

    def __init__(self, runner: Runner, only: Collection[str] | None, wait: float, errors: ErrorForm) -> None:
        self._runner = runner
        self._only = only
        self._wait = wait
        self._errors: ErrorForm = errors

    def get_caller(self, call: Call) -> Caller:
        return call.requester.caller(call.connection.client)

    async def authorize(self, call: Call, effect: Effect, action: str) -> Caller:
        """Return the caller if the server's authorizer allows `effect`; record a refusal."""
        caller = self.get_caller(call)
        try:
            await call.requester.authorize(effect)
        except PermissionDenied as error:
            self._runner.workspace.audit_refusal(action, error, caller)
            raise
        return caller

    def is_offered(self, call: Call, name: str) -> bool:
        """Return whether the setting and the client's profile offer a tool; a token's scope may still close it."""
        profile = get_profile(call.requester.profile)
        return (self._only is None or name in self._only) and (profile is None or name in profile)

    def list_offered(self, call: Call) -> dict[str, CodingTool[Any]]:
        """List the tools that the caller may use, by name."""
        tools = list_tools(self.get_caller(call), self._only)
        return {tool.name: tool for tool in tools if self.is_offered(call, tool.name)}

    async def list(self, call: Call) -> Result:
        parse_page(call.request)
        await self.authorize(call, Effect.READ, "tools/list")
        with_output = call.meta.get(OUTPUT_SCHEMAS_KEY) is True
        return tool_definitions.encode_list(tuple(self.list_offered(call)), with_output)

    async def call(self, call: Call) -> Result:
        params = parse_params(call.request, CallToolParams)
        self._check_offered(call, params.name)
        form, wait = self._get_error_form(call), self._get_wait(call)
        started = time.monotonic()
        elicitation = open_elicitation(call, params.input_responses)
        outcome = await call_tool(
            params.name,
            params.arguments,
            self._runner,
            self.get_caller(call),
            confirm=None if elicitation is None else elicitation.confirm,
            progress=_get_progress(call),
            wait=wait,
            authorize=call.requester.authorize,
            admit=lambda _, operation: call.requester.admit(operation),
        )
        if elicitation is not None and elicitation.pending_request is not None:
            return elicitation.pending_request
        self._log(call, params.name, started, outcome)
        if outcome.error is not None and form == "rpc":
            raise outcome.error
        return outcome.result

    def _check_offered(self, call: Call, name: str) -> None:
        if name not in TOOLS or not self.is_offered(call, name):
            known = [known for known in TOOLS if self.is_offered(call, known)]
            quoted = self._runner.workspace.redactor.mask_known(name[:MCP_MAX_TOOL_NAME_CHARACTERS])
            missing = NotFound(f"There is no tool named {quoted!r}.", hint=f"Tools: {', '.join(known)}.")
            raise to_rpc_error("tools/call", missing)

    def _get_error_form(self, call: Call) -> ErrorForm:
        form = call.meta.get(ERRORS_KEY, self._errors)
        if form == "rpc":
            return "rpc"
        if form == "result":
            return "result"
        raise to_rpc_error("tools/call", InvalidArgument(f'_meta: {ERRORS_KEY} must be "result" or "rpc".'))

    def _get_wait(self, call: Call) -> float:
        seconds = call.meta.get(WAIT_KEY, self._wait)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_WAIT_SECONDS:
            text = f"_meta: {WAIT_KEY} must be a number of seconds up to {MAX_WAIT_SECONDS}."
            raise to_rpc_error("tools/call", InvalidArgument(text))
        return float(seconds)

    def _log(self, call: Call, tool: str, started: float, outcome: CallOutcome) -> None:
        """Log the outcome of a call to the client; a successful read only at level debug."""
        failure = None if outcome.error is None else str(outcome.error.data.get("code"))
        duration = round((time.monotonic() - started) * 1000)
        level = "warning" if failure else "debug" if TOOLS[tool].effect is Effect.READ else "info"
        send_log(call, level, {"tool": tool, "outcome": failure or "ok", "durationMs": duration})


def _get_progress(call: Call) -> Progress | None:
    """Return the progress callback; None where the client wants no progress, since following the output costs time."""
    return None if call.meta.get("progressToken") is None else call.report_progress
