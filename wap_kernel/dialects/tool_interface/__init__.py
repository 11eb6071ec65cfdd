"""workspace-tool-interface: the seven tools that coding agents of the OpenCode family expect."""

from wap_kernel.dialects.tool_interface.call import DIALECT, answer, call, parse, refuse, respond, tool
from wap_kernel.dialects.tool_interface.tools import TOOLS, WorkspaceTool

__all__ = ["DIALECT", "TOOLS", "WorkspaceTool", "answer", "call", "parse", "refuse", "respond", "tool"]
