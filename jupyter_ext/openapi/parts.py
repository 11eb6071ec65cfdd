"""What the descriptions of routes are put together from: answers with their errors, parameters, JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from wap_kernel.model.errors import Code

from ..handlers.errors import STATUS
from ..schemas import Schema

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
    done = {"description": "Done."}
    return {success: done if answer is None else {**done, "content": json(answer)}, **errors(codes)}


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


def listed(name: str, item: Schema) -> Schema:
    """A page of a list."""
    properties = {name: {"type": "array", "items": item}, "nextCursor": {"type": "string"}}
    return {"type": "object", "properties": properties, "required": [name], "additionalProperties": False}


def page(default: int, largest: int) -> list[dict[str, Any]]:
    """The parameters that lists have."""
    limit = {"type": "integer", "minimum": 1, "maximum": largest, "default": default}
    return [
        query("limit", limit, "How many at most."),
        query("cursor", {"type": "string"}, "nextCursor of the page before."),
    ]


def choice(name: str, known: Sequence[str], description: str) -> dict[str, Any]:
    """The first is the default."""
    return query(name, {"type": "string", "enum": list(known), "default": known[0]}, description)


def query(name: str, schema: Schema, description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def header(name: str, schema: Schema, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
