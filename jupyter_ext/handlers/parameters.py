"""What stands in a request's query: one value of a name, checked, or an error that says what would be right."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tornado.httputil import HTTPServerRequest

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_WAIT_SECONDS

_NUMBER = re.compile(r"\d{1,10}(\.\d{1,20})?([eE][+-]?\d{1,2})?", re.ASCII)


def text(request: HTTPServerRequest, name: str) -> str | None:
    """The last one counts, as in Jupyter."""
    values = request.query_arguments.get(name)
    return values[-1].decode("utf-8", "replace") if values else None


def whole(request: HTTPServerRequest, name: str, default: int, least: int, most: int) -> int:
    value = text(request, name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) <= len(str(most)) and least <= int(value) <= most):
        raise InvalidArgument(f"{name}: It must be a whole number from {least} to {most}.")
    return int(value)


def seconds(request: HTTPServerRequest, name: str, default: float) -> float:
    value = text(request, name)
    if value is None:
        return default
    if not _NUMBER.fullmatch(value) or float(value) > MAX_WAIT_SECONDS:
        raise InvalidArgument(f"{name}: It must be a number of seconds from 0 to {MAX_WAIT_SECONDS}.")
    return float(value)


def choice(request: HTTPServerRequest, name: str, known: Sequence[str]) -> str | None:
    value = text(request, name)
    if value is not None and value not in known:
        raise InvalidArgument(f"Unknown {name}.", hint=f"Known are: {', '.join(known)}.", known=list(known))
    return value
