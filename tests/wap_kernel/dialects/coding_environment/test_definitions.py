"""The tools as a model is told of them, and that what they take and answer is what that says."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.coding_environment import Coding
from wap_kernel.dialects import json_schema
from wap_kernel.dialects.coding_environment.tools import CATALOG, PROFILES, TOOLS, get_profile
from wap_kernel.dialects.mcp import tool_definitions
from wap_kernel.model.operations import Effect


def _objects(schema: Any) -> list[dict[str, Any]]:
    """Every schema of an object with named fields."""
    found = []
    if isinstance(schema, dict):
        found = [schema] if "properties" in schema and isinstance(schema["properties"], dict) else []
        return found + [one for value in schema.values() for one in _objects(value)]
    return [one for value in schema for one in _objects(value)] if isinstance(schema, list) else []


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_schemas_are_closed_and_stand_on_their_own(tool: Any) -> None:
    for schema in (
        json_schema.build_schema(tool.parameters, "validation"),
        json_schema.build_schema(tool.response, "serialization"),
    ):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert all(one["additionalProperties"] is False for one in _objects(schema))
        text = json.dumps(schema)
        assert not any(f'"{word}"' in text for word in ("$ref", "$defs", "null", "discriminator"))


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_description_says_when_not_to_use_it_and_has_an_example_that_fits(tool: Any) -> None:
    assert re.search(r"\bNot |says nothing about", tool.description)
    example = json.loads(tool.description.partition("Example: ")[2])
    jsonschema.validate(example, json_schema.build_schema(tool.parameters, "validation"))
    tool.parse(json.dumps(example).encode())
    for schema in _objects(json_schema.build_schema(tool.parameters, "validation")):
        undescribed = [name for name, field in schema["properties"].items() if not _is_described(field)]
        assert tool.name == "runOperations" or undescribed == []


def _is_described(field: dict[str, Any]) -> bool:
    return "description" in field or "properties" in field


def test_the_definitions_of_all_tools_are_short() -> None:
    listed = tool_definitions.encode_list(tuple(TOOLS), False)
    assert len(listed) <= 12_000
    assert b"outputSchema" not in listed and b"outputSchema" in tool_definitions.encode_list(tuple(TOOLS), True)
    for tool in json.loads(listed)["tools"]:
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        example = json.loads(tool["description"].partition("Example: ")[2])
        jsonschema.validate(example, tool["inputSchema"])
        full = json_schema.build_schema(TOOLS[tool["name"]].parameters, "validation")
        assert tool["inputSchema"].get("required") == full.get("required")
        assert set(tool["inputSchema"].get("properties", {})) <= set(full["properties"])


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_names_tools_that_there_are(profile: str) -> None:
    names = get_profile(profile)
    assert names is not None and names <= set(TOOLS) and "readFile" in names
    if profile == "read":
        assert {TOOLS[name].effect for name in names} == {Effect.READ}


def test_the_catalog_comes_first_and_hints_are_true() -> None:
    assert CATALOG == ("readFile", "writeFile", "listFiles", "searchFiles", "runCommand") == tuple(TOOLS)[:5]
    for tool in TOOLS.values():
        assert not (tool.effect is Effect.READ and tool.destructive)
        assert tool.effect is not Effect.READ or tool.idempotent


DEFAULTS = [
    ("listFiles", "recursive", False),
    ("listFiles", "maxEntries", 10_000),
    ("searchFiles", "regex", False),
    ("searchFiles", "caseSensitive", False),
    ("searchFiles", "maxResults", 1000),
    ("writeFile", "atomic", True),
    ("writeFile", "createIfMissing", True),
    ("runCommand", "timeout", 300),
]


@pytest.mark.parametrize(("tool", "option", "default"), DEFAULTS)
def test_defaults_are_those_of_the_catalog(tool: str, option: str, default: object) -> None:
    schema = json_schema.build_schema(TOOLS[tool].parameters, "validation")
    assert schema["properties"]["options"]["properties"][option]["default"] == default
    assert schema["properties"]["workspaceRoot"]["default"] == "."


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
_PATHS = st.sampled_from([".", "a.txt", "sub", "sub/b.py", "..", "/etc", "no", "sub/..", "link", "a.txt/x"]) | st.text()
_FIELDS = {
    "path": _PATHS,
    "workspaceRoot": _PATHS,
    "query": st.text(max_size=5) | st.sampled_from(["x", "(", "a|b"]),
    "pattern": st.text(max_size=5) | st.sampled_from(["**", "*.py", "["]),
    "contents": st.text(max_size=20),
    "oldText": st.text(max_size=3),
    "newText": st.text(max_size=3),
    "options": st.dictionaries(
        st.sampled_from(["recursive", "globs", "maxEntries", "regex", "caseSensitive", "maxResults", "atomic"]),
        st.booleans() | st.integers(-1, 5) | st.lists(st.sampled_from(["*", "**/*.py", "["]), max_size=2),
        max_size=2,
    ),
}
_ARGUMENTS = st.fixed_dictionaries({}, optional=_FIELDS) | st.dictionaries(st.text(max_size=10), _JSON, max_size=3)
_TRIED = [name for name in TOOLS if name not in ("runCommand", "runOperations")]


def test_whatever_is_sent_the_answer_or_the_error_is_as_described(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    coding = Coding(root, tmp_path / "state")
    loop = asyncio.new_event_loop()

    async def send(name: str, arguments: dict[str, Any]) -> None:
        (root / "a.txt").write_text("x\nab\n") if not (root / "a.txt").is_dir() else None
        outcome = await coding.outcome(name, arguments)
        outcome.text.encode("utf-8")
        assert json.loads(outcome.text) == outcome.structured == json.loads(outcome.result)["structuredContent"]
        if outcome.error is None:
            jsonschema.validate(outcome.structured, json_schema.build_schema(TOOLS[name].response, "serialization"))
        else:
            assert outcome.error.data["code"] != "INTERNAL_ERROR", outcome.text

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(name=st.sampled_from(_TRIED), arguments=_ARGUMENTS)
    def tried(name: str, arguments: dict[str, Any]) -> None:
        loop.run_until_complete(send(name, arguments))

    opened = coding.opened()
    loop.run_until_complete(opened.__aenter__())
    try:
        tried()
    finally:
        loop.run_until_complete(opened.__aexit__(None, None, None))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
