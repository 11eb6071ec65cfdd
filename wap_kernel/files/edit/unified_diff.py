"""Render a unified diff of two versions of a file, bounded in work and size. Pure.

Myers' algorithm, as in git, because its work is easily counted: beyond `MAX_STEPS` all that lies between the first and
the last difference is shown as replaced, which is a valid diff though not the shortest.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from wap_kernel.model.limits import MAX_DIFF_CHARACTERS

MAX_STEPS = 1_000_000
"""Steps of comparing lines; each takes 4 bytes of memory."""
MAX_LINE_CHARACTERS = 2000
"""Characters of a line in a diff that was truncated."""
CONTEXT = 3

_Change = tuple[int, int, int, int]
"""Start and end in the old lines, start and end in the new lines that replace them."""
_QUOTED = {
    '"': '\\"',
    "\\": "\\\\",
    **dict(zip("\a\b\t\n\v\f\r", (f"\\{letter}" for letter in "abtnvfr"), strict=True)),
}


def render_diff(path: str, old: bytes, new: bytes) -> tuple[str, bool]:
    """Return the diff as text, and whether it was truncated. Bytes that are not UTF-8 are replaced."""
    if old == new:
        return "", False
    before, after = _lines(old), _lines(new)
    changes = _changes(before, after)
    text, is_truncated = _truncate(path, _hunks(before, after, changes))
    if is_truncated:
        # The person who decides on it sees a part of every line that there is room for.
        text, _ = _truncate(path, map(_shorten, _hunks(before, after, changes)))
    return text, is_truncated


def _truncate(path: str, hunks: Iterator[str]) -> tuple[str, bool]:
    lines = [f"--- {quote_path(f'a/{path}')}\n", f"+++ {quote_path(f'b/{path}')}\n"]
    size = 0
    for line in hunks:
        rendered = line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        size += len(rendered)
        if size > MAX_DIFF_CHARACTERS:
            return "".join(lines), True
        lines.append(rendered)
    return "".join(lines), False


def _shorten(line: str) -> str:
    text = line.removesuffix("\n")
    if len(text) <= MAX_LINE_CHARACTERS:
        return line
    left_out = len(text) - MAX_LINE_CHARACTERS
    return f"{text[:MAX_LINE_CHARACTERS]} [... {left_out} characters left out ...]{line[len(text) :]}"


def quote_path(path: str) -> str:
    """Return the path as git writes it: in quotes if a character could be misread. Letters stay as they are."""
    if path.isprintable() and not _QUOTED.keys() & set(path):
        return path
    return f'"{"".join(_escape(character) for character in path)}"'


def _escape(character: str) -> str:
    if character in _QUOTED:
        return _QUOTED[character]
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


# -- hunks


def _hunks(before: list[str], after: list[str], changes: list[_Change]) -> Iterator[str]:
    for group in _group(changes):
        lead = min(CONTEXT, group[0][0])
        tail = min(CONTEXT, len(before) - group[-1][1])
        start, end = group[0][0] - lead, group[-1][1] + tail
        new_start, new_end = group[0][2] - lead, group[-1][3] + tail
        yield f"@@ -{_position(start, end - start)} +{_position(new_start, new_end - new_start)} @@\n"
        for old_start, old_end, added_start, added_end in group:
            yield from (f" {line}" for line in before[start:old_start])
            yield from (f"-{line}" for line in before[old_start:old_end])
            yield from (f"+{line}" for line in after[added_start:added_end])
            start = old_end
        yield from (f" {line}" for line in before[start:end])


def _group(changes: list[_Change]) -> Iterator[list[_Change]]:
    group: list[_Change] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _position(start: int, count: int) -> str:
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


# -- comparison


def _changes(before: list[str], after: list[str]) -> list[_Change]:
    head = _count_common(iter(before), iter(after))
    tail = min(_count_common(reversed(before), reversed(after)), min(len(before), len(after)) - head)
    old_end, new_end = len(before) - tail, len(after) - tail
    # Lines that only one side has are no part of what is common; without them there is often nothing left to compare.
    in_both = set(before[head:old_end]).intersection(after[head:new_end])
    number = {line: index for index, line in enumerate(in_both)}  # long lines are then compared once only
    old = [index for index in range(head, old_end) if before[index] in number]
    new = [index for index in range(head, new_end) if after[index] in number]
    old_numbers, new_numbers = [number[before[index]] for index in old], [number[after[index]] for index in new]
    pairs = _longest_common(old_numbers, new_numbers, MAX_STEPS) or []
    changes: list[_Change] = []
    old_start, new_start = head, head
    for old_index, new_index in [*((old[one], new[other]) for one, other in pairs), (old_end, new_end)]:
        if old_index > old_start or new_index > new_start:
            changes.append((old_start, old_index, new_start, new_index))
        old_start, new_start = old_index + 1, new_index + 1
    return changes


def _longest_common(old: Sequence[int], new: Sequence[int], steps: int) -> list[tuple[int, int]] | None:
    """Return the index pairs of a longest common subsequence, or None if it takes more steps (Myers, 1986)."""
    rows: list[array[int]] = []
    previous = array("i", [0])  # how far each diagonal got with one edit less
    for edits in range(len(old) + len(new) + 1):
        row = array("i")
        for diagonal in range(-edits, edits + 1, 2):
            x = _enter_diagonal(previous, edits, diagonal)[0] if edits else 0
            start = x
            while x < len(old) and x - diagonal < len(new) and old[x] == new[x - diagonal]:
                x += 1
            steps -= 1 + x - start
            if steps < 0:
                return None
            row.append(x)
            if x >= len(old) and x - diagonal >= len(new):
                return _walk_back(rows, x, diagonal)
        rows.append(row)
        previous = row
    raise AssertionError("deleting every line and adding every other is always enough")


def _enter_diagonal(previous: array[int], edits: int, diagonal: int) -> tuple[int, int]:
    """Return where the last edit enters `diagonal`, and the diagonal that it comes from.

    The edit adds a new line or removes an old one.
    """
    left = (diagonal - 1 + edits - 1) // 2
    if diagonal == -edits or (diagonal != edits and previous[left] < previous[left + 1]):
        return previous[left + 1], diagonal + 1
    return previous[left] + 1, diagonal - 1


def _walk_back(rows: list[array[int]], x: int, diagonal: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(rows), -1, -1):
        start, came_from = _enter_diagonal(rows[edits - 1], edits, diagonal) if edits else (0, 0)
        pairs += ((index, index - diagonal) for index in range(x - 1, start - 1, -1))
        if edits:
            x, diagonal = rows[edits - 1][(came_from + edits - 1) // 2], came_from
    return pairs[::-1]


def _lines(data: bytes) -> list[str]:
    *lines, rest = data.decode("utf-8", "replace").split("\n")
    return [f"{line}\n" for line in lines] + ([rest] if rest else [])


def _count_common(one: Iterator[str], other: Iterator[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
