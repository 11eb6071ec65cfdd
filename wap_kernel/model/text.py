"""Write text for people: escape characters that could mislead them, and format timestamps.

Escaped are control, invisible and direction-changing characters. Timestamps are UTC, to the millisecond, ending in Z.
"""

from __future__ import annotations

import math
import unicodedata
from datetime import datetime, timezone
from functools import lru_cache

_BLANK = frozenset(
    map(
        chr,
        (
            0x034F,  # of no width
            *(0x115F, 0x1160, 0x3164, 0xFFA0),  # fillers of Hangul
            *(0x17B4, 0x17B5),  # obsolete vowels of Khmer
            *(0x180B, 0x180C, 0x180D, 0x180F),  # selectors of a variant of the character before
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
            *(0x2800, 0x1D159),  # a pattern without dots, a note without a head
        ),
    )
)
"""Characters that Unicode counts as letters, marks or symbols and that fonts draw blank."""


def escape_invisible(text: str, keep: str = "\n\t") -> str:
    """Return `text` with control, invisible and direction-changing characters escaped, except those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    table = {ord(one): _escape(one) for one in set(text) if not is_visible(one) and one not in keep}
    return text.translate(table) if table else text


def escape_one_line(text: str) -> str:
    return escape_invisible(text, "")


def is_visible(one: str) -> bool:
    return one not in _BLANK and (one.isprintable() or unicodedata.category(one) == "Zs")


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")


# -- timestamps


def format_timestamp(moment: datetime) -> str:
    if moment.tzinfo is not timezone.utc:
        moment = moment.astimezone(timezone.utc)
    return f"{moment.isoformat(timespec='milliseconds')[: -len('+00:00')]}Z"


def format_epoch(seconds: float) -> str:
    whole = math.floor(seconds)
    return f"{_format_second(whole)}.{int((seconds - whole) * 1000):03}Z"


@lru_cache(maxsize=4)
def _format_second(seconds: int) -> str:
    # Cached: thousands of records fall into the same second.
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()[: -len("+00:00")]


def utc_now() -> str:
    return format_timestamp(datetime.now(timezone.utc))
