"""Render results: `text(result)` for a terminal, `bundle(result)` for a notebook.

A view (`run_view.py`, `file_view.py`, ...) describes a result in blocks (`blocks.py`), and two writers turn them into
text and HTML. A bundle takes at most `MAX_CELL_BYTES` in a saved notebook: views are called again with less room
until the bundle fits. Several results in one cell share an `Allowance`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from wap_kernel.client.render import (
    file_view,
    listing_view,
    note_view,
    run_view,
    search_view,
    table_views,
    units,
    workspace_view,
)
from wap_kernel.client.render.blocks import Block, Room, muted_row, python_hint
from wap_kernel.client.render.tool_views import git_view, notebook_view
from wap_kernel.client.render.writers import html_writer, text_writer
from wap_kernel.client.render.writers.palette import NO_COLORS, Palette
from wap_kernel.model.limits import MAX_CELL_BYTES

if TYPE_CHECKING:
    from wap_kernel.client.results import ClientResult

__all__ = [
    "MAX_ERROR_BYTES",
    "PREFIX",
    "Allowance",
    "bundle",
    "saved_bytes",
    "summarize_error",
    "text",
]

PREFIX = "%wap "
"""The text before a line that a person types in a notebook."""
MAX_TEXT_BYTES = 30_000
"""Bytes of a bundle for its text."""
MAX_ERROR_BYTES = 5_000
"""Bytes reserved for the error that may end a cell."""
MAX_SUMMARY_CHARACTERS = 300
MIN_BUNDLE_BYTES = 2_500
"""Bytes below which a result is not shown at all."""
OUTPUT_BYTES = 200
"""Bytes that an output takes in the file of a notebook besides its content."""
LINE_BYTES = 16
"""Bytes that a line takes in the file of a notebook besides its content."""

View = Callable[[Mapping[str, Any], Mapping[str, Any], Room, str], Iterable[Block]]

VIEWS: Mapping[str, View] = {
    "run": run_view.run_blocks,
    "file": file_view.file_blocks,
    "git": git_view.git_blocks,
    "notebook": notebook_view.notebook_blocks,
    "listing": listing_view.listing_blocks,
    "hits": search_view.search_blocks,
    "runs": table_views.runs,
    "approval notice": table_views.approval_notice,
    "overview": workspace_view.overview,
    "policy": workspace_view.policy,
    "verdicts": table_views.verdicts,
    "audit": table_views.audit,
    "grants": table_views.grants,
    "problem": note_view.problem,
    "note": note_view.note,
}

_TEXT_ROOM = Room(24_000, 200, 400)
_HTML_ROOM = Room(56_000, 120, 1000)
_TRIES = 10
_ENOUGH = 0.5
"""The share of the allowed bytes from which a rendering is large enough."""
_USED_UP = f"This cell shows {MAX_CELL_BYTES // 1000} KB already, so the rest is not shown"


def text(
    result: ClientResult, *, prefix: str = PREFIX, largest: int = MAX_TEXT_BYTES, palette: Palette = NO_COLORS
) -> str:
    return _render(partial(text_writer.write, palette=palette), result, prefix, _TEXT_ROOM, largest)


def bundle(result: ClientResult, *, prefix: str = PREFIX, largest: int = MAX_CELL_BYTES) -> dict[str, str]:
    terminal = text(result, prefix=prefix, largest=min(MAX_TEXT_BYTES, largest // 3))
    rich = _render(html_writer.write, result, prefix, _HTML_ROOM, largest - saved_bytes(terminal))
    return {"text/plain": terminal, "text/html": rich}


class Allowance:
    """The bytes that the outputs of one cell may take together."""

    def __init__(self) -> None:
        self._left = MAX_CELL_BYTES - MAX_ERROR_BYTES

    def bundle(self, result: ClientResult, *, prefix: str = PREFIX) -> dict[str, str]:
        """Render a result; once the allowance is used up, return a text that says so, and then empty ones."""
        if self._left < 2 * MIN_BUNDLE_BYTES:  # enough bytes remain for the text that says so
            notice = f"{_USED_UP}{python_hint(prefix, '_ holds the last result')}." if self._left > 0 else ""
            self._left = 0
            return {"text/plain": notice}
        rendered = bundle(result, prefix=prefix, largest=self._left - MIN_BUNDLE_BYTES)
        self._left -= sum(map(saved_bytes, rendered.values())) + OUTPUT_BYTES
        return rendered


def saved_bytes(content: str) -> int:
    """Return the bytes that `content` takes in the file of a notebook, where every line is a string of its own."""
    return len(json.dumps(content, ensure_ascii=False).encode()) + LINE_BYTES * (content.count("\n") + 1)


def summarize_error(message: str) -> str:
    """Return the message of an error on one short line."""
    return units.escape_one_line(units.truncate_line(message, MAX_SUMMARY_CHARACTERS))


def _render(
    write: Callable[[Iterable[Block]], str], result: ClientResult, prefix: str, room: Room, largest: int
) -> str:
    """Render as much of a result as fits into `largest` bytes.

    How much of the room a result needs is not known. Where a smaller room did not shrink the rendering, the next one is
    much smaller; where it shrank too far, the next one is larger again.
    """
    best, fits, fails, share, before = "", 0.0, 1.0, 1.0, 0
    for _ in range(_TRIES):
        written = write(VIEWS[result.view](result.data, result.request, room.scaled(share), prefix))
        size = saved_bytes(written)
        if size <= largest:
            best, fits = written, share
            if share == 1.0 or size >= _ENOUGH * largest:
                break
        else:
            fails, shrinks = share, not before or size < 0.9 * before
            share *= 0.8 * largest / size if shrinks else 0.25
            before = size
        if fits:
            share = (fits * fails) ** 0.5
    return best or write([muted_row(f"Too large to show{python_hint(prefix, '_.to_dict() holds it')}.")])
