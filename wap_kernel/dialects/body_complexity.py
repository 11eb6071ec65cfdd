"""Count the fields and items of a JSON text without parsing it.

A parser turns 32 MiB of `{"a":0,"b":0,...}` or `[[],[],...]` into millions of objects in one call, and no other thread
runs meanwhile, not even the event loop's; three seconds were measured. No request needs more than some thousand fields
and items: a large one is large by the text in its strings. So a large body is counted first, in steps between which
other threads run.
"""

from __future__ import annotations

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_JSON_PARTS, MAX_JSON_STRINGS

_STEP = 256 * 1024


def check_complexity(body: bytes) -> None:
    """Refuse a text with more than MAX_JSON_PARTS fields and items; the parser checks whether it is JSON at all."""
    counter = StructureCounter()
    for start in range(0, len(body), _STEP):
        counter.add(body[start : start + _STEP])


class StructureCounter:
    """The number of fields, items and strings of a text that comes piece by piece."""

    def __init__(self) -> None:
        self._parts = 0
        self._strings = 0
        self._is_in_string = False
        self._pending_escape = b""
        """Backslash at the end of the last piece, if it escapes the first character of the next one."""

    def add(self, piece: bytes) -> None:
        """Count the next piece; raise InvalidArgument when a limit is exceeded."""
        for number, text in enumerate(self._without_escapes(piece).split(b'"')):
            self._is_in_string ^= number > 0
            if self._is_in_string:
                self._strings += 1
            else:
                self._parts += text.count(b",") + text.count(b"[") + text.count(b"{")
        if self._parts > MAX_JSON_PARTS or self._strings > MAX_JSON_STRINGS:
            raise InvalidArgument(
                f"The body has more than {MAX_JSON_PARTS} fields and items.", hint="Ask for less in one request."
            )

    def _without_escapes(self, piece: bytes) -> bytes:
        r"""Return the piece without `\\` and `\"`, so that every quotation mark left begins or ends a string."""
        piece = self._pending_escape + piece
        # An odd backslash at the end escapes the first character of the next piece.
        end = len(piece.rstrip(b"\\"))
        self._pending_escape = b"\\" * ((len(piece) - end) % 2)
        return piece[:end].replace(b"\\\\", b"").replace(b'\\"', b"")
