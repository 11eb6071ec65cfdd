"""Translate a search into the parameters of WAP, which has no options for case or for a choice of files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
"""Characters with a meaning in a regular expression of Rust."""
EVERYTHING = frozenset({"*", "**", "**/*"})


def build_parameters(pattern: str, path: str, regex: bool, ignore_case: bool, context: int) -> dict[str, Any]:
    """Return the parameters of a search; ignoring case makes it a regular expression."""
    query, is_regex = pattern, regex
    if ignore_case and pattern:
        query, is_regex = f"(?i){pattern if regex else _SPECIAL.sub(_escape, pattern)}", True
    return {"paths": [path], "query": query, "type": "regex" if is_regex else "literal", "contextLines": context}


def exclude_other_files(globs: Sequence[str], defaults: Sequence[str]) -> list[str]:
    """Return exclusion patterns that leave only the files that `globs` select.

    They exclude every file (`*` would exclude folders for good), include folders so that they are walked, include
    the globs, and keep the default exclusions.
    """
    if not EVERYTHING.isdisjoint(globs):
        return list(defaults)
    return ["?*", "!*/", *(f"!{glob}/*" if glob.endswith("/**") else f"!{glob}" for glob in globs), *defaults]


def _escape(match: re.Match[str]) -> str:
    return f"\\{match[0]}"
