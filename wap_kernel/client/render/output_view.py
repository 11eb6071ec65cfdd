"""Render the output of a command: its end, with the lines before it folded."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import NamedTuple

from wap_kernel.client.render import file_view, units
from wap_kernel.client.render.blocks import Block, Fold, LineTone, Pre, TextLine, muted_row, python_hint, split_lines
from wap_kernel.client.render.writers import ansi

OPEN_OUTPUT_LINES = 12
"""Lines of a command's output that are not folded."""
_DIFF = re.compile(r"^--- .*\n\+\+\+ .*\n@@ ", re.MULTILINE)
"""The head of a unified diff, as `git diff`, `git show` and `diff -u` print it."""


class FullOutput(NamedTuple):
    """The whole output of a command whose event has only a part of it."""

    size: str
    how: str
    """The Python expression that returns the whole output."""


def output_blocks(
    text: str, characters: int, lines: int, bar: str, prefix: str, whole: FullOutput | None = None
) -> list[Block]:
    """Return the end of an output, with the lines before it folded."""
    excerpt = units.take_tail(ansi.collapse_overwrites(text), characters, lines)
    rows = split_lines(excerpt.text)
    tones: Iterable[LineTone] = map(file_view.diff_tone, rows) if _DIFF.search(text) else itertools.repeat("")
    styled = tuple(map(TextLine, ansi.style_lines(rows), tones))
    is_long = len(styled) > OPEN_OUTPUT_LINES + 4
    earlier, tail = (styled[:-OPEN_OUTPUT_LINES], styled[-OPEN_OUTPUT_LINES:]) if is_long else ((), styled)
    more: list[Block] = []
    if whole is not None:
        more = [muted_row(f"… of {whole.size} in all{python_hint(prefix, f'{whole.how} returns it')}", is_below=True)]
    elif excerpt.describe_omission():
        where = python_hint(prefix, "_.to_dict() holds them")
        more = [muted_row(f"… {excerpt.describe_omission('earlier')} left out{where}", is_below=True)]
    if not is_long:
        return [*more, Pre(tail, bar=bar)] if tail else []
    before = units.format_count(excerpt.omitted_lines + len(earlier), "earlier line")
    label = before if whole is None else f"earlier output, {whole.size} in all"
    return [Fold(label, (*more, Pre(earlier, bar=bar))), Pre(tail, bar=bar)]
