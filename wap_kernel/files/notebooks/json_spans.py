"""Find the positions of values in a JSON text, so that one can be replaced without changing the rest. Pure.

All functions raise ValueError for text that is not the expected JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Span = tuple[int, int]
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def iterate_members(text: str) -> Iterator[tuple[str, Span]]:
    """Yield the names in the JSON object `text`, each with the span of its value."""
    position = _after(text, _skip(text, 0), "{")
    while not text.startswith("}", position):
        name, position = _DECODER.raw_decode(text, position)
        position = _after(text, _skip(text, position), ":")
        _, end = _DECODER.raw_decode(text, position)
        yield str(name), (position, end)
        position = _next(text, end, "}")
    if _skip(text, position + 1) != len(text):
        raise ValueError("something follows")


def iterate_elements(text: str, start: int) -> Iterator[tuple[Any, Span]]:
    """Yield the elements of the array that begins at `start`, each with its span."""
    position = _after(text, start, "[")
    while not text.startswith("]", position):
        value, end = _DECODER.raw_decode(text, position)
        yield value, (position, end)
        position = _next(text, end, "]")


def _next(text: str, end: int, close: str) -> int:
    position = _skip(text, end)
    return position if text.startswith(close, position) else _after(text, position, ",")


def _after(text: str, position: int, mark: str) -> int:
    """Return the position of the next token after `mark`, which must be at `position`."""
    if not text.startswith(mark, position):
        raise ValueError(mark)
    return _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return position if space is None else space.end()
