"""Collect the beginning and the end of a command's output, within a limit, as text. Pure; reads nothing.

The text depends on the bytes alone, never on how they were cut into reads. Bytes are decoded once, at the end, so a
character cut across two reads is whole; where the middle is left out, the cuts are moved to character boundaries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_MARKER_SPACE = 64
_LONGEST_CHARACTER = 4


@dataclass(frozen=True)
class OutputText:
    """One stream as text. `total` counts the bytes that the command wrote, also those left out."""

    text: str
    total: int
    truncated: bool


class OutputCollector:
    """The first and the last bytes of one stream: at most about 1.5 times `limit` in memory."""

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._head = bytearray()
        self._head_size = limit - limit // 2
        self._tail = bytearray()
        self._tail_size = limit // 2

    def feed(self, chunk: bytes | bytearray | memoryview) -> None:
        self.total += len(chunk)
        rest = memoryview(chunk)
        missing = self._head_size - len(self._head)
        if missing:
            self._head += rest[:missing]
            rest = rest[missing:]
        if len(rest) >= self._tail_size:
            self._tail[:] = rest[len(rest) - self._tail_size :]
            return
        self._tail += rest
        if len(self._tail) > 2 * self._tail_size:  # not at every chunk: moving the rest down costs its size
            del self._tail[: -self._tail_size]

    def text_size(self) -> int:
        """Return the bytes of UTF-8 that the whole output takes: more than `total` where bytes had to be replaced."""
        return _text_size(self._stored_bytes()) if self._is_whole else self.total

    def text(self, budget: int) -> OutputText:
        """Return the output in `budget` bytes of UTF-8, or little more if the line about the rest needs more."""
        stored = self._stored_bytes()
        if self._is_whole and _text_size(stored) <= budget:
            return OutputText(stored.decode("utf-8", "replace"), self.total, False)
        room = max(0, budget - _MARKER_SPACE)
        head = _fit_text(stored[: self._head_size], room - room // 2, _take_first)
        after = len(head) if self._is_whole else len(self._head)  # so that the tail does not repeat the head
        tail = _fit_text(stored[after:], room // 2, _take_last)
        left_out = self.total - len(head) - len(tail)
        text = _join_ends(head.decode("utf-8", "replace"), left_out, tail.decode("utf-8", "replace"))
        return OutputText(text, self.total, True)

    @property
    def _is_whole(self) -> bool:
        return self.total <= self._head_size + self._tail_size

    def _stored_bytes(self) -> bytes:
        return bytes(self._head + self._tail[max(0, len(self._tail) - self._tail_size) :])


def render_streams(stdout: OutputCollector, stderr: OutputCollector, limit: int) -> tuple[OutputText, OutputText]:
    """Return both streams in `limit` bytes together: half each, and what one does not need goes to the other."""
    first, second, half = stdout.text_size(), stderr.text_size(), limit // 2
    if first + second <= limit:
        return stdout.text(first), stderr.text(second)
    if first <= half:
        return stdout.text(first), stderr.text(limit - first)
    if second <= half:
        return stdout.text(limit - second), stderr.text(second)
    return stdout.text(half), stderr.text(half)


def _text_size(data: bytes) -> int:
    return len(data) if data.isascii() else len(data.decode("utf-8", "replace").encode())


def _fit_text(data: bytes, room: int, cut: Callable[[bytes, int], bytes]) -> bytes:
    """Return the part of `data` whose text takes at most `room` bytes; `cut` takes bytes from one of its ends."""
    part = cut(data, room)
    size = _text_size(part)
    if size > room:  # replacement makes it longer: first in proportion, which is nearly right for binary data ...
        part = cut(part, len(part) * room // size)
        size = _text_size(part)
    if size > room:  # ... then for certain, since no byte of output takes less than a byte of text
        part = cut(part, len(part) - (size - room) - _LONGEST_CHARACTER)
    return part


def _take_first(data: bytes, count: int) -> bytes:
    """Return at most `count` bytes from the beginning, without a last character that is not complete."""
    end = max(0, min(count, len(data)))
    for back in range(1, min(_LONGEST_CHARACTER, end) + 1):
        byte = data[end - back]
        if byte >= 0xC0:  # the first byte of a character, which says how long it is
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[: end - back if length > back else end]
        if byte < 0x80:
            break
    return data[:end]


def _take_last(data: bytes, count: int) -> bytes:
    """Return at most `count` bytes from the end, without the rest of a character that began before."""
    start = len(data) - max(0, min(count, len(data)))
    limit = min(start + _LONGEST_CHARACTER - 1, len(data))
    while start < limit and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:]


def _join_ends(head: str, left_out: int, tail: str) -> str:
    before = "" if not head or head.endswith("\n") else "\n"
    return f"{head}{before}[... {left_out} bytes left out ...]\n{tail}"
