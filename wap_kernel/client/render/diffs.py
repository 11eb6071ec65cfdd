"""Unified diffs, line by line; the signs stay, so that nobody needs the colours."""

from __future__ import annotations

from wap_kernel.client.render import cutting
from wap_kernel.client.render.blocks import Block, Fold, Line, LineTone, Pre, Span, lines_of, muted

OPEN_LINES = 40
"""A longer one is folded."""
_TONES: dict[str, LineTone] = {"+": "added", "-": "removed", "@": "hunk", "\\": "muted"}


def blocks(diff: str, characters: int, lines: int, *, is_cut: bool = False, is_open: bool = False) -> list[Block]:
    cut = cutting.head(_without_names(diff), characters, lines)
    shown = Pre(tuple(Line((Span(line),), _TONES.get(line[:1], "")) for line in lines_of(cut.text)))
    found: list[Block] = [shown] if shown.lines else []
    if cut.said() or is_cut:
        found.append(muted(f"… {cut.said() or 'the end'} of the diff left out", is_below=True))
    if len(shown.lines) > OPEN_LINES and not is_open:
        return [Fold(f"diff, {len(shown.lines):,} lines", tuple(found))]
    return found


def _without_names(diff: str) -> str:
    """The row above says which file it is."""
    if diff.startswith("--- "):
        rest = diff.partition("\n")[2]
        second, _, body = rest.partition("\n")
        if second.startswith("+++ ") and body.startswith("@@"):
            return body
    return diff
