"""A search as people ask for it, in the parameters of WAP, which knows neither case nor a choice of files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
"""What means something in a regular expression of Rust."""
EVERYTHING = frozenset({"*", "**", "**/*"})


def parameters(pattern: str, path: str, regex: bool, ignore_case: bool, context: int) -> dict[str, Any]:
    query, is_regex = pattern, regex
    if ignore_case and pattern:
        query, is_regex = f"(?i){pattern if regex else _SPECIAL.sub(_escaped, pattern)}", True
    return {"paths": [path], "query": query, "type": "regex" if is_regex else "literal", "contextLines": context}


def all_but(globs: Sequence[str], usual: Sequence[str]) -> list[str]:
    """Exclusions that leave only what `globs` select: files are out (`*` would put folders out for good), folders are
    in so that they are walked, the globs are in, and what is usually out stays out."""
    if not EVERYTHING.isdisjoint(globs):
        return list(usual)
    return ["?*", "!*/", *(f"!{glob}/*" if glob.endswith("/**") else f"!{glob}" for glob in globs), *usual]


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
