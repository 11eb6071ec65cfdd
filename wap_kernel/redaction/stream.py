"""Output on its way to whoever watches a command: redacted like the answer, though it comes in pieces.

The end of a piece is held back while it may be the beginning of a credential, and given with what follows it.
"""

from __future__ import annotations

from collections.abc import Callable

from wap_kernel.model.command import OnChunk, Stream
from wap_kernel.redaction.redactor import Redactor
from wap_kernel.redaction.truncation import find_open_end


class RedactedStream:
    """Is called with pieces, and gives them to `take`; `end` gives what is held. `redactor` is asked for at each piece:
    a credential may come to be known while a command runs."""

    def __init__(self, take: OnChunk, redactor: Callable[[], Redactor]) -> None:
        self._take = take
        self._redactor = redactor
        self._held: dict[Stream, str] = {}
        self._last: dict[Stream, str] = {}
        """The last character that was given: a pattern may look at the one before."""

    def __call__(self, stream: Stream, chunk: bytes) -> None:
        # Byte by byte: whatever the encoding is, what is looked for is ASCII.
        text = self._held.pop(stream, "") + chunk.decode("latin-1")
        before = self._last.get(stream, "")
        start = max(find_open_end(before + text, self._redactor().known) - len(before), 0)
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
            self._take(stream, self._redactor()(before + text)[len(before) :].encode("latin-1"))
