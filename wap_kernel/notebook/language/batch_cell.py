"""Parse the batch of a cell into a valid operations message, or raise an error that names the line."""

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
MAX_MISTAKES = 5
"""Mistakes that one error lists."""
_KINDS = {
    "Input should be a valid string": "text",
    "Input should be a valid integer": "a whole number",
    "Input should be a valid boolean": "true or false",
    "Input should be a valid list": "a list",
    "Input should be a valid dictionary": "a mapping",
}
"""Messages of the validator for a value of another kind, and the words for the kind."""


def parse_batch(text: str, names: Mapping[str, object] | None, first_line: int) -> dict[str, Any]:
    """Return the message in `text`, with the variables in `names` filled in (None: braces stay).

    Lines are counted from `first_line`, the line of the cell where the text begins.
    """
    from wap_kernel import validate_operations_message

    message = batch_text.parse_batch(text, NAME, first_line)
    message.setdefault("protocolVersion", batch_text.PROTOCOL_VERSION)
    if names is not None:
        try:
            message = variables.fill_variables(message, names)
        except InvalidArgument as error:
            raise _locate(error, text, first_line) from None
        except RecursionError:
            raise InvalidArgument(f"{NAME} is nested too deeply.") from None
    if (problem := validate_operations_message(message).error) is not None:
        raise locate_problems(problem, message, text, first_line)
    return message


def locate_problems(error: InvalidArgument, message: Mapping[str, Any], text: str, first_line: int) -> InvalidArgument:
    """Return the error with each of its problems on its line of the cell."""
    problems = error.details.get("problems")
    if not problems:
        return error
    known = source_positions.locate_lines(text)
    listed: dict[str, int | None] = {}
    for problem in problems[:MAX_MISTAKES]:
        path, problem_text = _explain(str(problem["field"]), str(problem["message"]), message)
        line = source_positions.find_nearest_line(path, known)
        position = "" if line is None else f"line {line + first_line - 1}: "
        listed.setdefault(f"{position}{source_positions.format_path(path)}: {problem_text}".replace(": : ", ": "), line)
    more = f"\nand {len(problems) - MAX_MISTAKES} more" if len(problems) > MAX_MISTAKES else ""
    first = next(iter(listed.values())) or 1
    many = f"{NAME} has several mistakes.\n" if len(listed) > 1 else ""
    return InvalidArgument(many + "\n".join(listed) + more, line=first + first_line - 1)


def describe_problem(error: InvalidArgument, operations: list[dict[str, Any]]) -> InvalidArgument:
    """Return the error of the operations of one line as `path: ...`, because the person has not written a batch."""
    problems = error.details.get("problems")
    if not problems:
        return error
    problem = problems[0]
    path, problem_text = _explain(str(problem["field"]), str(problem["message"]), {"operations": operations})
    return InvalidArgument(
        ": ".join(part for part in (source_positions.format_path(path[2:]), problem_text) if part), hint=error.hint
    )


def _locate(error: InvalidArgument, text: str, first_line: int) -> InvalidArgument:
    line = source_positions.find_nearest_line(error.details["path"], source_positions.locate_lines(text))
    if line is None:
        return error
    line += first_line - 1
    return InvalidArgument(f"line {line}: {error.message}", hint=error.hint, line=line)


def _explain(field: str, problem_text: str, message: Mapping[str, Any]) -> tuple[Path, str]:
    """Return the path of a field that the validator calls `operations.2.shell.command`, and a message for people."""
    parts = field.split(".") if field else []
    path: list[str | int] = []
    value: Any = message
    while parts:
        # A field name may contain dots, and was split at them.
        name = next((".".join(parts[:n]) for n in range(len(parts), 0, -1) if _holds(value, ".".join(parts[:n]))), None)
        if name is None and isinstance(value, Mapping) and parts[0] == value.get("type") and len(path) == 2:
            del parts[0]  # the type of operation that the validator chose
            continue
        taken = ".".join(parts) if name is None else name
        del parts[: taken.count(".") + 1]
        path.append(int(taken) if isinstance(value, list) and taken.isdecimal() else taken)
        value = None if name is None else value[path[-1]]
    if len(path) == 2 and path[0] == "operations" and isinstance(value, Mapping):
        problem_text = _explain_type(value, problem_text)
    elif problem_text == "Unknown field." and len(path) == 3:
        problem_text += _suggest_field(message, path)
    elif problem_text in _KINDS:
        problem_text = _describe_kind(_KINDS[problem_text], value)
    return tuple(path), problem_text


def _describe_kind(kind: str, value: Any) -> str:
    """Return which kind of value is needed and which was found; YAML reads some words as other kinds."""
    problem_text = f"The value should be {kind}, and is {_describe_value(value)}."
    if kind != "text" or isinstance(value, list | dict):
        return problem_text
    as_read = " (so YAML reads yes, no, on and off)" if isinstance(value, bool) else ""
    return f"{problem_text.removesuffix('.')}{as_read}. Put it in quotes."


def _describe_value(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return "a text" if isinstance(value, str) else json.dumps(value)


def _holds(value: Any, name: str) -> bool:
    if isinstance(value, list):
        return name.isdecimal() and int(name) < len(value)
    return isinstance(value, Mapping) and name in value


def _explain_type(operation: Mapping[str, Any], problem_text: str) -> str:
    known = _models()
    if "type" not in operation:
        return f"The operation has no type. The type is one of {', '.join(known)}."
    kind = operation["type"]
    if kind in known:
        return problem_text
    near = difflib.get_close_matches(str(kind), known, 1)
    return f"There is no type {kind!r}. " + (
        f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(known)}."
    )


def _suggest_field(message: Mapping[str, Any], path: list[str | int]) -> str:
    kind = message["operations"][path[1]].get("type")
    near = difflib.get_close_matches(str(path[2]), _models().get(kind, []), 1)
    return f" Did you mean {near[0]}?" if near else ""


def _models() -> dict[str, list[str]]:
    """Return the types of operations, and the fields of each."""
    from typing import get_args

    from wap_kernel.dialects.agent_spaces.operations import AnyOperation

    models = get_args(get_args(AnyOperation)[0])
    return {
        get_args(model.model_fields["type"].annotation)[0]: [
            field.alias or name for name, field in model.model_fields.items()
        ]
        for model in models
    }
