"""The tool table of Agent Spaces for models: one tool, whose arguments are an operations message."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from wap_kernel.dialects.agent_spaces.event_models import EventsMessage
from wap_kernel.dialects.agent_spaces.operations import OperationsMessage
from wap_kernel.dialects.tool import Tool
from wap_kernel.model.operations import Effect

_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        "runOperations",
        "Run a batch",
        "Performs several operations in order as one run that a person can watch and undo: message, createFile, "
        "readFile, editFile, deleteFile, shell (a line for bash). Paths are relative to the server's root. With "
        "atomic the first failure undoes all; with dryRun nothing is changed and the answer tells what would be. "
        "Look at the events: a failed one does not stop the rest. Example: "
        '{"protocolVersion": "1.0", "operations": [{"type": "createFile", "path": "a.py", "content": "x = 1\\n"}, '
        '{"type": "shell", "command": "python3 a.py"}]}',
        Effect.EXECUTE,
        OperationsMessage,
        EventsMessage,
        destructive=True,
    ),
)

TOOLS = MappingProxyType({tool.name: tool for tool in _TOOLS})
