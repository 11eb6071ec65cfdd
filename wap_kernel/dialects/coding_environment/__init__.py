"""Coding Environment: the tools of its message catalog, for MCP, and further ones for what it leaves out."""

from wap_kernel.dialects.coding_environment.confirmation_prompt import Question
from wap_kernel.dialects.coding_environment.outcome import CallOutcome
from wap_kernel.dialects.coding_environment.rpc_errors import RpcError, rpc_error
from wap_kernel.dialects.coding_environment.tool_call import DIALECT, call, refuse, respond
from wap_kernel.dialects.coding_environment.tools import CATALOG, TOOLS, CodingTool, listed

__all__ = [
    "CATALOG",
    "DIALECT",
    "TOOLS",
    "CallOutcome",
    "CodingTool",
    "Question",
    "RpcError",
    "call",
    "listed",
    "refuse",
    "respond",
    "rpc_error",
]
