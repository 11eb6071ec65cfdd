"""How answers look: `text(answer)` for a terminal, `bundle(answer)` for a notebook.

A view says what there is to say (`runs.py`, `files.py`, ...) as blocks (`parts.py`), and two writers make text and HTML
of them. A bundle is at most `LARGEST` bytes in a saved notebook, whatever was answered: views are asked again with less
room until it fits. Several answers in one cell share an `Allowance`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wap_kernel.render import as_html, as_text, files, hits, listings, notes, runs, tables, workspace
from wap_kernel.render.parts import Block, Room, muted

if TYPE_CHECKING:
    from wap_kernel.client.answers import Answer

__all__ = ["LARGEST", "PREFIX", "Allowance", "bundle", "text"]

PREFIX = "%wap "
"""What stands before a line that somebody types in a notebook."""
LARGEST = 100_000
"""Bytes of a bundle."""
LARGEST_TEXT = 30_000
"""Bytes of them for the text."""
LEAST = 2_000
"""Bytes without which nothing is shown of an answer."""
LINE_BYTES = 16
"""What a line costs in a notebook's file besides what it holds."""

View = Callable[[Mapping[str, Any], Mapping[str, Any], Room, str], Iterable[Block]]

VIEWS: Mapping[str, View] = {
    "run": runs.blocks,
    "file": files.blocks,
    "listing": listings.blocks,
    "hits": hits.blocks,
    "runs": tables.runs,
    "overview": workspace.overview,
    "policy": workspace.policy,
    "verdicts": tables.verdicts,
    "audit": tables.audit,
    "grants": tables.grants,
    "problem": notes.problem,
    "note": notes.note,
}

_TEXT_ROOM = Room(24_000, 200, 400)
_HTML_ROOM = Room(56_000, 120, 1000)
_TRIES = 6
_USED_UP = f"This cell shows {LARGEST // 1000} KB already, so the rest is not shown; _ holds the last answer."
_TOO_LARGE = (muted("Too large to show; _.to_dict() holds it."),)


def text(answer: Answer, *, prefix: str = PREFIX, largest: int = LARGEST_TEXT) -> str:
    return _fitting(as_text.write, answer, prefix, _TEXT_ROOM, largest)


def bundle(answer: Answer, *, prefix: str = PREFIX, largest: int = LARGEST) -> dict[str, str]:
    plain = text(answer, prefix=prefix, largest=min(LARGEST_TEXT, largest // 3))
    rich = _fitting(as_html.write, answer, prefix, _HTML_ROOM, largest - weight(plain))
    return {"text/plain": plain, "text/html": rich}


class Allowance:
    """What the outputs of one cell may take together."""

    def __init__(self) -> None:
        self._left = LARGEST

    def bundle(self, answer: Answer, *, prefix: str = PREFIX) -> dict[str, str]:
        """Once it is used up a word that says so, and then nothing."""
        if self._left < LEAST:
            said = _USED_UP if self._left > 0 else ""
            self._left = 0
            return {"text/plain": said}
        shown = bundle(answer, prefix=prefix, largest=self._left - LEAST + 1)
        self._left -= sum(map(weight, shown.values()))
        return shown


def weight(written: str) -> int:
    """The bytes that it takes in a notebook's file, where every line is a string of its own."""
    return len(json.dumps(written, ensure_ascii=False).encode()) + LINE_BYTES * (written.count("\n") + 1)


def _fitting(write: Callable[[Iterable[Block]], str], answer: Answer, prefix: str, room: Room, largest: int) -> str:
    view, asked = VIEWS[answer.view], answer.asked
    for _ in range(_TRIES):
        written = write(view(answer.data, asked, room, str(asked.get("prefix", prefix))))
        taken = weight(written)
        if taken <= largest:
            return written
        room = room.scaled(0.8 * largest / taken)
    return write(_TOO_LARGE)
