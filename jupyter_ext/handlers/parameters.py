"""Parse the query parameters and the JSON bodies of requests; an error says what would be right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from pydantic import ValidationError
from tornado.httputil import HTTPServerRequest

from wap_kernel.dialects.tool import LARGE_BODY_BYTES, Parameters, describe_validation_error
from wap_kernel.model.errors import InvalidArgument, TooLarge
from wap_kernel.model.limits import MAX_WAIT_SECONDS

P = TypeVar("P", bound=Parameters)

_NUMBER = re.compile(r"\d{1,10}(\.\d{1,20})?([eE][+-]?\d{1,2})?", re.ASCII)


def get_text(request: HTTPServerRequest, name: str) -> str | None:
    """Return the query parameter `name`; the last value counts, as in Jupyter."""
    values = request.query_arguments.get(name)
    return values[-1].decode("utf-8", "replace") if values else None


def get_integer(request: HTTPServerRequest, name: str, default: int, least: int, most: int) -> int:
    """Return the query parameter `name` as a number from `least` to `most`."""
    value = get_text(request, name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) <= len(str(most)) and least <= int(value) <= most):
        raise InvalidArgument(f"{name}: The value must be a whole number from {least} to {most}.")
    return int(value)


def get_seconds(request: HTTPServerRequest, name: str, default: float) -> float:
    """Return the query parameter `name` as seconds to wait."""
    value = get_text(request, name)
    if value is None:
        return default
    if not _NUMBER.fullmatch(value) or float(value) > MAX_WAIT_SECONDS:
        raise InvalidArgument(f"{name}: The value must be a number of seconds from 0 to {MAX_WAIT_SECONDS}.")
    return float(value)


def get_choice(request: HTTPServerRequest, name: str, known: Sequence[str]) -> str | None:
    """Return the query parameter `name`, one of `known`."""
    value = get_text(request, name)
    if value is not None and value not in known:
        raise InvalidArgument(f"Unknown {name}.", hint=f"Choose one of: {', '.join(known)}.", known=list(known))
    return value


def parse_body(model: type[P], body: bytes, size_hint: str = "Write less.") -> P:
    """Parse a small JSON body as `model`; an empty body is an empty object."""
    if len(body) > LARGE_BODY_BYTES:
        raise TooLarge(f"The request's body is over {LARGE_BODY_BYTES} bytes.", hint=size_hint, limit=LARGE_BODY_BYTES)
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise describe_validation_error(error, model) from None
