"""The table of calls that every client makes is complete."""

from __future__ import annotations

from tests.support import mcp_calls
from wap_kernel.dialects.coding_environment.tools import TOOLS


def test_no_argument_is_left_out() -> None:
    assert mcp_calls.untried() == set()


def test_no_tool_and_no_error_code_is_left_out() -> None:
    answered = {tool for tool, _, expected in mcp_calls.CALLS if "answer" in expected}
    assert answered == set(TOOLS) - {"cancelRun"}, "a run that has ended cannot be cancelled"
    failed = {tool for tool, _, expected in mcp_calls.CALLS if "data" in expected}
    assert failed >= set(TOOLS)
    codes = {expected["code"] for _, _, expected in mcp_calls.CALLS if "code" in expected}
    assert codes == {-32602, -32603, -32001, -32002, -32003, -32004, -32005}
