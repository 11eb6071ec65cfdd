r"""Apply edits to the bytes of a file: in order, all or nothing, every other byte unchanged. Pure.

A line ends with its `\n`; a `\r` before it belongs to the ending. New lines take the ending of what they replace, and
in a file that is CRLF throughout, plain `\n` in new content becomes CRLF. A byte order mark is no part of line 1.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Sequence
from typing import Any

from wap_kernel.files.edit.closest_match import find_closest
from wap_kernel.files.edit.js_regex import replace
from wap_kernel.files.notebooks.cells import NotebookDocument
from wap_kernel.model.command import Deadline
from wap_kernel.model.edits import CellEdit, DeleteLines, Edit, InsertLines, RegexReplace, ReplaceLines, ReplaceText
from wap_kernel.model.errors import EditAmbiguous, EditNotFound, InvalidArgument, TimedOut, TooLarge, WapError

QUOTED_CHARACTERS = 50
"""Characters of a text that an error quotes."""


def apply_edits(data: bytes, changes: Sequence[Edit], *, max_size: int, deadline: Deadline) -> bytes:
    """Return the new content. An error names the position of the edit that failed."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    content: bytes | _Lines = data[len(mark) :]
    for index, change in enumerate(changes):
        try:
            if isinstance(change, RegexReplace):
                content = _regex_replace(bytes(content), change, max_size, deadline)
            elif isinstance(change, ReplaceText):
                content = _replace_text(bytes(content), change, max_size)
            elif isinstance(change, CellEdit):
                _encode(getattr(change, "source", ""))
                document = NotebookDocument(bytes(content))
                document.apply(change)
                content = bytes(document)
            else:
                # Stays split from one line edit to the next: to split a large file for each would take seconds.
                content = content if isinstance(content, _Lines) else _Lines(content, marked=bool(mark))
                _LINE_EDITS[type(change)](content, change)
            _check_size(len(mark) + len(content), max_size)
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
    if change.which != "every":
        return 1
    return data.removeprefix(codecs.BOM_UTF8).count(_encode(change.old_content))


def _check_size(size: int, max_size: int) -> None:
    if size > max_size:
        raise TooLarge(f"The result would be larger than {max_size} bytes.", maxWriteSize=max_size)


def _replace_text(data: bytes, change: ReplaceText, max_size: int) -> bytes:
    old, new = _encode(change.old_content), _encode(change.new_content)
    if not old:
        raise InvalidArgument("The text to replace is empty.", hint="Name some text of the file.")
    first = data.find(old)
    if first < 0:
        near = find_closest(data.decode("utf-8", "replace"), change.old_content)
        raise EditNotFound(
            f'Could not find content to replace: "{change.old_content[:QUOTED_CHARACTERS]}..."',
            hint="Read the file again: the text must be the same, character for character.",
            **({} if near is None else {"closest": near.to_dict()}),
        )
    if change.which == "only" and data.rfind(old) != first:
        raise EditAmbiguous(
            "The text to replace occurs more than once.",
            hint="Add lines around it until it occurs once, or replace every occurrence.",
            occurrences=data.count(old),
        )
    count = data.count(old) if change.which == "every" else 1
    _check_size(len(data) + count * (len(new) - len(old)), max_size)  # before the text is built
    return data.replace(old, new, count)


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
    def ending(self) -> bytes:
        """The ending of new lines: CRLF if every line ends with it, else LF."""
        newlines = self.count - (self.count > 0 and not _ending(self._lines[-1]))
        return b"\r\n" if newlines and self._crlf == newlines else b"\n"

    def ending_of(self, number: int) -> bytes:
        return _ending(self._lines[number - 1])

    def splice(self, start: int, end: int, new: list[bytes]) -> None:
        """Replace the lines from `start` up to `end`, counted from 0 as in a slice, by `new`."""
        for sign, lines in ((-1, self._lines[start:end]), (1, new)):
            self._size += sign * sum(map(len, lines))
            self._crlf += sign * sum(line.endswith(b"\r\n") for line in lines)
        self._lines[start:end] = new

    def end_last_line(self) -> None:
        self.splice(self.count - 1, self.count, [self._lines[-1] + self.ending])

    def encode_content(self, content: str, *, at_top: bool) -> list[bytes]:
        """Return new content as lines with the endings of this file."""
        if at_top and self._marked:
            content = content.removeprefix("\ufeff")  # a caller who sends line 1 as it was read sends the mark along
        new = _encode(content)
        if self.ending == b"\r\n" and b"\r\n" not in new:
            new = new.replace(b"\n", b"\r\n")
        return split_lines(new)


def _replace(lines: _Lines, change: ReplaceLines) -> None:
    _check_range(change.start_line, change.end_line, lines.count)
    new = lines.encode_content(change.new_content, at_top=change.start_line == 1)
    if new and not _ending(new[-1]):
        new[-1] += lines.ending_of(change.end_line)
    lines.splice(change.start_line - 1, change.end_line, new)


def _insert(lines: _Lines, change: InsertLines) -> None:
    after = change.after_line
    if not 0 <= after <= lines.count:
        raise InvalidArgument(f"afterLine {after} is not in the file: it has {lines.count} lines.")
    new = lines.encode_content(change.new_content, at_top=after == 0)
    if new and lines.count:
        if after and not lines.ending_of(after):
            lines.end_last_line()  # now the new last line has no ending
        elif not _ending(new[-1]):
            new[-1] += lines.ending_of(max(after, 1)) or lines.ending
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
    _encode(change.replacement)
    # surrogateescape carries bytes that are not UTF-8 through the text and back unchanged.
    text = data.decode("utf-8", "surrogateescape")
    replaced = replace.replace(
        text, change.pattern, change.replacement, change.flags, max_size=max_size, deadline=deadline
    )
    return replaced.encode("utf-8", "surrogateescape")


def _encode(content: str) -> bytes:
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"The content is not Unicode text: half a character at {error.start}.") from None


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
