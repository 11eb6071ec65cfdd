"""Render hints in the names of each dialect: one table for all.

The engine raises errors with hints of `model/hints.py`, whose text is WAP's. A dialect that has other tools or fields
renders the hint by its key. Coding Environment promises a hint with every error, so it also has hints by error code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from wap_kernel.model import hints
from wap_kernel.model.errors import Code
from wap_kernel.model.hints import Hint, address_person

Wording = Literal["agent_spaces", "coding_environment", "tool_interface", "notebook"]
"""The dialects whose words differ from WAP's; `notebook` is the language of `%wap` and of the `wap` kernel."""

_COMPLETE_NOTEBOOK = "Write a notebook that is complete."
_CHANGE_BY_COMMAND = "Change it with a command."

_TABLE: Mapping[Hint, Mapping[Wording, str]] = MappingProxyType(
    {
        hints.LIST_FOLDER: {
            "agent_spaces": "List it with a command: ls.",
            "coding_environment": "List it with listFiles.",
            "tool_interface": "List it with read.",
            "notebook": '"ls PATH" lists it.',
        },
        hints.READ_FILE: {"tool_interface": "Read it with read.", "notebook": '"read PATH" reads it.'},
        hints.READ_LINES: {
            "agent_spaces": "Show a part of it with a command: head, tail, sed -n 100,200p.",
            "coding_environment": "Read a part of it with startLine and endLine.",
            "tool_interface": "Read a part of it with offset and limit.",
            "notebook": '"read PATH 1:100" reads a part of it.',
        },
        hints.READ_BASE64: {
            "notebook": 'A batch reads it: {"type": "readFile", "path": PATH, "encoding": "base64"}.',
        },
        hints.WRITE_BASE64: {"agent_spaces": _CHANGE_BY_COMMAND, "tool_interface": _CHANGE_BY_COMMAND},
        hints.EDIT_CELLS: {
            "agent_spaces": _COMPLETE_NOTEBOOK,
            "coding_environment": "Change its cells with editNotebook.",
            "tool_interface": _COMPLETE_NOTEBOOK,
            "notebook": _COMPLETE_NOTEBOOK,
        },
        hints.CREATE_PARENT: {
            "agent_spaces": "Make it first, with a command: mkdir -p.",
            "coding_environment": "Make it first, or pass options.createIfMissing: true.",
            "tool_interface": "Make it first, with bash: mkdir -p.",
            "notebook": '"sh mkdir -p PATH" makes it.',
        },
        hints.DELETE_RECURSIVELY: {
            "agent_spaces": "Delete it with a command: rm -r.",
            "notebook": '"sh rm -r PATH" deletes it.',
        },
        hints.OMIT_EXPECTED_HASH: {"tool_interface": "Leave expected_hash out."},
        hints.REGEX_SYNTAX: {
            "coding_environment": "The syntax is that of Rust's regex crate, which has no look-around and no "
            "back-references; search for exact text without options.regex.",
            "tool_interface": "The syntax is that of Rust's regex crate, which has no look-around and no "
            "back-references; put a backslash before a character that stands for itself.",
            "notebook": "The syntax is that of Rust's regex crate, which has no look-around and no back-references; "
            "leave out -e to search for exact text.",
        },
        hints.longer_timeout(0): {
            "coding_environment": "Ask for a longer options.timeout, up to {seconds} seconds, or do less at once.",
            "tool_interface": "Ask for a longer timeout_ms, up to {milliseconds}, or do less at once.",
            "notebook": '"sh -t SECONDS COMMAND" gives it more time, up to {seconds} seconds.',
        },
    }
)
_BY_KEY: Mapping[str, Mapping[Wording, str]] = {hint.key: texts for hint, texts in _TABLE.items()}

_OF_CODING_TOOLS: Mapping[tuple[str, Code], str] = MappingProxyType(
    {
        ("readFile", Code.SIZE_LIMIT_EXCEEDED): "Find the place with searchFiles, or read a part with startLine.",
        ("runCommand", Code.TIMEOUT): "Ask for more seconds with options.timeout, as far as policy goes, or do less.",
        ("editFile", Code.BINARY_FILE): "Change it with a command; editFile is for text.",
        ("getRun", Code.NOT_FOUND): "Name it as runOperations or an error of another tool has named it.",
    }
)
_OF_CODES: Mapping[Code, str] = MappingProxyType(
    {
        Code.INVALID_ARGUMENT: "Correct the arguments and call again.",
        Code.FILE_NOT_FOUND: "See what there is with listFiles or globFiles.",
        Code.FILE_EXISTS: "Choose another path, or look at what stands there with listFiles.",
        Code.PERMISSION_DENIED: "Go on without it, or ask the user whether the policy should be changed.",
        Code.CONFLICT: "Look at it again, and try again.",
        Code.EXECUTION_FAILED: "Check the program and its arguments.",
    }
)
_TELL_USER = "Tell the user about it."


def render_hint(hint: str | None, wording: Wording) -> str | None:
    """Return `hint` in the names of a dialect; a hint without a key, or without another wording, stays as it is."""
    if not isinstance(hint, Hint):
        return hint
    text = _BY_KEY.get(hint.key, {}).get(wording)
    return hint if text is None else text.format(**hint.values) if hint.values else text


def render_coding_hint(tool: str, code: Code, hint: str | None) -> str:
    """Return the hint of a Coding Environment error; every error has one."""
    specific = _OF_CODING_TOOLS.get((tool, code))
    return specific or render_hint(hint, "coding_environment") or _OF_CODES.get(code, _TELL_USER)


def reword_for_person(text: str) -> str:
    """Return an error text that WAP or Agent Spaces rendered as a person at a notebook reads it.

    A server sends message and hint as one text, so a client finds the hint at the end of it.
    """
    for pattern, wording in _PERSON_PATTERNS:
        if (match := pattern.search(text)) is not None:
            values = match.groupdict()
            if "milliseconds" in values:
                values["seconds"] = f"{float(values['milliseconds']) / 1000:g}"
            text = text[: match.start()] + (wording.format(**values) if values else wording)
            break
    return address_person(text)


def _find_hints(template: str) -> re.Pattern[str]:
    """Return a pattern of a hint at the end of a text, with a group for each of its values."""
    parts = re.split(r"\{(\w+)\}", template)
    names = [f"(?P<{part}>\\d+)" if index % 2 else re.escape(part) for index, part in enumerate(parts)]
    return re.compile(rf"{''.join(names)}\Z")


_PERSON_PATTERNS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (_find_hints(template), texts["notebook"])
    for hint, texts in _TABLE.items()
    if "notebook" in texts
    for template in (hint.template, texts.get("agent_spaces"))
    if template is not None
)
"""The hints of agents as patterns, each with the words for a person."""
