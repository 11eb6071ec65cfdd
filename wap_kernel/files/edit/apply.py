r"""Apply edits to the bytes of a file: in order, all or nothing, every other byte unchanged. Pure.

A line ends with its `\n`; a `\r` before it belongs to the ending. No edit leaves both kinds of line endings in a file
that had one kind: new content gets the file's own. In a file with both kinds, new lines that end with `\n` take the
ending of the lines that they replace or follow. A byte order mark is no part of line 1.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from wap_kernel.files.edit.js_regex import replace
from wap_kernel.files.edit.newlines import CRLF, LF, convert_newlines, find_ending, keep_newlines
from wap_kernel.files.edit.text_replacement import check_size, encode_text, locate_text, replace_text
from wap_kernel.files.notebooks.cells import NotebookDocument
from wap_kernel.model.command import Deadline
from wap_kernel.model.edits import CellEdit, DeleteLines, Edit, InsertLines, RegexReplace, ReplaceLines, ReplaceText
from wap_kernel.model.errors import EditNotFound, InvalidArgument, TimedOut, WapError


def apply_edits(data: bytes, changes: Sequence[Edit], *, max_size: int, deadline: Deadline) -> bytes:
    """Return the new content. An error names the position of the edit that failed."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    content: bytes | _Lines = data[len(mark) :]
    for index, change in enumerate(changes):
        try:
            if isinstance(change, RegexReplace):
                content = _regex_replace(bytes(content), change, max_size, deadline)
            elif isinstance(change, ReplaceText):
                content = replace_text(bytes(content), change, max_size)
            elif isinstance(change, CellEdit):
                encode_text(getattr(change, "source", ""))
                document = NotebookDocument(bytes(content))
                document.apply(change)
                content = bytes(document)
            else:
                # Stays split from one line edit to the next: to split a large file for each would take seconds.
                content = content if isinstance(content, _Lines) else _Lines(content, marked=bool(mark))
                _LINE_EDITS[type(change)](content, change)
            check_size(len(mark) + len(content), max_size)
            if not deadline.remaining:
                raise TimedOut("The changes took too long.", hint="Send fewer changes at once; nothing was changed.")
        except WapError as error:
            error.details["operation"] = index
            raise
    return mark + bytes(content)


def count_replacements(data: bytes, changes: Sequence[Edit]) -> int | None:
    """Return how often a single literal replacement occurs in `data`; None for other edits."""
    if len(changes) != 1 or not isinstance(changes[0], ReplaceText):
        return None
    change = changes[0]
    return 1 if change.which != "every" else locate_text(data.removeprefix(codecs.BOM_UTF8), change).count


def split_lines(data: bytes) -> list[bytes]:
    return io.BytesIO(data).readlines()


class _Lines:
    """The lines of a file, with their size in bytes and their usual ending, which edits keep up to date."""

    def __init__(self, data: bytes, *, marked: bool) -> None:
        self._lines = split_lines(data)
        self._size = len(data)
        self._crlf = data.count(b"\r\n")
        self._marked = marked

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self._lines)

    @property
    def count(self) -> int:
        return len(self._lines)

    @property
    def ending(self) -> bytes | None:
        """The ending that every line has; None if there are both kinds or no line ending."""
        newlines = self._newlines
        return None if not newlines or 0 < self._crlf < newlines else CRLF if self._crlf else LF

    @property
    def usual_ending(self) -> bytes:
        """The ending that most lines have."""
        return CRLF if 2 * self._crlf > self._newlines else LF

    @property
    def _newlines(self) -> int:
        return self.count - (self.count > 0 and not _ending(self._lines[-1]))

    def ending_of(self, number: int) -> bytes:
        return _ending(self._lines[number - 1])

    def splice(self, start: int, end: int, new: list[bytes]) -> None:
        """Replace the lines from `start` up to `end`, counted from 0 as in a slice, by `new`."""
        for sign, lines in ((-1, self._lines[start:end]), (1, new)):
            self._size += sign * sum(map(len, lines))
            self._crlf += sign * sum(line.endswith(b"\r\n") for line in lines)
        self._lines[start:end] = new

    def end_last_line(self) -> None:
        self.splice(self.count - 1, self.count, [self._lines[-1] + self.usual_ending])

    def encode_content(self, content: str, *, at_top: bool, near: tuple[int, int]) -> list[bytes]:
        """Return new content as lines with the endings of this file, where it has both kinds those of lines `near`."""
        if at_top and self._marked:
            content = content.removeprefix("\ufeff")  # a caller who sends line 1 as it was read sends the mark along
        new = encode_text(content)
        ending = self.ending
        if ending is None and self._newlines and CRLF not in new:
            region = b"".join(self._lines[near[0] - 1 : near[1]])
            ending = find_ending(region) or self.usual_ending
        return split_lines(new if ending is None else convert_newlines(new, ending))


def _replace(lines: _Lines, change: ReplaceLines) -> None:
    _check_range(change.start_line, change.end_line, lines.count)
    region = (change.start_line, change.end_line)
    new = lines.encode_content(change.new_content, at_top=change.start_line == 1, near=region)
    if new and not _ending(new[-1]):
        new[-1] += lines.ending_of(change.end_line)
    lines.splice(change.start_line - 1, change.end_line, new)


def _insert(lines: _Lines, change: InsertLines) -> None:
    after = change.after_line
    if not 0 <= after <= lines.count:
        raise InvalidArgument(f"afterLine {after} is not in the file: it has {lines.count} lines.")
    before = max(after, 1)
    new = lines.encode_content(change.new_content, at_top=after == 0, near=(before, before))
    if new and lines.count:
        if after and not lines.ending_of(after):
            lines.end_last_line()  # now the new last line has no ending
        elif not _ending(new[-1]):
            new[-1] += lines.ending_of(before) or lines.usual_ending
    lines.splice(after, after, new)


def _delete(lines: _Lines, change: DeleteLines) -> None:
    _check_range(change.start_line, change.end_line, lines.count)
    lines.splice(change.start_line - 1, change.end_line, [])


_LINE_EDITS: dict[type, Callable[[_Lines, Any], None]] = {
    ReplaceLines: _replace,
    InsertLines: _insert,
    DeleteLines: _delete,
}


def _regex_replace(data: bytes, change: RegexReplace, max_size: int, deadline: Deadline) -> bytes:
    encode_text(change.replacement)

    def apply(content: bytes) -> bytes:
        # surrogateescape carries bytes that are not UTF-8 through the text and back unchanged.
        text = content.decode("utf-8", "surrogateescape")
        replaced = replace.replace(
            text, change.pattern, change.replacement, change.flags, max_size=max_size, deadline=deadline
        )
        return replaced.encode("utf-8", "surrogateescape")

    try:
        return keep_newlines(data, apply(data))
    except EditNotFound:
        ending = find_ending(data)
        if ending is None or not _NEWLINE.search(change.pattern) or b"\r\r\n" in data:
            raise
        # The pattern may be written for the other line ending; `\r\r\n` would not survive the way back.
        return convert_newlines(apply(convert_newlines(data, LF if ending == CRLF else CRLF)), ending)


_NEWLINE = re.compile(r"\n|\\n")
"""A line ending in a pattern, as it is or escaped."""


def _check_range(start: int, end: int, total: int) -> None:
    if start > end:
        raise InvalidArgument(f"startLine {start} is after endLine {end}.")
    if start < 1 or end > total:
        raise InvalidArgument(
            f"Lines {start} to {end} are not in the file: it has {total} lines.",
            hint="Read the file again; earlier changes of the same call count too.",
            totalLines=total,
        )


def _ending(line: bytes) -> bytes:
    if line.endswith(b"\r\n"):
        return b"\r\n"
    return b"\n" if line.endswith(b"\n") else b""
