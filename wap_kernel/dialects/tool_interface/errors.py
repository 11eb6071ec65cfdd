"""Errors in the words of these tools: the spec's two texts, its names of fields, its names of tools. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects.hints import render_hint
from wap_kernel.dialects.tool_interface.answers import cut
from wap_kernel.dialects.tool_interface.workspace_path import shown
from wap_kernel.model.errors import EditAmbiguous, EditNotFound, WapError

NOT_FOUND = "oldString not found in content"
AMBIGUOUS = "Found multiple matches for oldString"

_KEPT = frozenset({"runId", "approvalId", "retryAfterMs", "allowedTools"})
"""Details that every REST dialect has under these names."""
_RENAMED: Mapping[str, str] = MappingProxyType(
    {
        "stdoutBytes": "total_stdout_bytes",
        "stderrBytes": "total_stderr_bytes",
        "isOutputTruncated": "truncated",
    }
)
_FIRST = re.compile(r"^start(Line|Entry)(?= \d+ is past the end: )")
"""The one field that messages name: elsewhere such a word is of a path."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


def translated(error: WapError) -> WapError:
    """The same error, for whoever called one of these tools. One that is translated already stays as it is."""
    details = _details(error.details)
    if isinstance(error, EditNotFound | EditAmbiguous):
        details.pop("operation", None)  # there is one
    if isinstance(error, EditNotFound):
        # Word for word what the spec says, so what to do next goes with the details.
        next_step = "Read the file again: the text must be the same, character for character."
        return EditNotFound(NOT_FOUND, **{**details, "next": next_step})
    if isinstance(error, EditAmbiguous):
        return EditAmbiguous(
            AMBIGUOUS,
            hint="Provide more surrounding lines in old_string until it occurs once, or set replace_all.",
            **details,
        )
    message, hint = _FIRST.sub("offset", error.message), render_hint(error.hint, "tool_interface")
    path = error.details.get("path")
    if isinstance(path, str) and not path.startswith("/") and message.endswith(f": {path}"):
        message = f"{message.removesuffix(path)}{shown(path)}"
        details["path"] = shown(path)
    return type(error)(message, hint=hint, **details)


def _details(details: Mapping[str, Any]) -> dict[str, Any]:
    found = {_name(name): _value(value) for name, value in details.items()}
    for stream in ("stdout", "stderr"):
        total = details.get(f"{stream}Bytes")
        if isinstance(found.get(stream), str) and isinstance(total, int):
            found[stream], is_cut = cut(found[stream], total)
            found["truncated"] = bool(found.get("truncated")) or is_cut
    return found


def _value(value: Any) -> Any:
    return {_name(name): each for name, each in value.items()} if isinstance(value, Mapping) else value


def _name(name: str) -> str:
    return name if name in _KEPT else _RENAMED.get(name) or _CAPITAL.sub(lambda match: f"_{match[1].lower()}", name)
