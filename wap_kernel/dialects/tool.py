"""Describe a tool as data, and turn a request body into checked parameters or a clear error, for every tool dialect."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from wap_kernel.dialects import body_complexity
from wap_kernel.model.errors import InvalidArgument, NotFound
from wap_kernel.model.limits import MAX_JSON_FIELDS, MAX_REPORTED_PROBLEMS
from wap_kernel.model.operations import Effect, Operation
from wap_kernel.model.tool_names import is_opened

LARGE_BODY_BYTES = 64 * 1024
"""Size above which a body is not parsed on the event loop."""
_MAX_NAME = 100
_MAX_MESSAGE = 500


def _convert_whole_float(sent: object) -> object:
    return int(sent) if isinstance(sent, float) and sent.is_integer() else sent


INTEGER = BeforeValidator(_convert_whole_float)
"""Validator of an `int` that also takes 3.0 for 3, but not 3.5, "3" or true: protocols in TypeScript say "number"."""


class Parameters(BaseModel):
    """The parameters of a tool. Unknown fields and wrong types are errors; null means that a field is absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, sent: object) -> object:
        if not isinstance(sent, dict):
            return sent
        if len(sent) > MAX_JSON_FIELDS:
            raise PydanticCustomError(
                "too_many_fields", "An object has more than {limit} fields.", {"limit": MAX_JSON_FIELDS}
            )
        # Models that have to fill in every field send null for those that they do not need.
        return {name: value for name, value in sent.items() if value is not None}

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        """Return the engine's operation, with parsed paths."""
        raise NotImplementedError


P = TypeVar("P", bound=Parameters)
T = TypeVar("T")


@dataclass(frozen=True)
class Tool(Generic[P]):
    """One tool of a dialect: its description for models, its parameters, its response."""

    name: str
    title: str
    description: str
    effect: Effect
    parameters: type[P]
    response: type[BaseModel]
    destructive: bool = False
    idempotent: bool = False
    effects: tuple[Effect, ...] = ()
    """Effects that the tool may have, the least first, if that depends on the request."""

    @property
    def least_effect(self) -> Effect:
        """Return the effect that the caller must be allowed before the request is read."""
        return self.effects[0] if self.effects else self.effect

    def is_opened_by(self, names: frozenset[str] | None) -> bool:
        """Return whether an agent token that names these tools opens this one; None stands for all tools."""
        return is_opened(self.name, names)

    def parse(self, body: bytes) -> P:
        if len(body) > LARGE_BODY_BYTES:
            body_complexity.check_complexity(body)
        try:
            return self.parameters.model_validate_json(body or b"{}")
        except ValidationError as error:
            raise describe_validation_error(error, self.parameters) from None


def require_tool(tools: Mapping[str, T], name: str) -> T:
    """Return the tool of that name among a dialect's tools; raise NotFound if there is none."""
    tool = tools.get(name)
    if tool is None:
        raise NotFound(f"There is no tool named {name!r}.", hint=f"Tools: {', '.join(tools)}.")
    return tool


def describe_validation_error(error: ValidationError, model: type[BaseModel]) -> InvalidArgument:
    """Return an error with one sentence about the first problem, and the first few problems as details."""
    items = error.errors(include_url=False, include_context=False, include_input=False)
    problems = [_describe_problem(item, model) for item in items[:MAX_REPORTED_PROBLEMS]]
    first = problems[0]
    more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
    text = f"{first['field']}: {first['message']}{more}" if first["field"] else f"{first['message']}{more}"
    return InvalidArgument(text, problems=problems)


def _describe_problem(item: Any, model: type[BaseModel]) -> dict[str, str]:
    field = ".".join(_truncate(str(part), _MAX_NAME) for part in item["loc"])
    message = _truncate(str(item["msg"]), _MAX_MESSAGE)  # quotes the caller now and then
    if item["type"] == "extra_forbidden":
        near = _suggest_field(field, model) if len(item["loc"]) == 1 else None
        message = "Unknown field." + (f" Did you mean {near}?" if near else "")
    elif item["type"] == "missing":
        message = "This field is required."
    elif item["type"] == "json_invalid":
        message = f"The body is not valid JSON: {message.removeprefix('Invalid JSON: ')}"
    return {"field": field, "message": message}


def _suggest_field(field: str, model: type[BaseModel]) -> str | None:
    """Return a field with a similar name, or with this name one level down: models often leave out a level."""
    known = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    for name, kind in known.items():
        inner = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}
        if any(field == (info.alias or below) for below, info in inner.items()):
            return f"{name}.{field}"
    return next(iter(difflib.get_close_matches(field, known, 1)), None)


def _truncate(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
