"""The batch of a cell: from text to an operations message that has been checked, or an error that names the line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.notebook.language import source_positions, variables
from wap_kernel.notebook.language.source_positions import Path
from wap_kernel.runs import batch_text

NAME = "The batch"
MOST = 5
"""Mistakes that are shown at once."""
_KINDS = {
    "Input should be a valid string": "text",
    "Input should be a valid integer": "a whole number",
    "Input should be a valid boolean": "true or false",
    "Input should be a valid list": "a list",
    "Input should be a valid dictionary": "a mapping",
}
"""The checker's words for what is of another kind, and ours."""


def message(text: str, names: Mapping[str, object] | None, first_line: int) -> dict[str, Any]:
    """The message in `text`, with the variables in `names` (None: braces are left alone).

    Lines are counted from `first_line`, that of the text in its cell.
    """
    from wap_kernel import validate_operations_message

    sent = batch_text.read(text, NAME, first_line)
    sent.setdefault("protocolVersion", batch_text.PROTOCOL_VERSION)
    if names is not None:
        try:
            sent = variables.fill(sent, names)
        except InvalidArgument as error:
            raise _placed(error, text, first_line) from None
        except RecursionError:
            raise InvalidArgument(f"{NAME} is nested too deeply.") from None
    if (problem := validate_operations_message(sent).error) is not None:
        raise located(problem, sent, text, first_line)
    return sent


def located(error: InvalidArgument, sent: Mapping[str, Any], text: str, first_line: int) -> InvalidArgument:
    """What a check of `sent` found wrong, each with its line of the cell."""
    problems = error.details.get("problems")
    if not problems:
        return error
    known = source_positions.lines(text)
    shown: dict[str, int | None] = {}
    for problem in problems[:MOST]:
        path, told = _understood(str(problem["field"]), str(problem["message"]), sent)
        line = source_positions.nearest(path, known)
        place = "" if line is None else f"line {line + first_line - 1}: "
        shown.setdefault(f"{place}{source_positions.spelled(path)}: {told}".replace(": : ", ": "), line)
    more = f"\nand {len(problems) - MOST} more" if len(problems) > MOST else ""
    first = next(iter(shown.values())) or 1
    many = f"{NAME} has several mistakes.\n" if len(shown) > 1 else ""
    return InvalidArgument(many + "\n".join(shown) + more, line=first + first_line - 1)


def unnumbered(error: InvalidArgument, operations: list[dict[str, Any]]) -> InvalidArgument:
    """What is wrong with the operations of one line: `path: ...`, for nobody has seen a batch."""
    problems = error.details.get("problems")
    if not problems:
        return error
    problem = problems[0]
    path, told = _understood(str(problem["field"]), str(problem["message"]), {"operations": operations})
    return InvalidArgument(
        ": ".join(part for part in (source_positions.spelled(path[2:]), told) if part), hint=error.hint
    )


def _placed(error: InvalidArgument, text: str, first_line: int) -> InvalidArgument:
    line = source_positions.nearest(error.details["path"], source_positions.lines(text))
    if line is None:
        return error
    line += first_line - 1
    return InvalidArgument(f"line {line}: {error.message}", hint=error.hint, line=line)


def _understood(field: str, told: str, sent: Mapping[str, Any]) -> tuple[Path, str]:
    """The path of a field as the checker names it, `operations.2.shell.command`, and what is wrong, for people."""
    parts = field.split(".") if field else []
    path: list[str | int] = []
    value: Any = sent
    while parts:
        # A name may hold dots itself, and was split at them.
        name = next((".".join(parts[:n]) for n in range(len(parts), 0, -1) if _holds(value, ".".join(parts[:n]))), None)
        if name is None and isinstance(value, Mapping) and parts[0] == value.get("type") and len(path) == 2:
            del parts[0]  # which of the kinds of operations it was taken for
            continue
        taken = ".".join(parts) if name is None else name
        del parts[: taken.count(".") + 1]
        path.append(int(taken) if isinstance(value, list) and taken.isdecimal() else taken)
        value = None if name is None else value[path[-1]]
    if len(path) == 2 and path[0] == "operations" and isinstance(value, Mapping):
        told = _kinds(value, told)
    elif told == "Unknown field." and len(path) == 3:
        told += _fields(sent, path)
    elif told in _KINDS:
        told = _mistaken(_KINDS[told], value)
    return tuple(path), told


def _mistaken(wanted: str, value: Any) -> str:
    """What was found instead; in YAML it may well have been written as a word."""
    told = f"It should be {wanted}, and is {_found(value)}."
    if wanted != "text" or isinstance(value, list | dict):
        return told
    as_read = " (so YAML reads yes, no, on and off)" if isinstance(value, bool) else ""
    return f"{told.removesuffix('.')}{as_read}. Put it in quotes."


def _found(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return "a text" if isinstance(value, str) else json.dumps(value)


def _holds(value: Any, name: str) -> bool:
    if isinstance(value, list):
        return name.isdecimal() and int(name) < len(value)
    return isinstance(value, Mapping) and name in value


def _kinds(operation: Mapping[str, Any], told: str) -> str:
    known = _models()
    if "type" not in operation:
        return f"It has no type. It should be one of {', '.join(known)}."
    kind = operation["type"]
    if kind in known:
        return told
    near = difflib.get_close_matches(str(kind), known, 1)
    return f"There is no type {kind!r}. " + (f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}.")


def _fields(sent: Mapping[str, Any], path: list[str | int]) -> str:
    kind = sent["operations"][path[1]].get("type")
    near = difflib.get_close_matches(str(path[2]), _models().get(kind, []), 1)
    return f" Did you mean {near[0]}?" if near else ""


def _models() -> dict[str, list[str]]:
    """The types of operations, and the fields of each."""
    from typing import get_args

    from wap_kernel.dialects.agent_spaces.operations import AnyOperation

    models = get_args(get_args(AnyOperation)[0])
    return {
        get_args(model.model_fields["type"].annotation)[0]: [
            field.alias or name for name, field in model.model_fields.items()
        ]
        for model in models
    }
