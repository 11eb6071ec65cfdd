"""Characters that obey, hide or mislead, written out: what is shown can move no cursor and pass for nothing else."""

from __future__ import annotations

import unicodedata

_BLANK = frozenset(
    map(
        chr,
        (
            0x034F,  # of no width
            *(0x115F, 0x1160, 0x3164, 0xFFA0),  # fillers of Hangul
            *(0x17B4, 0x17B5),  # vowels of Khmer that nobody writes
            *(0x180B, 0x180C, 0x180D, 0x180F),  # which variant the character before it is
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
            *(0x2800, 0x1D159),  # a pattern without dots, a note without a head
        ),
    )
)
"""Letters, marks and symbols, to Unicode, that look like nothing at all."""


def visible(text: str, keep: str = "\n\t") -> str:
    """With every control, invisible or direction-changing character as Python writes it, save those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    table = {ord(one): _written(one) for one in set(text) if not is_shown(one) and one not in keep}
    return text.translate(table) if table else text


def one_line(text: str) -> str:
    return visible(text, "")


def is_shown(one: str) -> bool:
    return one not in _BLANK and (one.isprintable() or unicodedata.category(one) == "Zs")


def _written(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
