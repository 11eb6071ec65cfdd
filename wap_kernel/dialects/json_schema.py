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


_LIMITS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum", "maxProperties", "pattern", "default"}
    | {"exclusiveMinimum"}
)
"""Keywords that a model needs not know: the error of a wrong value names the limit."""


def build_terse_schema(model: type[BaseModel]) -> Schema:
    """Build the schema of a tool's arguments with types and descriptions only, since models read it all the time.

    Fields that are accepted besides the usual way (`deprecated`) are left out.
    """
    return _shorten(build_schema(model, "validation"))


_UNDESCRIBED = frozenset(
    {
        # The server's instructions describe them once for all tools.
        *("path", "workspaceRoot", "expectedHash", "confirmed", "isolation"),
        # Their names say enough.
        *("source", "destination", "overwrite", "createIfMissing", "recursive", "maxEntries", "maxResults"),
        *("caseSensitive", "cwd", "env", "oldText", "newText", "replaceAll", "action", "message", "cellType", "stream"),
        *("offset", "limit", "cursor", "runId", "cellId", "cellIds", "includeOutputs", "query"),
    }
)
"""Fields without a description in a terse schema."""


def _shorten(schema: Schema) -> Schema:
    short: Schema = {}
    for key, value in schema.items():
        if key in _LIMITS or (key == "additionalProperties" and value is False):
            continue
        if key == "type" and ("enum" in schema or "const" in schema):
            continue
        if key == "description" and "properties" in schema:  # of the model, which the tool's own describes better
            continue
        if key == "properties":
            short[key] = {
                name: _without(_shorten(field), "description") if name in _UNDESCRIBED else _shorten(field)
                for name, field in value.items()
                if "deprecated" not in field
            }
        elif key == "oneOf":
            short.update(_merge_choices([_shorten(choice) for choice in value]))
        elif key in ("anyOf", "allOf", "prefixItems"):
            short[key] = [_shorten(choice) for choice in value]
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            short[key] = _shorten(value)
        else:
            short[key] = value
    return short


def _merge_choices(choices: list[Schema]) -> Schema:
    """Merge objects that a `type` tells apart into one object with the fields of all; the description tells which."""
    properties: Schema = {"type": {"enum": [choice["properties"]["type"]["const"] for choice in choices]}}
    for choice in choices:
        properties = {**choice["properties"], **properties}
    return {"type": "object", "properties": properties, "required": ["type"]}


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
