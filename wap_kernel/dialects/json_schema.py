"""JSON Schemas that model vendors accept, from the dialects' pydantic models.

References are put in place (some clients resolve none), OpenAPI's `discriminator` and generated titles go, and a field
that may be absent is just not required: "or null" would have models send nulls.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

Schema = dict[str, Any]


def of(model: type[BaseModel], mode: Literal["validation", "serialization"]) -> Schema:
    by_alias = model.model_config.get("serialize_by_alias", True)
    schema = model.model_json_schema(by_alias=by_alias, mode=mode)
    return _plain(schema, schema.pop("$defs", {}))


def _plain(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    if "$ref" in schema:
        return _plain({**definitions[schema["$ref"].rsplit("/", 1)[-1]], **_without(schema, "$ref")}, definitions)
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice != {"type": "null"}]
        if len(choices) == 1:
            return _plain({**choices[0], **_without(schema, "anyOf")}, definitions)
        schema = {**schema, "anyOf": choices}
    plain: Schema = {}
    for key, value in schema.items():
        if key in ("title", "discriminator") or (key == "default" and value is None):
            continue
        if key == "properties":
            plain[key] = {name: _plain(field, definitions) for name, field in value.items()}
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            plain[key] = [_plain(choice, definitions) for choice in value]
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            plain[key] = _plain(value, definitions)
        else:
            plain[key] = value
    return plain


def _without(schema: Schema, key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}
