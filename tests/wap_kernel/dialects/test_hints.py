"""What the engine advises names tools and fields of WAP: every other dialect says it in names that it has itself."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import wap_kernel
from wap_kernel.dialects import coding_environment, tool_interface
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.agent_spaces.event_writer import AgentSpacesEvents
from wap_kernel.dialects.coding_environment import rpc_errors
from wap_kernel.dialects.tool_interface import errors as failing
from wap_kernel.model import errors
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.operations import ReadFile
from wap_kernel.notebook.language.error_messages import reword_error

ENGINE = "model files state providers policy git engine runs"
SHARED = {"readOnlyPaths", "nextCursor", "pendingApproval"}
"""Fields of policies and of the server's lists, which are the same for all."""
NAME = re.compile(r"\b[a-z]+[A-Z]\w*")
OF_THE_SERVER = re.compile(r"\b(GET|POST|DELETE) |\bwap/")


def _advice() -> Iterator[tuple[str, str]]:
    """The name of the error and its hint, each as it stands in the source."""
    package = Path(wap_kernel.__file__).parent
    for place in ENGINE.split():
        for file in sorted((package / place).rglob("*.py")) or [package / place]:
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    yield from (
                        (node.func.id, text) for word in node.keywords if word.arg == "hint" for text in _texts(word)
                    )
                elif isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["hint"]:
                    yield from (("InvalidArgument", text) for text in _texts(node))


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def _names(tools: Mapping[str, Any]) -> set[str]:
    """Of tools and of all their fields."""
    schemas = json.dumps([tool.parameters.model_json_schema() for tool in tools.values()])
    return {*tools, *NAME.findall(schemas)}


def _in_coding_environment(error: WapError) -> str:
    tools = {Code.SIZE_LIMIT_EXCEEDED: "readFile", Code.BINARY_FILE: "editFile", Code.NOT_FOUND: "getRun"}
    return rpc_errors.translated({**tools, Code.TIMEOUT: "runCommand"}.get(error.code, "listFiles"), error).hint or ""


def _in_agent_spaces(error: WapError) -> str:
    events = AgentSpacesEvents(partial(datetime.now, timezone.utc))
    event = events.failed("op-1", ReadFile(path="a"), error)
    return str(event.get("error") or event.get("suggestion"))


BATCH = {*NAME.findall(json.dumps(agent_spaces.OperationsMessage.model_json_schema()))}
DIALECTS: dict[str, tuple[Callable[[WapError], str], set[str]]] = {
    "Coding Environment": (_in_coding_environment, _names(coding_environment.TOOLS)),
    "Agent Spaces": (_in_agent_spaces, BATCH),
    "workspace-tool-interface": (lambda error: failing.translated(error).hint or "", _names(tool_interface.TOOLS)),
    "a line": (lambda error: reword_error(error).hint or "", BATCH),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_advice_is_in_names_of_the_dialect(dialect: str) -> None:
    said, own = DIALECTS[dialect]
    advice = list(_advice())
    assert len(advice) > 100 and ("InvalidArgument", "List it with exploreFiles.") in advice
    told = {hint: said(getattr(errors, name, errors.InvalidArgument)("It failed.", hint=hint)) for name, hint in advice}
    foreign = {hint: text for hint, text in told.items() if {*NAME.findall(text)} - own - SHARED}
    assert foreign == {}
    if dialect != "Agent Spaces":  # it has no search
        assert {hint: text for hint, text in told.items() if '"literal"' in text} == {}
    assert {hint: text for hint, text in told.items() if OF_THE_SERVER.search(text)} == {}
