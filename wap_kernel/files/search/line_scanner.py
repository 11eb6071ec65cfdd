r"""Scan blocks of bytes for lines: find a literal, read numbered lines. A file is never in memory as a whole.

Lines end at `\n`; a `\r` before it belongs to the ending. Pure functions over an iterable of blocks.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from wap_kernel.files.interface import OpenFile
from wap_kernel.model.limits import MAX_MATCH_LINE_CHARACTERS
from wap_kernel.model.results import CUT_MARK

BLOCK = 256 * 1024

LEAD_CHARACTERS = 500
"""Characters before the match in the excerpt of a long line."""

_MAX_LINE_BYTES = 4 * MAX_MATCH_LINE_CHARACTERS  # no character of UTF-8 has more than four bytes
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


class Hit(NamedTuple):
    """A line that matches."""

    line: int
    """The line's number, from 1."""
    start: int
    """The line's offset in the file."""
    at: int
    """Bytes of the line before its first match."""


def read_blocks(file: OpenFile, tick: Callable[[], None] = lambda: None) -> Iterator[bytes]:
    """Yield the rest of the file; `tick` is called before every block and may raise to stop."""
    while True:
        tick()
        block = file.read(BLOCK)
        if not block:
            return
        yield block


def find_hits(data_blocks: Iterable[bytes], literal: bytes, limit: int) -> list[Hit]:
    """Return the first `limit` lines that contain `literal`, which has no line ending in it."""
    numbered: list[Hit] = []
    line, start = 1, 0  # of the current line
    offset = 0  # of the first byte of `data`
    tail = b""  # the end of the block before, in which `literal` may have begun
    for block in data_blocks:
        data = tail + block
        done = 0  # how far the newlines of `data` are counted
        hit = data.find(literal)
        while hit >= 0:
            if newlines := data.count(b"\n", done, hit):
                line += newlines
                start = offset + data.rindex(b"\n", done, hit) + 1
            done = hit
            if not numbered or numbered[-1].line != line:  # a long line may go on into this block
                numbered.append(Hit(line, start, offset + hit - start))
                if len(numbered) == limit:
                    return numbered
            end = data.find(b"\n", hit)
            hit = data.find(literal, end) if end >= 0 else -1
        keep = max(done, len(data) - len(literal) + 1)
        if newlines := data.count(b"\n", done, keep):
            line += newlines
            start = offset + data.rindex(b"\n", done, keep) + 1
        tail = data[keep:]
        offset += keep
    return numbered


def compute_column(data: bytes, hit: Hit) -> int:
    """Return the number, from 1, of the character where the match begins, in the line as `read_lines` decodes it."""
    piece = data[hit.start : hit.start + hit.at + 1]
    return len(piece) if len(piece) > hit.at and piece.isascii() else _count_column([piece], hit.at)


def read_column(file: OpenFile, hit: Hit, tick: Callable[[], None]) -> int:
    """Return what `compute_column` does, for a file that is read block by block."""
    file.seek(hit.start)
    return _count_column(_take_bytes(read_blocks(file, tick), hit.at + 1), hit.at)


def read_lines(data_blocks: Iterable[bytes], numbers: Iterable[int]) -> dict[int, str]:
    """Return the lines with the given numbers, as far as they exist, decoded and truncated."""
    pending = sorted({number for number in numbers if number > 0}, reverse=True)
    texts: dict[int, str] = {}
    line = 1
    partial = bytearray()  # the beginning of the current line, if its number is among `numbers`
    for block in data_blocks if pending else ():
        if pending[-1] > line:
            skipped = block.count(b"\n")
            if line + skipped < pending[-1]:
                line += skipped
                continue
        start = 0
        while True:
            end = block.find(b"\n", start)
            if pending[-1] == line:
                piece = block[start : end if end >= 0 else len(block)]
                partial += piece[: _MAX_LINE_BYTES + 2 - len(partial)]
                if end >= 0:
                    texts[pending.pop()] = _decode(partial.removesuffix(b"\r"))
                    partial.clear()
                    if not pending:
                        return texts
            if end < 0:
                break
            line += 1
            start = end + 1
    if partial:  # the last line has no ending
        texts[line] = _decode(partial)
    return texts


def split_lines(data: bytes, numbers: Iterable[int]) -> dict[int, str]:
    """Return what `read_lines` does, for a whole text, and faster if it is short."""
    pending = sorted({number for number in numbers if number > 0})
    if not pending:
        return {}
    lines = data.split(b"\n", pending[-1])
    last = len(lines)  # what follows the last newline, or the rest of the text, whose number is not pending then
    texts = {number: _decode(lines[number - 1].removesuffix(b"\r")) for number in pending if number < last}
    if last <= pending[-1] and lines[-1] and last in pending:
        texts[last] = _decode(lines[-1])
    return texts


def read_excerpt(read: Callable[[int, int], bytes], hit: Hit) -> str:
    """Return the part of a line around its match, with marks where it was cut; the whole line if it is short.

    `read` returns the bytes of the file at an offset, up to a size.
    """
    begin = max(0, hit.at - _MAX_LINE_BYTES)
    data = read(hit.start + begin, hit.at - begin + _MAX_LINE_BYTES)
    before, after = data[: hit.at - begin], data[hit.at - begin :]
    after, newline, _ = after.partition(b"\n")
    goes_on = not newline and len(after) == _MAX_LINE_BYTES
    if newline:
        after = after.removesuffix(b"\r")
    if begin:
        before = before.lstrip(_CONTINUATION_BYTES)  # of a character whose beginning was not read
    head = before.decode("utf-8", "replace")
    text = head + after.decode("utf-8", "replace")
    if not begin and not goes_on and len(text) <= MAX_MATCH_LINE_CHARACTERS:
        return text
    start = max(0, len(head) - LEAD_CHARACTERS)
    if not goes_on:
        start = min(start, len(text) - MAX_MATCH_LINE_CHARACTERS + len(CUT_MARK))
    return _cut_end(f"{CUT_MARK}{text[start:]}" if start > 0 else text)


def _decode(line: bytes | bytearray) -> str:
    return _cut_end(line[: _MAX_LINE_BYTES + 1].decode("utf-8", "replace"))


def _cut_end(text: str) -> str:
    if len(text) <= MAX_MATCH_LINE_CHARACTERS:
        return text
    return text[: MAX_MATCH_LINE_CHARACTERS - len(CUT_MARK)] + CUT_MARK


def _take_bytes(data_blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    for block in data_blocks:
        yield block[:size]
        size -= len(block)
        if size <= 0:
            return


def _count_column(line: Iterable[bytes], at: int) -> int:
    """Return the number of the character that the byte `at`, the last of `line`, belongs to."""
    decoder = getincrementaldecoder("utf-8")("replace")
    length = characters = 0
    for piece in line:
        length += len(piece)
        characters += len(decoder.decode(piece))
    if length <= at:  # an empty match, where the file ends
        return characters + len(decoder.decode(b"", final=True)) + 1
    return characters + bool(decoder.getstate()[0])
