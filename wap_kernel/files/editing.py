"""Edits on the bytes of a file: in order, all or nothing. Pure; what an edit does not touch stays byte for byte.

A line ends with its `\n`; a `\r` before it belongs to the ending. New lines take the ending of what they replace, and
in a file that is CRLF throughout, plain `\n` in new content becomes CRLF.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wap_kernel.errors import InvalidArgument, WapError
from wap_kernel.files import jsregex
from wap_kernel.operations import Change, DeleteLines, InsertLines, RegexReplace, ReplaceLines


def apply(data: bytes, changes: Sequence[Change], *, max_size: int) -> bytes:
    """The new content. An error names the position of the change that failed."""
    for index, change in enumerate(changes):
        try:
            data = _APPLY[type(change)](data, change, max_size)
        except WapError as error:
            error.details["operation"] = index
            raise
    return data


def split_lines(data: bytes) -> list[bytes]:
    *lines, rest = data.split(b"\n")
    return [line + b"\n" for line in lines] + ([rest] if rest else [])


def _replace(data: bytes, change: ReplaceLines, _: int) -> bytes:
    lines = split_lines(data)
    _check_range(change.start_line, change.end_line, len(lines))
    new = _new_lines(change.new_content, data)
    if new:
        new[-1] += _ending(lines[change.end_line - 1]) if not _ending(new[-1]) else b""
    lines[change.start_line - 1 : change.end_line] = new
    return b"".join(lines)


def _insert(data: bytes, change: InsertLines, _: int) -> bytes:
    lines = split_lines(data)
    after = change.after_line
    if not 0 <= after <= len(lines):
        raise InvalidArgument(f"afterLine {after} is not in the file: it has {len(lines)} lines.")
    new = _new_lines(change.new_content, data)
    if new and lines:
        if after and not _ending(lines[after - 1]):
            lines[after - 1] += _file_ending(data)  # the last line had no ending; now the new last line has none
        elif not _ending(new[-1]):
            new[-1] += _ending(lines[max(after, 1) - 1]) or _file_ending(data)
    lines[after:after] = new
    return b"".join(lines)


def _delete(data: bytes, change: DeleteLines, _: int) -> bytes:
    lines = split_lines(data)
    _check_range(change.start_line, change.end_line, len(lines))
    del lines[change.start_line - 1 : change.end_line]
    return b"".join(lines)


def _regex_replace(data: bytes, change: RegexReplace, max_size: int) -> bytes:
    # surrogateescape carries bytes that are not UTF-8 through the text and back unchanged.
    text = data.decode("utf-8", "surrogateescape")
    replaced = jsregex.replace(text, change.pattern, change.replacement, change.flags, max_size=max_size)
    return replaced.encode("utf-8", "surrogateescape")


_APPLY: dict[type, Callable[..., bytes]] = {
    ReplaceLines: _replace,
    InsertLines: _insert,
    DeleteLines: _delete,
    RegexReplace: _regex_replace,
}


def _check_range(start: int, end: int, total: int) -> None:
    if start > end:
        raise InvalidArgument(f"startLine {start} is after endLine {end}.")
    if start < 1 or end > total:
        raise InvalidArgument(
            f"Lines {start} to {end} are not in the file: it has {total} lines.",
            hint="Read the file again; earlier changes of the same call count too.",
            totalLines=total,
        )


def _new_lines(content: str, data: bytes) -> list[bytes]:
    new = content.encode("utf-8")
    if _file_ending(data) == b"\r\n" and b"\r\n" not in new:
        new = new.replace(b"\n", b"\r\n")
    return split_lines(new)


def _file_ending(data: bytes) -> bytes:
    newlines = data.count(b"\n")
    return b"\r\n" if newlines and data.count(b"\r\n") == newlines else b"\n"


def _ending(line: bytes) -> bytes:
    if line.endswith(b"\r\n"):
        return b"\r\n"
    return b"\n" if line.endswith(b"\n") else b""
