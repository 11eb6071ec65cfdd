"""On which line of a batch each of its parts begins, so that a mistake can be shown where it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from wap_kernel.runs import batch_text

Path = tuple[str | int, ...]
"""`("operations", 2, "path")`."""

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[][{},:]|[^][{},:\s"]+', re.DOTALL)


def lines(text: str) -> dict[Path, int]:
    """For a text that `batches.read` has read. A bare list has its operations below `operations` as well."""
    found = _of_json(text) if batch_text.is_json(text) else _of_yaml(text)
    if text.lstrip().startswith("[") or all(not isinstance(path[0], str) for path in found if path):
        return {("operations", *path) if path else path: line for path, line in found.items()}
    return found


def nearest(path: Path, known: Mapping[Path, int]) -> int | None:
    """Where it begins, or what it would be in: what is missing has no line of its own."""
    for length in range(len(path), -1, -1):
        if path[:length] in known:
            return known[path[:length]]
    return None


def spelled(path: Path) -> str:
    """`operations[2].path`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _of_yaml(text: str) -> dict[Path, int]:
    found: dict[Path, int] = {}
    tree = batch_text.yaml_tree(text)
    waiting: list[tuple[Path, Any, Any]] = [] if tree is None else [((), tree, tree)]
    while waiting:
        path, node, beginning = waiting.pop(0)
        found[path] = batch_text.line_of(beginning.start_mark, text)
        if node.id == "sequence":
            waiting += [((*path, number), item, item) for number, item in enumerate(node.value)]
        elif node.id == "mapping":
            waiting += [((*path, str(key.value)), value, key) for key, value in node.value]
    return found


def _of_json(text: str) -> dict[Path, int]:
    """Token by token; that it is JSON is known."""
    found: dict[Path, int] = {}
    path: list[str | int | None] = []  # of what comes next; None is a field whose name comes next
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
            found[_known(path)] = line
        elif sign != ":":
            if not path or isinstance(path[-1], int):
                found[_known(path)] = line
            if sign in "{[":
                path.append(None if sign == "{" else 0)
    return found


def _known(path: list[str | int | None]) -> Path:
    return tuple(part for part in path if part is not None)
