"""JSON schemas of tools, each built and checked once, to compare calls and answers with."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import jsonschema

from wap_kernel.dialects import json_schema

Mode = Literal["validation", "serialization"]


@cache
def find_validator(model: Any, mode: Mode) -> jsonschema.Draft202012Validator:
    """Return the validator of the schema that `model` is documented with."""
    schema = json_schema.build_schema(model, mode)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def check_call(tool: Any, fields: Any, answer: Any) -> None:
    """Compare what was sent to a tool, and its answer, with the tool's schemas."""
    find_validator(tool.parameters, "validation").validate(fields)
    find_validator(tool.response, "serialization").validate(answer)
