"""The tools as models and programs are told of them: complete, valid, and the same as what the server does."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from jupyter_ext import openapi
from jupyter_ext.handlers.base import NotFoundHandler
from jupyter_ext.handlers.errors import STATUS
from jupyter_ext.handlers.routes import ROUTES
from wap_kernel.dialects import json_schema
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.operations import Effect

TOOLS = list(wap.TOOLS.values())
MCP = "/wap/mcp"
"""Its errors are JSON-RPC's."""


def _keywords(schema: Any) -> set[str]:
    """Every key of every object in a schema."""
    if isinstance(schema, dict):
        return set(schema).union(*(_keywords(value) for value in schema.values()))
    if isinstance(schema, list):
        return set().union(*(_keywords(value) for value in schema))
    return set()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_stand_on_their_own(tool: Any) -> None:
    for schema in (
        json_schema.build_schema(tool.parameters, "validation"),
        json_schema.build_schema(tool.response, "serialization"),
    ):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not _keywords(schema) & {"$ref", "$defs", "discriminator", "title"}
        assert '"null"' not in json.dumps(schema)


def test_a_schema_keeps_what_the_model_checks() -> None:
    schema = json_schema.build_schema(wap.TOOLS["modifyFile"].parameters, "validation")
    validator = jsonschema.Draft202012Validator(schema)
    change = {"type": "replace", "startLine": 1, "endLine": 2, "newContent": "x"}
    validator.validate({"path": "a", "operations": [change]})
    for wrong in ({**change, "startLine": 0}, {**change, "type": "paint"}, {**change, "colour": "red"}):
        assert not validator.is_valid({"path": "a", "operations": [wrong]})


async def test_mcp_is_the_default_format(jp_fetch: Any, fetch: Any) -> None:
    default = await jp_fetch("wap/tools")
    named = await jp_fetch("wap/tools", params={"format": "mcp", "dialect": "wap"})
    assert default.body == named.body
    tools = json.loads(default.body)["tools"]
    assert [tool["name"] for tool in tools] == list(wap.TOOLS)
    for tool in tools:
        assert set(tool) == {"name", "title", "description", "inputSchema", "outputSchema", "annotations"}
        hints = tool["annotations"]
        assert set(hints) == {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        effect = wap.TOOLS[tool["name"]].effect
        assert hints["readOnlyHint"] == (effect is Effect.READ)
        assert hints["openWorldHint"] == (effect is Effect.EXECUTE)
        assert not (hints["readOnlyHint"] and hints["destructiveHint"])


async def test_openai_and_anthropic_formats(fetch: Any) -> None:
    openai = (await fetch("wap/tools", params={"format": "openai"})).body["tools"]
    assert all(set(tool) == {"type", "function"} and tool["type"] == "function" for tool in openai)
    assert all(set(tool["function"]) == {"name", "description", "parameters"} for tool in openai)
    anthropic = (await fetch("wap/tools", params={"format": "anthropic"})).body["tools"]
    assert all(set(tool) == {"name", "description", "input_schema"} for tool in anthropic)
    assert [tool["function"]["parameters"] for tool in openai] == [tool["input_schema"] for tool in anthropic]


@pytest.mark.parametrize(
    ("params", "known"),
    [
        ({"format": "yaml"}, ["mcp", "openai", "anthropic"]),
        ({"dialect": "klingon"}, ["wap", "coding_environment", "tool_interface"]),
    ],
)
async def test_an_unknown_choice_lists_the_known_ones(fetch: Any, params: dict[str, str], known: list[str]) -> None:
    answer = await fetch("wap/tools", params=params)
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")
    assert answer.body["details"]["known"] == known
    assert all(name in answer.body["error"] for name in known)


def test_the_openapi_document_and_the_route_table_agree() -> None:
    document = json.loads(openapi.build_document("/"))
    served = [(pattern, handler) for pattern, handler in ROUTES if handler is not NotFoundHandler]
    used = set()
    for path, item in document["paths"].items():
        pattern, handler = next((pattern, handler) for pattern, handler in ROUTES if re.fullmatch(pattern, path))
        assert {method.upper() for method in item} == set(handler.allowed) - {"HEAD"}, path
        used.add(pattern)
    assert used == {pattern for pattern, _ in served}
    assert set(openapi.ERRORS) == set(wap.TOOLS)


def test_every_error_is_documented_with_its_status() -> None:
    document = json.loads(openapi.build_document("/"))
    paths = document["paths"]
    assert paths.keys() > {MCP}
    for item in (paths[path] for path in paths if path != MCP):
        for operation in item.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    codes = response["content"]["application/json"]["schema"]["properties"]["code"]["enum"]
                    assert {STATUS[code] for code in codes} == {int(status)}


def test_what_can_happen_to_every_tool_is_documented_for_every_tool() -> None:
    document = json.loads(openapi.build_document("/"))
    for name in wap.TOOLS:
        responses = document["paths"][f"/wap/api/{name}"]["post"]["responses"]
        codes = {code for response in responses.values() for code in response["description"].split(", ")}
        assert codes >= {"CONFLICT", "NO_SPACE"}, name


@pytest.mark.parametrize(("base_url", "url"), [("/", "/"), ("/a%40b/", "/a%40b"), ("/user/me/", "/user/me")])
def test_the_document_names_the_base_url(base_url: str, url: str) -> None:
    assert json.loads(openapi.build_document(base_url))["servers"] == [{"url": url}]


def test_every_call_of_a_tool_can_wait_for_a_person() -> None:
    paths = json.loads(openapi.build_document("/"))["paths"]
    calls = [*(f"/wap/api/{name}" for name in wap.TOOLS), *(f"/wap/workspace/{name}" for name in interface_tools.TOOLS)]
    for path in calls:
        assert "wait" in [parameter.get("name") for parameter in paths[path]["post"]["parameters"]], path


async def test_the_document_over_http(fetch: Any, jp_base_url: str) -> None:
    answer = await fetch("wap/openapi.json")
    assert answer.body["openapi"] == "3.1.0"
    assert answer.body["servers"][0]["url"] == jp_base_url.rstrip("/")
    assert answer.body["security"]
