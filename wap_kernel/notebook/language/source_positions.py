"""Find the line of each part of a batch, so that an error can name it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from wap_kernel.runs import batch_text

Path = tuple[str | int, ...]
"""`("operations", 2, "path")`."""

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[][{},:]|[^][{},:\s"]+', re.DOTALL)


def locate_lines(text: str) -> dict[Path, int]:
    """Return the line of each path in a valid batch; a bare list has its operations under `operations`, too."""
    found = _locate_json(text) if batch_text.is_json(text) else _locate_yaml(text)
    if text.lstrip().startswith("[") or all(not isinstance(path[0], str) for path in found if path):
        return {("operations", *path) if path else path: line for path, line in found.items()}
    return found


def find_nearest_line(path: Path, known: Mapping[Path, int]) -> int | None:
    """Return the line of `path`, or of the nearest part that contains it, because a missing field has no line."""
    for length in range(len(path), -1, -1):
        if path[:length] in known:
            return known[path[:length]]
    return None


def format_path(path: Path) -> str:
    """Return a path as text, such as `operations[2].path`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _locate_yaml(text: str) -> dict[Path, int]:
    found: dict[Path, int] = {}
    tree = batch_text.compose_yaml(text)
    waiting: list[tuple[Path, Any, Any]] = [] if tree is None else [((), tree, tree)]
    while waiting:
        path, node, beginning = waiting.pop(0)
        found[path] = batch_text.line_of(beginning.start_mark, text)
        if node.id == "sequence":
            waiting += [((*path, number), item, item) for number, item in enumerate(node.value)]
        elif node.id == "mapping":
            waiting += [((*path, str(key.value)), value, key) for key, value in node.value]
    return found


def _locate_json(text: str) -> dict[Path, int]:
    """Return the line of each path in valid JSON, token by token."""
    found: dict[Path, int] = {}
    path: list[str | int | None] = []  # the path of the next token; None is a field whose name comes next
    line, counted = 1, 0
    for token in _TOKEN.finditer(text):
        sign = token[0]
        line += text.count("\n", counted, token.start())
        counted = token.start()
        if sign in "}]":
            path.pop()
        elif sign == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif path and path[-1] is None:
            path[-1] = str(json.loads(sign))
            found[_without_unnamed(path)] = line
        elif sign != ":":
            if not path or isinstance(path[-1], int):
                found[_without_unnamed(path)] = line
            if sign in "{[":
                path.append(None if sign == "{" else 0)
    return found


def _without_unnamed(path: list[str | int | None]) -> Path:
    return tuple(part for part in path if part is not None)
