"""What every tool dialect shares: a tool as data, and how a request body becomes a checked model or a clear error."""

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

LARGE = 64 * 1024
"""From this size on a body is not read on the event loop."""
_MAX_NAME = 100
_MAX_MESSAGE = 500


def _whole(sent: object) -> object:
    return int(sent) if isinstance(sent, float) and sent.is_integer() else sent


INTEGER = BeforeValidator(_whole)
"""For an `int`: protocols in TypeScript say "number", and a model may well write 3.0 for 3. Not 3.5, "3" or true."""


class Parameters(BaseModel):
    """What a caller sends. Unknown fields and wrong types are errors, not guesses; null means that it is absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, sent: object) -> object:
        if not isinstance(sent, dict):
            return sent
        if len(sent) > MAX_JSON_FIELDS:
            raise PydanticCustomError("too_many_fields", "More than {limit} fields.", {"limit": MAX_JSON_FIELDS})
        # Models that are told to fill in every field send null for what they do not mean.
        return {name: value for name, value in sent.items() if value is not None}

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        """The engine's operation; paths are parsed here."""
        raise NotImplementedError


P = TypeVar("P", bound=Parameters)
T = TypeVar("T")


@dataclass(frozen=True)
class Tool(Generic[P]):
    """One tool of a dialect: what a model is told about it, what it takes, what it answers."""

    name: str
    title: str
    description: str
    effect: Effect
    parameters: type[P]
    response: type[BaseModel]
    destructive: bool = False
    idempotent: bool = False
    effects: tuple[Effect, ...] = ()
    """Where it depends on the request: all that it may have, the least first."""

    @property
    def least_effect(self) -> Effect:
        """What whoever calls it must be allowed before anything of the request is read."""
        return self.effects[0] if self.effects else self.effect

    def is_opened_by(self, names: frozenset[str] | None) -> bool:
        """Whether an agent token that names these tools opens this one; None stands for all tools."""
        return is_opened(self.name, names)

    def parse(self, body: bytes) -> P:
        if len(body) > LARGE:
            body_complexity.check(body)
        try:
            return self.parameters.model_validate_json(body or b"{}")
        except ValidationError as error:
            raise invalid(error, self.parameters) from None


def known(tools: Mapping[str, T], name: str) -> T:
    """The tool of that name among a dialect's."""
    found = tools.get(name)
    if found is None:
        raise NotFound(f"There is no tool named {name!r}.", hint=f"Tools: {', '.join(tools)}.")
    return found


def invalid(error: ValidationError, model: type[BaseModel]) -> InvalidArgument:
    """One sentence about the first problem, and the first few as details."""
    items = error.errors(include_url=False, include_context=False, include_input=False)
    problems = [_problem(item, model) for item in items[:MAX_REPORTED_PROBLEMS]]
    first = problems[0]
    more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
    text = f"{first['field']}: {first['message']}{more}" if first["field"] else f"{first['message']}{more}"
    return InvalidArgument(text, problems=problems)


def _problem(item: Any, model: type[BaseModel]) -> dict[str, str]:
    field = ".".join(_cut(str(part), _MAX_NAME) for part in item["loc"])
    message = _cut(str(item["msg"]), _MAX_MESSAGE)  # quotes the caller now and then
    if item["type"] == "extra_forbidden":
        near = _nearest(field, model) if len(item["loc"]) == 1 else None
        message = "Unknown field." + (f" Did you mean {near}?" if near else "")
    elif item["type"] == "missing":
        message = "This field is required."
    elif item["type"] == "json_invalid":
        message = f"The body is not valid JSON: {message.removeprefix('Invalid JSON: ')}"
    return {"field": field, "message": message}


def _nearest(field: str, model: type[BaseModel]) -> str | None:
    """A field of nearly this name, or of this name one level further down: models often leave out a level."""
    known = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    for name, kind in known.items():
        inner = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}
        if any(field == (info.alias or below) for below, info in inner.items()):
            return f"{name}.{field}"
    return next(iter(difflib.get_close_matches(field, known, 1)), None)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
