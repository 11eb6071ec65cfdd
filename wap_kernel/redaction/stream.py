"""Redact a command's output while it streams.

The end of a chunk is buffered while it may begin a credential, and passed on with the next chunk.
"""

from __future__ import annotations

from collections.abc import Callable

from wap_kernel.model.command import OnChunk, Stream
from wap_kernel.redaction.redactor import Redactor
from wap_kernel.redaction.truncation import find_open_end


class RedactedStream:
    """A chunk callback that passes redacted chunks to `on_chunk`; `end` passes on the buffered rest.

    `redactor` is called for each chunk, since the server may learn a credential while a command runs.
    """

    def __init__(self, on_chunk: OnChunk, redactor: Callable[[], Redactor]) -> None:
        self._on_chunk = on_chunk
        self._redactor = redactor
        self._buffer: dict[Stream, str] = {}
        self._last: dict[Stream, str] = {}
        """The last character that was passed on; a pattern may depend on the character before."""

    def __call__(self, stream: Stream, chunk: bytes) -> None:
        # One character for each byte: credentials are ASCII in every encoding.
        text = self._buffer.pop(stream, "") + chunk.decode("latin-1")
        before = self._last.get(stream, "")
        start = max(find_open_end(before + text, self._redactor().known) - len(before), 0)
        self._emit(stream, text[:start])
        if start < len(text):
            self._buffer[stream] = text[start:]

    def end(self) -> None:
        for stream, text in list(self._buffer.items()):
            self._emit(stream, text)
        self._buffer.clear()

    def _emit(self, stream: Stream, text: str) -> None:
        if text:
            before = self._last.get(stream, "")
            self._last[stream] = text[-1]
            self._on_chunk(stream, self._redactor()(before + text)[len(before) :].encode("latin-1"))
