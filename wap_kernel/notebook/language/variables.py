"""Fill `{{name}}` in a batch with the Python variable of that name.

Nothing is evaluated, and the values are not filled again. A value that is exactly `{{name}}` becomes the object; in a
longer text it becomes its `str`. Names of fields stay.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.notebook.language.source_positions import Path, format_path

_BRACES = re.compile(r"\{\{[ \t]*([^\W\d]\w*(?:\.\w+)*)[ \t]*\}\}")
_LEAVE = "--no-vars leaves braces as they are."
_NEAR = 3


def fill_variables(value: Any, names: Mapping[str, object], path: Path = ()) -> Any:
    """Return `value` with its variables filled in; an error has the `path` of the variable in its details."""
    if isinstance(value, str):
        return _fill_text(value, names, path)
    if isinstance(value, list):
        return [fill_variables(item, names, (*path, number)) for number, item in enumerate(value)]
    if isinstance(value, dict):
        return {name: fill_variables(item, names, (*path, name)) for name, item in value.items()}
    return value


def _fill_text(text: str, names: Mapping[str, object], path: Path) -> Any:
    whole = _BRACES.fullmatch(text)
    if whole is not None:
        return _to_json(whole[1], _get_variable(whole[1], names, path), path)
    return _BRACES.sub(lambda found: _to_text(found[1], _get_variable(found[1], names, path), path), text)


def _to_text(name: str, value: object, path: Path) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - the object's own code may raise anything
        kind = type(value).__name__
        raise _variable_error(
            f"{name!r} is a {kind} whose text cannot be made: {type(error).__name__}", _LEAVE, path
        ) from None


def _get_variable(name: str, names: Mapping[str, object], path: Path) -> object:
    if name in names:
        return names[name]
    if "." in name:
        raise _variable_error(
            f"{{{{{name}}}}} is not the name of a variable", "Bind the value to a variable first. " + _LEAVE, path
        )
    public = [known for known in names if not known.startswith("_")]
    near = difflib.get_close_matches(name, public, _NEAR, 0.6)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    raise _variable_error(f"there is no variable {name!r}", meant + _LEAVE, path)


def _to_json(name: str, value: object, path: Path) -> Any:
    """Return a copy of the value as JSON, which later changes do not affect."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except Exception:  # noqa: BLE001 - the object's own code may raise anything
        kind = type(value).__name__
        raise _variable_error(
            f"{name!r} is a {kind}, which JSON cannot hold", "Convert it to text, numbers, lists or dictionaries.", path
        ) from None


def _variable_error(message: str, hint: str, path: Path) -> InvalidArgument:
    return InvalidArgument(f"{format_path(path)}: {message}.", hint=hint, path=path)
