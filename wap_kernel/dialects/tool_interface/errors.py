"""Translate errors to the words of the interface: the spec's two texts, its names of fields and tools. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects.hints import render_hint
from wap_kernel.dialects.tool_interface.answers import truncate_stream
from wap_kernel.dialects.tool_interface.workspace_path import render_path
from wap_kernel.model.errors import EditAmbiguous, EditNotFound, WapError

NOT_FOUND = "oldString not found in content"
AMBIGUOUS = "Found multiple matches for oldString"

_COMMON_NAMES = frozenset({"runId", "approvalId", "retryAfterMs", "allowedTools"})
"""Details that have the same names in every REST dialect."""
_RENAMED: Mapping[str, str] = MappingProxyType(
    {
        "stdoutBytes": "total_stdout_bytes",
        "stderrBytes": "total_stderr_bytes",
        "isOutputTruncated": "truncated",
    }
)
_START_FIELD = re.compile(r"^start(Line|Entry)(?= \d+ is past the end: )")
"""The one field that messages name; anywhere else such a word belongs to a path."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


def translate_error(error: WapError) -> WapError:
    """Return the error in the words of the interface; an error that is translated already stays as it is."""
    details = _translate_details(error.details)
    if isinstance(error, EditNotFound | EditAmbiguous):
        details.pop("operation", None)  # there is one
    if isinstance(error, EditNotFound):
        # The spec gives the text word for word, so what to do next goes to the details.
        next_step = "Read the file again: the text must be the same, character for character."
        return EditNotFound(NOT_FOUND, **{**details, "next": next_step})
    if isinstance(error, EditAmbiguous):
        return EditAmbiguous(
            AMBIGUOUS,
            hint="Provide more surrounding lines in old_string until it occurs once, or set replace_all.",
            **details,
        )
    message, hint = _START_FIELD.sub("offset", error.message), render_hint(error.hint, "tool_interface")
    path = error.details.get("path")
    if isinstance(path, str) and not path.startswith("/") and message.endswith(f": {path}"):
        message = f"{message.removesuffix(path)}{render_path(path)}"
        details["path"] = render_path(path)
    return type(error)(message, hint=hint, **details)


def _translate_details(details: Mapping[str, Any]) -> dict[str, Any]:
    found = {_translate_name(name): _translate_names(value) for name, value in details.items()}
    for stream in ("stdout", "stderr"):
        total = details.get(f"{stream}Bytes")
        if isinstance(found.get(stream), str) and isinstance(total, int):
            found[stream], is_cut = truncate_stream(found[stream], total)
            found["truncated"] = bool(found.get("truncated")) or is_cut
    if "refusedChanges" in details:
        found["refused_changes"] = [{**each, "path": render_path(each["path"])} for each in details["refusedChanges"]]
    if "conflicts" in details and "durationMs" in details:  # else it is translated already
        found["conflicts"] = [render_path(path) for path in details["conflicts"]]
    return found


def _translate_names(value: Any) -> Any:
    return {_translate_name(name): each for name, each in value.items()} if isinstance(value, Mapping) else value


def _translate_name(name: str) -> str:
    return (
        name
        if name in _COMMON_NAMES
        else _RENAMED.get(name) or _CAPITAL.sub(lambda match: f"_{match[1].lower()}", name)
    )
