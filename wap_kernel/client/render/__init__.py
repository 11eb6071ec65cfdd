"""How answers look: `text(answer)` for a terminal, `bundle(answer)` for a notebook.

A view says what there is to say (`runs.py`, `files.py`, ...) as blocks (`parts.py`), and two writers make text and HTML
of them. A bundle is at most `LARGEST` bytes in a saved notebook, whatever was answered: views are asked again with less
room until it fits. Several answers in one cell share an `Allowance`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wap_kernel.client.render import (
    cutting,
    file_view,
    html_writer,
    listing_view,
    notes,
    run_view,
    search_view,
    table_views,
    text_writer,
    units,
    workspace_view,
)
from wap_kernel.client.render.blocks import Block, Room, held, muted

if TYPE_CHECKING:
    from wap_kernel.client.results import Answer

__all__ = ["LARGEST", "LARGEST_ERROR", "PREFIX", "Allowance", "bundle", "summary", "text", "weight"]

PREFIX = "%wap "
"""What stands before a line that somebody types in a notebook."""
LARGEST = 100_000
"""Bytes of a bundle."""
LARGEST_TEXT = 30_000
"""Bytes of them for the text."""
LARGEST_ERROR = 5_000
"""Bytes kept for the error that may end a cell."""
LONGEST_SUMMARY = 300
LEAST = 2_500
"""Bytes without which nothing is shown of an answer."""
OUTPUT_BYTES = 200
"""What an output costs in a notebook's file besides what it shows."""
LINE_BYTES = 16
"""What a line costs in a notebook's file besides what it holds."""

View = Callable[[Mapping[str, Any], Mapping[str, Any], Room, str], Iterable[Block]]

VIEWS: Mapping[str, View] = {
    "run": run_view.blocks,
    "file": file_view.blocks,
    "listing": listing_view.blocks,
    "hits": search_view.blocks,
    "runs": table_views.runs,
    "overview": workspace_view.overview,
    "policy": workspace_view.policy,
    "verdicts": table_views.verdicts,
    "audit": table_views.audit,
    "grants": table_views.grants,
    "problem": notes.problem,
    "note": notes.note,
}

_TEXT_ROOM = Room(24_000, 200, 400)
_HTML_ROOM = Room(56_000, 120, 1000)
_TRIES = 10
_ENOUGH = 0.5
"""Of the bytes that there are: what fills so much was cut little enough."""
_USED_UP = f"This cell shows {LARGEST // 1000} KB already, so the rest is not shown"


def text(answer: Answer, *, prefix: str = PREFIX, largest: int = LARGEST_TEXT) -> str:
    return _fitting(text_writer.write, answer, prefix, _TEXT_ROOM, largest)


def bundle(answer: Answer, *, prefix: str = PREFIX, largest: int = LARGEST) -> dict[str, str]:
    plain = text(answer, prefix=prefix, largest=min(LARGEST_TEXT, largest // 3))
    rich = _fitting(html_writer.write, answer, prefix, _HTML_ROOM, largest - weight(plain))
    return {"text/plain": plain, "text/html": rich}


class Allowance:
    """What the outputs of one cell may take together."""

    def __init__(self) -> None:
        self._left = LARGEST - LARGEST_ERROR

    def bundle(self, answer: Answer, *, prefix: str = PREFIX) -> dict[str, str]:
        """Once it is used up a word that says so, and then nothing."""
        if self._left < 2 * LEAST:  # some are left for the word
            said = f"{_USED_UP}{held(prefix, '_ holds the last answer')}." if self._left > 0 else ""
            self._left = 0
            return {"text/plain": said}
        shown = bundle(answer, prefix=prefix, largest=self._left - LEAST)
        self._left -= sum(map(weight, shown.values())) + OUTPUT_BYTES
        return shown


def weight(written: str) -> int:
    """The bytes that it takes in a notebook's file, where every line is a string of its own."""
    return len(json.dumps(written, ensure_ascii=False).encode()) + LINE_BYTES * (written.count("\n") + 1)


def summary(said: str) -> str:
    """Of an error, on one line, for whoever has no place for more."""
    return units.one_line(cutting.line(said, LONGEST_SUMMARY))


def _fitting(write: Callable[[Iterable[Block]], str], answer: Answer, prefix: str, room: Room, largest: int) -> str:
    """As much as fits. How much of the room an answer needs is not known: what a smaller room did not make smaller did
    not need it, and what a much smaller one has left too little of gets some of it back."""
    best, fits, fails, share, before = "", 0.0, 1.0, 1.0, 0
    for _ in range(_TRIES):
        written = write(VIEWS[answer.view](answer.data, answer.asked, room.scaled(share), prefix))
        taken = weight(written)
        if taken <= largest:
            best, fits = written, share
            if share == 1.0 or taken >= _ENOUGH * largest:
                break
        else:
            fails, shrinks = share, not before or taken < 0.9 * before
            share *= 0.8 * largest / taken if shrinks else 0.25
            before = taken
        if fits:
            share = (fits * fails) ** 0.5
    return best or write([muted(f"Too large to show{held(prefix, '_.to_dict() holds it')}.")])
