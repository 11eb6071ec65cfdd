"""Build JSON Schemas that model vendors accept from the dialects' pydantic models.

References are inlined, because some clients resolve none. OpenAPI's `discriminator` and generated titles are removed. A
field that may be absent is just not required: with "or null" models would send nulls.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

Schema = dict[str, Any]


def build_schema(model: type[BaseModel], mode: Literal["validation", "serialization"]) -> Schema:
    by_alias = model.model_config.get("serialize_by_alias", True)
    schema = model.model_json_schema(by_alias=by_alias, mode=mode)
    return _simplify(schema, schema.pop("$defs", {}))


def _simplify(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    if "$ref" in schema:
        return _simplify({**definitions[schema["$ref"].rsplit("/", 1)[-1]], **_without(schema, "$ref")}, definitions)
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice != {"type": "null"}]
        if len(choices) == 1:
            return _simplify({**choices[0], **_without(schema, "anyOf")}, definitions)
        schema = {**schema, "anyOf": choices}
    simple: Schema = {}
    for key, value in schema.items():
        if key in ("title", "discriminator") or (key == "default" and value is None):
            continue
        if key == "properties":
            simple[key] = {name: _simplify(field, definitions) for name, field in value.items()}
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            simple[key] = [_simplify(choice, definitions) for choice in value]
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            simple[key] = _simplify(value, definitions)
        else:
            simple[key] = value
    return simple


def _without(schema: Schema, key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}
