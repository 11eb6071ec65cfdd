"""Parse git's diffs, and leave out the files that policy does not show. Pure.

`git diff --raw --numstat --patch -z` says everything twice: first a table of the files with their counts, then the
patches. A patch is returned only if its own headers name a visible file of the table, so whatever git prints, a
patch of something else is not passed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from wap_kernel.git.output_parser import KINDS, decode_text
from wap_kernel.model.git.results import Diff, FileDiff
from wap_kernel.model.paths import join_path, render_path

MayRead = Callable[[str], bool]
"""A function that returns whether policy shows a path, relative to the workspace."""

_NUMBERS = tuple(b"%c" % digit for digit in b"0123456789-")
_FIRST = b"diff --git "
_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


@dataclass(frozen=True)
class _Row:
    kind: str
    path: str
    old: str | None
    added: int | None = None
    deleted: int | None = None


def parse_diff(data: bytes, *, folder: str, may_read: MayRead, truncated: bool = False) -> Diff:
    """Parse the diff of a repository in `folder`; `truncated` says that the data ends somewhere in the middle."""
    rows, rest = _parse_table(data)
    visible = [row for row in rows if _may_show(row.path, row.old, folder, may_read)]
    allowed = {(row.old or row.path, row.path) for row in visible}
    patches: dict[str, list[bytes]] = {}
    for (old, new), patch in _split_patches(rest):
        if (old, new) in allowed:
            patches.setdefault(new, []).append(patch)
    return Diff(
        files=tuple(
            FileDiff(
                path=render_path(join_path(folder, row.path)),
                kind=row.kind,
                added=row.added,
                deleted=row.deleted,
                patch=b"".join(patches.get(row.path, ())).decode("utf-8", "replace"),
                old_path=None if row.old is None else render_path(join_path(folder, row.old)),
            )
            for row in visible
        ),
        left_out=len(rows) - len(visible),
        truncated=truncated,
    )


def _may_show(path: str, old: str | None, folder: str, may_read: MayRead) -> bool:
    return may_read(join_path(folder, path)) and (old is None or may_read(join_path(folder, old)))


def _parse_table(data: bytes) -> tuple[list[_Row], bytes]:
    """Return the rows of the table, and the rest of the data: the patches."""
    rows: list[_Row] = []
    counts: dict[str, tuple[int | None, int | None]] = {}
    position = 0

    def take() -> bytes:
        nonlocal position
        end = data.find(b"\0", position)
        if end < 0:
            raise EOFError
        found, position = data[position:end], end + 1
        return found

    try:
        while data[position : position + 1] == b":":
            code = decode_text(take()).rpartition(" ")[2][:1]
            first = decode_text(take())
            second = decode_text(take()) if code in ("R", "C") else None
            rows.append(_Row(KINDS.get(code, "modified"), second or first, first if second else None))
        while data[position : position + 1] in _NUMBERS:
            added, deleted, name = take().split(b"\t", 2)
            if not name:  # a rename: both names follow
                take()
                name = take()
            counts[decode_text(name)] = (_parse_number(added), _parse_number(deleted))
    except (EOFError, ValueError):
        position = len(data)  # cut off in the table already
    if data[position : position + 1] == b"\0":
        position += 1
    unmerged = {row.path for row in rows if row.kind == KINDS["U"]}  # named again with what has changed in it
    rows = [row for row in rows if row.path not in unmerged or row.kind == KINDS["U"]]
    return [_add_counts(row, counts) for row in rows], data[position:]


def _parse_number(data: bytes) -> int | None:
    return int(data) if data.isdigit() else None


def _add_counts(row: _Row, counts: dict[str, tuple[int | None, int | None]]) -> _Row:
    added, deleted = counts.get(row.path, (0, 0))
    return replace(row, added=added, deleted=deleted)


def _split_patches(data: bytes) -> Iterator[tuple[tuple[str, str], bytes]]:
    """Yield the patches with the names in their headers. In a patch, only its first line can begin like that."""
    starts = [match.start() for match in re.finditer(rb"^(?:diff --|\* Unmerged path )", data, re.MULTILINE)]
    for start, end in zip(starts, (*starts, len(data))[1:], strict=True):
        patch = data[start:end]
        names = _parse_names(patch)
        if names is not None:
            yield names, patch


def _parse_names(patch: bytes) -> tuple[str, str] | None:
    header = patch.split(b"\n@@ ", 1)[0].split(b"\n")
    if not header[0].startswith(_FIRST):
        return None
    found = {}
    for line in header[1:]:
        for word in (b"rename from ", b"rename to ", b"copy from ", b"copy to "):
            if line.startswith(word):
                found[word.split()[1]] = _unquote(line[len(word) :])
    if found:
        return (decode_text(found[b"from"]), decode_text(found[b"to"])) if len(found) == 2 else None
    # Both names are the same, so the middle is the blank between them, whatever the names hold.
    both = header[0][len(_FIRST) :]
    half, odd = divmod(len(both) - 1, 2)
    one, two = _unquote(both[:half]), _unquote(both[half + 1 :])
    if odd or one[:2] != b"a/" or two[:2] != b"b/" or one[2:] != two[2:]:
        return None
    return decode_text(one[2:]), decode_text(two[2:])


def _unquote(name: bytes) -> bytes:
    """Return the name that git quotes in C's manner when it holds unusual characters."""
    if not (len(name) >= 2 and name.startswith(b'"') and name.endswith(b'"')):
        return name

    def unescape(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 255 if len(code) == 3 else _ESCAPES.get(code, code[0])])

    return _ESCAPED.sub(unescape, name[1:-1])
