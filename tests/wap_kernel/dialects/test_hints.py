"""Check that every hint names tools and fields of the dialect that shows it, and no other."""

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
from wap_kernel.dialects.agent_spaces import operations as agent_spaces
from wap_kernel.dialects.agent_spaces.event_writer import AgentSpacesEventWriter
from wap_kernel.dialects.coding_environment import rpc_errors
from wap_kernel.dialects.coding_environment import tools as coding_tools
from wap_kernel.dialects.hints import render_hint, reword_for_person
from wap_kernel.dialects.tool_interface import errors as failing
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.model import errors, hints
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.hints import Hint
from wap_kernel.model.operations import ReadFile
from wap_kernel.notebook.language.error_messages import reword_error
from wap_kernel.redaction import results
from wap_kernel.redaction.redactor import Redactor

ENGINE = "model files state providers policy git engine runs"
SHARED = {"readOnlyPaths", "nextCursor", "pendingApproval", "protocolVersion"}
"""Fields of policies, of the server's lists and of batches, which are the same in every dialect."""
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
    """Return the names of the tools and of all their fields."""
    schemas = json.dumps([tool.parameters.model_json_schema() for tool in tools.values()])
    return {*tools, *NAME.findall(schemas)}


def _in_coding_environment(error: WapError) -> str:
    tools = {Code.SIZE_LIMIT_EXCEEDED: "readFile", Code.BINARY_FILE: "editFile", Code.NOT_FOUND: "getRun"}
    return (
        rpc_errors.translate_error({**tools, Code.TIMEOUT: "runCommand"}.get(error.code, "listFiles"), error).hint or ""
    )


def _in_agent_spaces(error: WapError) -> str:
    events = AgentSpacesEventWriter(partial(datetime.now, timezone.utc))
    event = events.write_failure("op-1", ReadFile(path="a"), error)
    return str(event.get("error") or event.get("suggestion"))


BATCH = {*NAME.findall(json.dumps(agent_spaces.OperationsMessage.model_json_schema()))}
DIALECTS: dict[str, tuple[Callable[[WapError], str], set[str]]] = {
    "Coding Environment": (_in_coding_environment, _names(coding_tools.TOOLS)),
    "Agent Spaces": (_in_agent_spaces, BATCH),
    "workspace-tool-interface": (
        lambda error: failing.translate_error(error).hint or "",
        _names(interface_tools.TOOLS),
    ),
    "the notebook's language": (lambda error: reword_error(error).hint or "", BATCH),
}


HINTS = [*(value for value in vars(hints).values() if isinstance(value, Hint)), hints.longer_timeout(600)]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("hint", HINTS, ids=lambda hint: hint.key)
def test_a_hint_is_rendered_in_names_of_the_dialect(dialect: str, hint: Hint) -> None:
    render, own = DIALECTS[dialect]
    if (dialect, hint.key) in NEVER_RAISED:
        pytest.skip("this dialect has no tool that raises it")
    codes = [kind for kind in errors.WapError.__subclasses__() if kind is not errors.InternalError]
    for text in {render(kind("The message.", hint=hint)) for kind in codes}:
        assert {*NAME.findall(text)} - own - SHARED == set()
        assert '"literal"' not in text
        assert not OF_THE_SERVER.search(text)


NEVER_RAISED = {("Agent Spaces", "regex_syntax"), ("Agent Spaces", "omit_expected_hash")}
"""Agent Spaces has no search and no expectedHash."""


def test_a_hint_without_a_key_names_no_tool() -> None:
    advice = list(_advice())
    assert len(advice) > 100
    assert {text for _, text in advice if {*NAME.findall(text)} - SHARED or OF_THE_SERVER.search(text)} == set()


def test_every_hint_with_a_key_survives_the_redaction_of_its_error() -> None:
    for hint in HINTS:
        assert (
            results.redact_error(errors.InvalidArgument("The message.", hint=hint), Redactor(("a-known-secret",))).hint
            is hint
        )


@pytest.mark.parametrize("sender", ["wap", "agent_spaces"])
@pytest.mark.parametrize("hint", HINTS, ids=lambda hint: hint.key)
def test_a_person_reads_the_hint_of_an_agent_in_words_of_the_notebook(hint: Hint, sender: str) -> None:
    sent = hint if sender == "wap" else render_hint(hint, "agent_spaces")
    person = render_hint(hint, "notebook")
    expected = sent if person == hint else person  # the notebook has no words of its own for some
    text = errors.InvalidArgument("Is a folder: a.txt", hint=sent).text
    assert reword_for_person(text) == f"Is a folder: a.txt. {expected}"


def test_a_hint_for_a_person_is_passed_on_by_an_agent_and_speaks_to_the_person() -> None:
    hint = hints.tell_user("Run `wap doctor`.")
    assert hint == "Tell the user: Run `wap doctor`."
    assert reword_for_person(f"No sandbox works. {hint}") == "No sandbox works. Run `wap doctor`."


SERVER_WORDS = re.compile(r"wap doctor|WapExtension|an administrator", re.IGNORECASE)
PERSON_FILES = ("providers/selection.py", "providers/bubblewrap.py", "state/directory.py", "state/schema.py")
"""Modules whose errors are of a server that starts; a person reads them in its log or a terminal."""


def test_advice_about_the_server_is_for_a_person() -> None:
    package = Path(wap_kernel.__file__).parent
    spoken = []
    for file in (file for place in ENGINE.split() for file in sorted((package / place).rglob("*.py"))):
        name = str(file.relative_to(package))
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "hint" and name not in PERSON_FILES:
                spoken += [(name, text) for text in _texts(_Untold().visit(node)) if SERVER_WORDS.search(text)]
    assert spoken == []


class _Untold(ast.NodeTransformer):
    """Drops what a hint tells a person."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return ast.Constant(0) if ast.unparse(node.func) == "tell_user" else node
