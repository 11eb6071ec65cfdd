"""Find the groups of a JavaScript pattern before it is parsed."""

from __future__ import annotations

import re

from wap_kernel.model.errors import InvalidArgument

OPENING = re.compile(r"\(\?(?:(:)|(<?)([=!])|<([^>]*)>)")
"""The beginning of a group that is not a capturing one without a name."""


def scan_groups(pattern: str) -> tuple[int, dict[str, int]]:
    """Return the number of groups, and their names: a back-reference may come before its group."""
    count, names, in_class, position = 0, dict[str, int](), False, 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
        elif character in "[]":
            in_class = character == "["
        elif character == "(" and not in_class:
            opening = OPENING.match(pattern, position)
            if opening and opening[4] is not None:
                if opening[4] in names:
                    raise InvalidArgument(f"Invalid pattern: two groups have the same name (at {position}).")
                names[opening[4]] = count + 1
            count += pattern[position + 1 : position + 2] != "?" or bool(opening and opening[4] is not None)
        position += 1
    return count, names
