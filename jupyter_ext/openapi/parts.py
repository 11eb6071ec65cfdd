"""Parts of the descriptions of routes: responses with their errors, parameters, JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from wap_kernel.dialects import json_schema
from wap_kernel.dialects.json_schema import Schema
from wap_kernel.model.errors import Code

from ..handlers.errors import STATUS

Route = dict[str, Any]

ALWAYS = (
    Code.INVALID_ARGUMENT,
    Code.UNAUTHENTICATED,
    Code.PERMISSION_DENIED,
    Code.SIZE_LIMIT_EXCEEDED,
    Code.INTERNAL_ERROR,
    Code.PROVIDER_UNAVAILABLE,
)

ERROR = {
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "What happened and what to do next."},
        "code": {"type": "string", "enum": [code.value for code in STATUS]},
        "details": {"type": "object", "description": "Data for programs; depends on the code."},
    },
    "required": ["error", "code"],
    "additionalProperties": False,
}


def responses(answer: Schema | None, codes: Iterable[Code], success: str = "200") -> dict[str, Any]:
    content = {} if answer is None else {"content": json(answer)}
    return {success: {"description": "Done.", **content}, **errors(codes)}


def errors(codes: Iterable[Code]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(STATUS[code], []).append(code.value)
    return {str(status): _error(names) for status, names in sorted(by_status.items())}


def _error(names: Sequence[str]) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error", "properties": {"code": {"enum": names}}}
    return {"description": ", ".join(names), "content": json(schema)}


def json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a body; null stands for an absent field, as in every request here."""
    schema = json_schema.build_schema(model, "validation")
    return {"required": bool(schema.get("required")), "content": json(_allow_nulls(schema))}


def _allow_nulls(schema: Schema) -> Schema:
    """Allow null for every optional property. Schemas for models do not: models would send nulls."""
    allowed = dict(schema)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            allowed[key] = [_allow_nulls(choice) for choice in schema[key]]
    if isinstance(schema.get("items"), dict):
        allowed["items"] = _allow_nulls(schema["items"])
    if "properties" in schema:
        allowed["properties"] = {
            name: _allow_nulls(part) if name in schema.get("required", ()) else _or_null(_allow_nulls(part))
            for name, part in schema["properties"].items()
        }
    return allowed


def _or_null(schema: Schema) -> Schema:
    outside: Schema = {key: schema[key] for key in ("description", "default") if key in schema}
    inside = {key: value for key, value in schema.items() if key not in outside}
    return {"anyOf": [inside, {"type": "null"}], **outside}


def page_of(name: str, item: Schema) -> Schema:
    """Return the schema of one page of a list."""
    properties = {name: {"type": "array", "items": item}, "nextCursor": {"type": "string"}}
    return {"type": "object", "properties": properties, "required": [name], "additionalProperties": False}


def page_parameters(default: int, largest: int) -> list[dict[str, Any]]:
    """Return the query parameters of a list."""
    limit = {"type": "integer", "minimum": 1, "maximum": largest, "default": default}
    return [
        query("limit", limit, "Items at most."),
        query("cursor", {"type": "string"}, "The nextCursor of the previous page."),
    ]


def choice(name: str, known: Sequence[str], description: str) -> dict[str, Any]:
    """Return a query parameter with the values `known`; the first is the default."""
    return query(name, {"type": "string", "enum": list(known), "default": known[0]}, description)


def query(name: str, schema: Schema, description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def header(name: str, schema: Schema, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
