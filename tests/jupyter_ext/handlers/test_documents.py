"""The tools as models and programs are told of them: complete, valid, and the same as what the server does."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jupyter_ext import openapi, tool_definitions
from jupyter_ext.handlers.base import NotFoundHandler
from jupyter_ext.handlers.errors import STATUS
from jupyter_ext.handlers.routes import ROUTES
from tests.support.agent_tokens import bearer, mint
from tests.support.program_cache import install_npm_lock
from wap_kernel.dialects import json_schema
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.operations import Effect

TOOLS = list(wap.TOOLS.values())
PROJECT = Path(__file__).parents[3]
LINTERS = PROJECT / "tests" / "support" / "openapi_linters"
MESSAGE = {"type": "message", "content": "hello"}
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
    assert [tool["name"] for tool in tools] == [*wap.TOOLS, "runOperations"]
    for tool in tools[:-1]:
        assert set(tool) == {"name", "title", "description", "inputSchema", "outputSchema", "annotations"}
        hints = tool["annotations"]
        assert set(hints) == {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        effect = wap.TOOLS[tool["name"]].effect
        assert hints["readOnlyHint"] == (effect is Effect.READ)
        assert hints["openWorldHint"] == (effect is Effect.EXECUTE)
        assert not (hints["readOnlyHint"] and hints["destructiveHint"])


async def test_the_formats_of_openai_and_anthropic(fetch: Any) -> None:
    openai = (await fetch("wap/tools", params={"format": "openai"})).body["tools"]
    assert all(set(tool) == {"type", "function"} and tool["type"] == "function" for tool in openai)
    assert all(set(tool["function"]) == {"name", "description", "parameters"} for tool in openai)
    anthropic = (await fetch("wap/tools", params={"format": "anthropic"})).body["tools"]
    assert all(set(tool) == {"name", "description", "input_schema"} for tool in anthropic)
    assert [tool["function"]["parameters"] for tool in openai] == [tool["input_schema"] for tool in anthropic]
    responses = (await fetch("wap/tools", params={"format": "openai-responses"})).body["tools"]
    assert responses == [{"type": "function", **tool["function"], "strict": False} for tool in openai]


@pytest.mark.parametrize("chosen", tool_definitions.FORMATS)
@pytest.mark.parametrize("dialect", ["wap", "coding_environment", "agent_spaces"])
async def test_a_batch_is_a_tool_in_every_format(fetch: Any, dialect: str, chosen: str) -> None:
    tools = (await fetch("wap/tools", params={"format": chosen, "dialect": dialect})).body["tools"]
    (batch,) = (one for one in (tool.get("function", tool) for tool in tools) if one["name"] == "runOperations")
    assert dialect != "agent_spaces" or len(tools) == 1
    schema = batch.get("inputSchema") or batch.get("input_schema") or batch["parameters"]
    jsonschema.Draft202012Validator(schema).validate({"protocolVersion": "1.0", "operations": [MESSAGE]})


@pytest.mark.parametrize("route", ["wap/api/runOperations", "wap/runs"])
async def test_a_call_of_the_batch_is_the_body_of_a_request(fetch: Any, jp_root_dir: Path, route: str) -> None:
    (tool,) = (await fetch("wap/tools", params={"dialect": "agent_spaces"})).body["tools"]
    (example,) = re.findall(r"Example: (\{.*\})$", tool["description"])
    jsonschema.Draft202012Validator(tool["inputSchema"]).validate(json.loads(example))
    answer = await fetch(route, method="POST", body=example, params={"wait": 60})
    assert (answer.status, answer.body["status"]) == (201, "completed")
    jsonschema.Draft202012Validator(tool["outputSchema"]).validate(answer.body)
    assert (jp_root_dir / "a.py").read_text() == "x = 1\n"


async def test_a_token_opens_a_batch_by_any_of_its_operations(fetch: Any) -> None:
    for tools, listed in ((["readFile"], ["readFile", "runOperations"]), (["exploreFiles"], ["exploreFiles"])):
        token = await mint(fetch, tools=tools)
        answer = await fetch("wap/tools", headers=bearer(token))
        assert [tool["name"] for tool in answer.body["tools"]] == listed


@pytest.mark.parametrize(
    ("params", "known"),
    [
        ({"format": "yaml"}, ["mcp", "openai", "openai-responses", "anthropic"]),
        ({"dialect": "klingon"}, ["wap", "coding_environment", "tool_interface", "agent_spaces"]),
    ],
)
async def test_an_unknown_choice_lists_the_known_ones(fetch: Any, params: dict[str, str], known: list[str]) -> None:
    answer = await fetch("wap/tools", params=params)
    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")
    assert answer.body["details"]["known"] == known
    assert all(name in answer.body["error"] for name in known)


KEYWORDS = {
    *jsonschema.Draft202012Validator.VALIDATORS,
    *("$ref", "description", "default", "deprecated", "format", "examples"),
}


def _schemas(part: Any) -> Iterator[dict[str, Any]]:
    """Every schema below a part of the document, without those inside another."""
    if isinstance(part, dict):
        for key, value in part.items():
            yield from [value] if key == "schema" else _schemas(value)
    elif isinstance(part, list):
        for value in part:
            yield from _schemas(value)


def _subschemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    below = [*schema.get("properties", {}).values()]
    below += [each for key in ("anyOf", "oneOf", "allOf", "prefixItems") for each in schema.get(key, ())]
    below += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    for each in below:
        yield from _subschemas(each)


def test_every_schema_uses_the_keywords_of_json_schema() -> None:
    document = json.loads(openapi.build_document("/"))
    whole = [*_schemas(document), *document["components"]["schemas"].values()]
    for schema in {json.dumps(schema): schema for schema in whole}.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for schema in itertools.chain(*map(_subschemas, whole)):
        assert schema.keys() <= KEYWORDS, schema
        assert "items" in schema or "prefixItems" in schema or schema.get("type") != "array", schema
        if "properties" in schema:
            assert {*schema.get("required", ())} <= schema["properties"].keys(), schema


def test_the_document_follows_the_meta_schema_of_openapi() -> None:
    definitions = importlib.import_module("schemathesis.specs.openapi.definitions")  # slow to import
    problems = definitions.OPENAPI_31_VALIDATOR.iter_errors(json.loads(openapi.build_document("/")))
    assert [str(problem) for problem in problems] == []


@pytest.mark.download
def test_the_linters_of_openapi_find_nothing(tmp_path: Path) -> None:
    programs = install_npm_lock("openapi-linters", LINTERS)
    (tmp_path / "openapi.json").write_bytes(openapi.build_document("/base/"))
    (tmp_path / "spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    quiet = {**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    for command in (
        ["redocly", "lint", "--max-problems", "1000", "openapi.json"],
        ["spectral", "lint", "--ruleset", "spectral.yaml", "--fail-severity", "warn", "openapi.json"],
    ):
        done = subprocess.run(
            [str(programs / command[0]), *command[1:]],
            cwd=tmp_path,
            env=quiet,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_route_has_one_known_tag_and_a_name_of_its_own() -> None:
    document = json.loads(openapi.build_document("/"))
    routes = [route for item in document["paths"].values() for route in item.values()]
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    assert all(tags.values()) and {tag for route in routes for tag in route["tags"]} == tags.keys()
    assert {len(route["tags"]) for route in routes} == {1}
    assert len({route["operationId"] for route in routes}) == len(routes)


def test_the_document_names_the_license() -> None:
    (project,) = re.findall(r'^license = "(.+)"$', (PROJECT / "pyproject.toml").read_text(), re.MULTILINE)
    assert json.loads(openapi.build_document("/"))["info"]["license"]["identifier"] == project


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
