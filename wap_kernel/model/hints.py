"""Name the hints whose words depend on the dialect; `dialects/hints.py` renders them.

A hint tells the caller what to do next. Most hints name no tool and are plain text. The hints below name tools or
fields, so each has a key; its text is WAP's wording, which the engine uses when nobody renders it.
"""

from __future__ import annotations


class Hint(str):
    """A hint with a key, by which a dialect finds its own wording."""

    key: str
    template: str
    values: dict[str, object]

    def __new__(cls, key: str, template: str, **values: object) -> Hint:
        hint = super().__new__(cls, template.format(**values) if values else template)
        hint.key = key
        hint.template = template
        hint.values = values
        return hint


LIST_FOLDER = Hint("list_folder", "List it with exploreFiles.")
READ_FILE = Hint("read_file", "Read it with readFile.")
READ_LINES = Hint("read_lines", "Read a part of it with startLine and endLine.")
READ_BASE64 = Hint("read_base64", 'Read it with encoding "base64".')
WRITE_BASE64 = Hint("write_base64", "Write it whole, as base64.")
EDIT_CELLS = Hint("edit_cells", "Change its cells with modifyNotebook.")
CREATE_PARENT = Hint("create_parent", "Make it first, or pass createDirectories: true.")
DELETE_RECURSIVELY = Hint("delete_recursively", "Pass recursive: true to delete it.")
OMIT_EXPECTED_HASH = Hint("omit_expected_hash", "Leave expectedHash out.")
REGEX_SYNTAX = Hint(
    "regex_syntax",
    "The syntax is that of Rust's regex crate, which has no look-around and no back-references; "
    'search for exact text with type "literal".',
)
LONGEST_TIMEOUT = Hint("longest_timeout", "Policy allows no longer timeout; do less at once.")

TO_PERSON = "Tell the user: "
"""The beginning of a hint that only a person can follow; a person reads it without these words."""


def tell_user(text: str) -> str:
    """Return a hint for a person, such as one about the configuration, as an agent reads it."""
    return TO_PERSON + text


def address_person(text: str) -> str:
    """Return a text of an agent's as the person reads it: hints for a person speak to that person."""
    return text.replace(TO_PERSON, "")


def longer_timeout(seconds: float) -> Hint:
    """Return the hint of a command that took longer than its timeout; `seconds` is the longest that is allowed."""
    template = "Ask for a longer timeout, in milliseconds, up to {milliseconds}, or do less at once."
    return Hint("longer_timeout", template, seconds=f"{seconds:g}", milliseconds=f"{1000 * seconds:.0f}")
