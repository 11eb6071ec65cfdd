"""Unified diffs of two versions of a file, bounded in time and size. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

MAX_COMPARED_LINES = 4000
"""difflib is quadratic at worst; a larger changed middle is shown as replaced whole."""
MAX_DIFF_CHARACTERS = 64 * 1024
CONTEXT = 3


def unified(path: str, old: bytes, new: bytes) -> tuple[str, bool]:
    """The diff as text, and whether it was cut. Bytes that are not UTF-8 are shown replaced."""
    if old == new:
        return "", False
    before, after = _lines(old), _lines(new)
    head = _common(iter(before), iter(after))
    tail = min(_common(reversed(before), reversed(after)), min(len(before), len(after)) - head)
    lines = [f"--- a/{path}\n", f"+++ b/{path}\n"]
    size = 0
    for line in _hunks(before, after, head, tail):
        shown = line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        size += len(shown)
        if size > MAX_DIFF_CHARACTERS:
            return "".join(lines), True
        lines.append(shown)
    return "".join(lines), False


def _hunks(before: list[str], after: list[str], head: int, tail: int) -> Iterator[str]:
    first = max(0, head - CONTEXT)
    old = before[first : len(before) - max(0, tail - CONTEXT)]
    new = after[first : len(after) - max(0, tail - CONTEXT)]
    if len(old) + len(new) > MAX_COMPARED_LINES:
        lead, rest = head - first, min(tail, CONTEXT)
        yield _range_header(first, len(old), len(new))
        yield from (f" {line}" for line in old[:lead])
        yield from (f"-{line}" for line in old[lead : len(old) - rest])
        yield from (f"+{line}" for line in new[lead : len(new) - rest])
        yield from (f" {line}" for line in old[len(old) - rest :])
        return
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield _group_header(group, first)
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[old_start:old_end])
                continue
            yield from (f"-{line}" for line in old[old_start:old_end])
            yield from (f"+{line}" for line in new[new_start:new_end])


def _group_header(group: list[tuple[str, int, int, int, int]], offset: int) -> str:
    old_start, old_end = group[0][1], group[-1][2]
    new_start, new_end = group[0][3], group[-1][4]
    old_position = _position(old_start + offset, old_end - old_start)
    new_position = _position(new_start + offset, new_end - new_start)
    return f"@@ -{old_position} +{new_position} @@\n"


def _range_header(offset: int, old_count: int, new_count: int) -> str:
    return f"@@ -{_position(offset, old_count)} +{_position(offset, new_count)} @@\n"


def _position(start: int, count: int) -> str:
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _lines(data: bytes) -> list[str]:
    *lines, rest = data.decode("utf-8", "replace").split("\n")
    return [f"{line}\n" for line in lines] + ([rest] if rest else [])


def _common(one: Iterator[str], other: Iterator[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
