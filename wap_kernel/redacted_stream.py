"""Output on its way to whoever watches a command: redacted like the answer, though it comes in pieces.

The end of a piece is held back while it may be the beginning of a credential, and given with what follows it.
"""

from __future__ import annotations

import re

from wap_kernel.commands.outcome import OnChunk, Stream
from wap_kernel.redacting import SHAPES

MAX_HELD = 6000
_BETWEEN = re.compile(r"[\s'\"<>]")
_MAY_GO_ON = re.compile(
    r"(?i)://|:/?\Z|\bau\w{0,10}\Z|\bgi\w{0,9}\Z|\bgh[pousr]?\Z|\bgh[pousr]_|\bgithub_|\bey\Z|\beyj"
)


class RedactedStream:
    """Is called with pieces, and gives them to `take`; `end` gives what is held."""

    def __init__(self, take: OnChunk) -> None:
        self._take = take
        self._held: dict[Stream, str] = {}
        self._last: dict[Stream, str] = {}
        """The last character that was given: a pattern may look at the one before."""

    def __call__(self, stream: Stream, chunk: bytes) -> None:
        # Byte by byte: whatever the encoding is, what is looked for is ASCII.
        text = self._held.pop(stream, "") + chunk.decode("latin-1")
        before = self._last.get(stream, "")
        start = max(_open_end(before + text) - len(before), 0)
        self._give(stream, text[:start])
        if start < len(text):
            self._held[stream] = text[start:]

    def end(self) -> None:
        for stream, text in list(self._held.items()):
            self._give(stream, text)
        self._held.clear()

    def _give(self, stream: Stream, text: str) -> None:
        if text:
            before = self._last.get(stream, "")
            self._last[stream] = text[-1]
            self._take(stream, SHAPES(before + text)[len(before) :].encode("latin-1"))


def _open_end(text: str) -> int:
    """Where that begins which may be a part of something longer; the length of `text` if there is nothing."""
    tail = text[-MAX_HELD:]
    offset = len(text) - len(tail)
    line = max(tail.rfind("\n"), tail.rfind("\r")) + 1
    header = tail.lower().find("authorization", line)
    if header >= 0:
        return offset + header
    places = [match.end() for match in _BETWEEN.finditer(tail, max(line - 1, 0))]
    word = places[-1] if places else 0
    if word == 0 and offset:
        return len(text)  # longer than any credential
    return offset + word if _MAY_GO_ON.search(tail, word) else len(text)
