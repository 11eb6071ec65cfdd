"""How much structure a JSON text has, learnt without building it.

A parser turns 32 MiB of `{"a":0,"b":0,...}` or `[[],[],...]` into millions of objects, and it does so in one call
during which no other thread runs, the event loop's neither; three seconds were measured. No request of ours needs more
than some thousand fields and items: what makes one large is the text in its strings. So a large body is counted first,
in steps between which others get their turn.
"""

from __future__ import annotations

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_JSON_PARTS, MAX_JSON_STRINGS

_STEP = 256 * 1024


def check(body: bytes) -> None:
    """Refuse a text with more than `MAX_PARTS` fields and items. Whether it is JSON at all, the parser will say."""
    counting = Structure()
    for start in range(0, len(body), _STEP):
        counting.add(body[start : start + _STEP])


class Structure:
    """Of a text that comes piece by piece."""

    def __init__(self) -> None:
        self._parts = 0
        self._strings = 0
        self._is_inside = False
        """A string."""
        self._kept = b""

    def add(self, piece: bytes) -> None:
        """Raises InvalidArgument."""
        for number, text in enumerate(self._without_escapes(piece).split(b'"')):
            self._is_inside ^= number > 0
            if self._is_inside:
                self._strings += 1
            else:
                self._parts += text.count(b",") + text.count(b"[") + text.count(b"{")
        if self._parts > MAX_JSON_PARTS or self._strings > MAX_JSON_STRINGS:
            raise InvalidArgument(
                f"The body has more than {MAX_JSON_PARTS} fields and items.", hint="Ask for less in one request."
            )

    def _without_escapes(self, piece: bytes) -> bytes:
        r"""Without `\\` and `\"`, so that every quotation mark left begins or ends a string."""
        piece = self._kept + piece
        # An odd backslash at the end belongs to what follows it.
        end = len(piece.rstrip(b"\\"))
        self._kept = b"\\" * ((len(piece) - end) % 2)
        return piece[:end].replace(b"\\\\", b"").replace(b'\\"', b"")
