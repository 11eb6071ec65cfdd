"""Lines in blocks of bytes: where a literal occurs, and the texts of numbered lines. A file is never held whole.

Lines end at `\\n`; a `\\r` before it belongs to the ending. Pure functions over an iterable of blocks.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from wap_kernel.files.interface import OpenFile
from wap_kernel.model.limits import MAX_MATCH_LINE_CHARACTERS

BLOCK = 256 * 1024

_MAX_LINE_BYTES = 4 * MAX_MATCH_LINE_CHARACTERS  # no character of UTF-8 has more than four bytes


class Hit(NamedTuple):
    """A line that matches."""

    line: int
    """Its number, from 1."""
    start: int
    """Where it begins in the file."""
    at: int
    """Bytes of the line before its first match."""


def blocks(file: OpenFile, tick: Callable[[], None] = lambda: None) -> Iterator[bytes]:
    """The rest of the file; `tick` is called before every block and may raise to stop."""
    while True:
        tick()
        block = file.read(BLOCK)
        if not block:
            return
        yield block


def hits(found: Iterable[bytes], literal: bytes, limit: int) -> list[Hit]:
    """The first `limit` lines that hold `literal`, which has no line ending in it."""
    numbered: list[Hit] = []
    line, start = 1, 0  # of the line that is looked at
    offset = 0  # of the first byte of `data`
    tail = b""  # the end of the block before, in which `literal` may have begun
    for block in found:
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


def column_in(data: bytes, hit: Hit) -> int:
    """The number, from 1, of the character that the match begins with, in the line as `texts_of` decodes it."""
    piece = data[hit.start : hit.start + hit.at + 1]
    return len(piece) if len(piece) > hit.at and piece.isascii() else _column([piece], hit.at)


def column_of(file: OpenFile, hit: Hit, tick: Callable[[], None]) -> int:
    """The same for a file that is not held whole."""
    file.seek(hit.start)
    return _column(_first(blocks(file, tick), hit.at + 1), hit.at)


def texts_of(found: Iterable[bytes], numbers: Iterable[int]) -> dict[int, str]:
    """The lines with the given numbers, as far as they exist, decoded and cut."""
    wanted = sorted({number for number in numbers if number > 0}, reverse=True)
    texts: dict[int, str] = {}
    line = 1
    begun = bytearray()  # what is known of the current line, if it is wanted
    for block in found if wanted else ():
        if wanted[-1] > line:
            skipped = block.count(b"\n")
            if line + skipped < wanted[-1]:
                line += skipped
                continue
        start = 0
        while True:
            end = block.find(b"\n", start)
            if wanted[-1] == line:
                piece = block[start : end if end >= 0 else len(block)]
                begun += piece[: _MAX_LINE_BYTES + 2 - len(begun)]
                if end >= 0:
                    texts[wanted.pop()] = _text(begun.removesuffix(b"\r"))
                    begun.clear()
                    if not wanted:
                        return texts
            if end < 0:
                break
            line += 1
            start = end + 1
    if begun:  # the last line has no ending
        texts[line] = _text(begun)
    return texts


def texts_in(data: bytes, numbers: Iterable[int]) -> dict[int, str]:
    """The same as `texts_of` for a text that is held whole, and faster when it is short."""
    wanted = sorted({number for number in numbers if number > 0})
    if not wanted:
        return {}
    lines = data.split(b"\n", wanted[-1])
    last = len(lines)  # what follows the last newline, or the rest of the text, which is not wanted then
    texts = {number: _text(lines[number - 1].removesuffix(b"\r")) for number in wanted if number < last}
    if last <= wanted[-1] and lines[-1] and last in wanted:
        texts[last] = _text(lines[-1])
    return texts


def _text(line: bytes | bytearray) -> str:
    if len(line) <= MAX_MATCH_LINE_CHARACTERS:
        return line.decode("utf-8", "replace")
    return bytes(line[:_MAX_LINE_BYTES]).decode("utf-8", "replace")[:MAX_MATCH_LINE_CHARACTERS]


def _first(found: Iterable[bytes], size: int) -> Iterator[bytes]:
    for block in found:
        yield block[:size]
        size -= len(block)
        if size <= 0:
            return


def _column(line: Iterable[bytes], at: int) -> int:
    """`line` ends with the byte `at`: what that byte completes, or has begun, is the character that is asked for."""
    decoder = getincrementaldecoder("utf-8")("replace")
    length = characters = 0
    for piece in line:
        length += len(piece)
        characters += len(decoder.decode(piece))
    if length <= at:  # an empty match, where the file ends
        return characters + len(decoder.decode(b"", final=True)) + 1
    return characters + bool(decoder.getstate()[0])
