"""What every tool dialect shares: a tool as data, and how a request body becomes a checked model or a clear error."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from wap_kernel.errors import InvalidArgument
from wap_kernel.operations import Effect, Operation


class Parameters(BaseModel):
    """What a caller sends. Unknown fields and wrong types are errors, not guesses; null means that it is absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, sent: object) -> object:
        # Models that are told to fill in every field send null for what they do not mean.
        return {name: value for name, value in sent.items() if value is not None} if isinstance(sent, dict) else sent

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        """The engine's operation; paths are parsed here."""
        raise NotImplementedError


P = TypeVar("P", bound=Parameters)


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

    def parse(self, body: bytes) -> P:
        try:
            return self.parameters.model_validate_json(body or b"{}")
        except ValidationError as error:
            raise invalid(error, self.parameters) from None


def invalid(error: ValidationError, model: type[BaseModel]) -> InvalidArgument:
    """One sentence about the first problem, and all of them as details."""
    problems = [_problem(item, model) for item in error.errors(include_url=False, include_context=False)]
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    text = f"{first['field']}: {first['message']}{more}" if first["field"] else f"{first['message']}{more}"
    return InvalidArgument(text, problems=problems[:20])


def _problem(item: Any, model: type[BaseModel]) -> dict[str, str]:
    field = ".".join(str(part) for part in item["loc"])
    message = str(item["msg"])
    if item["type"] == "extra_forbidden":
        known = [info.alias or name for name, info in model.model_fields.items()] if len(item["loc"]) == 1 else []
        near = difflib.get_close_matches(str(item["loc"][-1]), known, 1)
        message = "Unknown field." + (f" Did you mean {near[0]}?" if near else "")
    elif item["type"] == "missing":
        message = "This field is required."
    elif item["type"] == "json_invalid":
        message = f"The body is not valid JSON: {message.removeprefix('Invalid JSON: ')}"
    return {"field": field, "message": message}
