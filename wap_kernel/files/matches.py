"""The rows of a search's answer, read through the file primitives, whoever found where they are."""

from __future__ import annotations

from collections.abc import Iterable

from wap_kernel.files.paths import display
from wap_kernel.files.scanning import texts_in, texts_of
from wap_kernel.operations import Match


def rows(path: str, found: bytes | Iterable[bytes], lines: list[int], context: int) -> list[Match]:
    """The given lines of a file with the lines around them. `found` is its content, whole or in blocks."""
    near = {number for line in lines for number in range(line - context, line + context + 1)}
    texts = texts_in(found, near) if isinstance(found, bytes) else texts_of(found, near)
    shown = display(path)
    return [
        Match(
            path=shown,
            line=line,
            match_text=texts[line],
            context_before=[texts[number] for number in range(max(1, line - context), line)],
            context_after=[texts[number] for number in range(line + 1, line + context + 1) if number in texts],
        )
        for line in lines
        if line in texts  # the file may have changed since it was counted
    ]
