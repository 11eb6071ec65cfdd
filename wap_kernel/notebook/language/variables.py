"""`{{name}}` in a batch: the Python variable of that name. Nothing is evaluated; what is filled in is not read again.

A value that is exactly `{{name}}` becomes the object; in a longer text stands its `str`. Names of fields stay.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.notebook.language.source_positions import Path, spelled

_BRACES = re.compile(r"\{\{[ \t]*([^\W\d]\w*(?:\.\w+)*)[ \t]*\}\}")
_LEAVE = "--no-vars leaves braces as they are."
_NEAR = 3


def fill(value: Any, names: Mapping[str, object], path: Path = ()) -> Any:
    """`value` with its variables; the error of one that cannot be had names the `path` in its details."""
    if isinstance(value, str):
        return _text(value, names, path)
    if isinstance(value, list):
        return [fill(item, names, (*path, number)) for number, item in enumerate(value)]
    if isinstance(value, dict):
        return {name: fill(item, names, (*path, name)) for name, item in value.items()}
    return value


def _text(text: str, names: Mapping[str, object], path: Path) -> Any:
    whole = _BRACES.fullmatch(text)
    if whole is not None:
        return _plain(whole[1], _named(whole[1], names, path), path)
    return _BRACES.sub(lambda found: _as_text(found[1], _named(found[1], names, path), path), text)


def _as_text(name: str, value: object, path: Path) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - whatever the object's own code does
        kind = type(value).__name__
        raise _refused(f"{name!r} is a {kind} that makes no text: {type(error).__name__}", _LEAVE, path) from None


def _named(name: str, names: Mapping[str, object], path: Path) -> object:
    if name in names:
        return names[name]
    if "." in name:
        raise _refused(f"{{{{{name}}}}} is no plain name", "Bind it to a variable first. " + _LEAVE, path)
    public = [known for known in names if not known.startswith("_")]
    near = difflib.get_close_matches(name, public, _NEAR, 0.6)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    raise _refused(f"there is no variable {name!r}", meant + _LEAVE, path)


def _plain(name: str, value: object, path: Path) -> Any:
    """As JSON has it: a copy that nobody changes meanwhile."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except Exception:  # noqa: BLE001 - whatever the object's own code does
        kind = type(value).__name__
        raise _refused(
            f"{name!r} is a {kind}, which JSON cannot hold", "Make text, numbers, lists or dictionaries of it.", path
        ) from None


def _refused(told: str, hint: str, path: Path) -> InvalidArgument:
    return InvalidArgument(f"{spelled(path)}: {told}.", hint=hint, path=path)
