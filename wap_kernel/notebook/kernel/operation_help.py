"""Describe the operations of a batch for people who write one."""

from __future__ import annotations

from typing import Any, get_args

SUMMARIES = {
    "message": "Write a message among the events of the run.",
    "createFile": "Create a file, with the folders above it.",
    "readFile": "Read a file.",
    "editFile": "Replace texts in a file, all of them or none.",
    "deleteFile": "Delete a file.",
    "shell": "Run a command line.",
}


def names() -> list[str]:
    return list(SUMMARIES)


def describe_operation(name: str) -> str:
    """Return what an operation does and its fields: which are required, and the defaults of the others."""
    schema = _models()[name].model_json_schema(by_alias=True)
    required = schema.get("required", [])
    fields = {field: known for field, known in schema["properties"].items() if field != "type"}
    width = max(len(field) for field in fields)
    rows = [f"  {field:{width}}  {_describe_field(known, field in required)}" for field, known in fields.items()]
    return "\n".join([f"{name}: {SUMMARIES[name]}", "", *sorted(rows, key=lambda row: "required" not in row)])


def _describe_field(known: dict[str, Any], is_required: bool) -> str:
    kinds = [_kind_name(choice) for choice in known.get("anyOf", [known])]
    kind = " or ".join(one for one in kinds if one != "null")
    default = known.get("default")
    return f"{kind}, required" if is_required else kind if default is None else f"{kind} (default: {default})"


def _kind_name(known: dict[str, Any]) -> str:
    if "enum" in known:
        return " or ".join(known["enum"])
    kind = str(known.get("type", "value"))
    return _WORDS.get(kind, kind)


def _models() -> dict[str, Any]:
    from wap_kernel.dialects.agent_spaces.operations import AnyOperation  # with pydantic

    models = get_args(get_args(AnyOperation)[0])
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in models}


_WORDS = {"string": "text", "integer": "number", "boolean": "true or false", "array": "list"}
