r"""Sets of characters with JavaScript's meaning, rendered as a `[...]` of the `regex` module.

JavaScript's `\d` and `\w` are ASCII, its `\s` knows U+FEFF, and its `i` has rules of its own (without `u`, `k` does not
match the Kelvin sign); so sets are spelled out here and the `regex` module never sees its own `\w` or IGNORECASE.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import regex

LAST = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)

Ranges = tuple[tuple[int, int], ...]
"""Ranges of code points, both ends included; sorted and apart from each other once `_merge` made them."""

DIGITS: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
WORD_UNICODE_IGNORING_CASE: Ranges = (*WORD, (0x17F, 0x17F), (0x212A, 0x212A))  # they fold to s and k
TERMINATORS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
SPACE: Ranges = (
    (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip

_CATEGORIES = frozenset(
    "L LC Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Cs Co Cn"
    " Letter Cased_Letter Uppercase_Letter Lowercase_Letter Titlecase_Letter Modifier_Letter Other_Letter Mark"
    " Nonspacing_Mark Spacing_Mark Enclosing_Mark Number Decimal_Number Letter_Number Other_Number Punctuation"
    " Connector_Punctuation Dash_Punctuation Open_Punctuation Close_Punctuation Initial_Punctuation Final_Punctuation"
    " Other_Punctuation Symbol Math_Symbol Currency_Symbol Modifier_Symbol Other_Symbol Separator Space_Separator"
    " Line_Separator Paragraph_Separator Other Control Format Surrogate Private_Use Unassigned".split()
)
_BINARY = frozenset(
    "Any ASCII Alphabetic Alpha Lowercase Lower Uppercase Upper White_Space space ID_Start IDS ID_Continue IDC Emoji"
    " Emoji_Presentation Extended_Pictographic".split()
)
_SCRIPT = regex.compile(r"(?:Script(?:_Extensions)?|scx?)=[A-Z][a-z]+(?:_[A-Z][a-z]+)*")


@dataclass(frozen=True)
class CharacterSet:
    r"""Characters by range and by property (`\p{...}`, in the notation of the regex module)."""

    ranges: Ranges = ()
    properties: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return 1 + len(self.ranges) + len(self.properties)

    def add_case_variants(self, *, unicode: bool) -> CharacterSet:
        """Return the set with every character that the flag `i` makes equal to one of its own."""
        table = _case_table(unicode)
        points = list(table)  # sorted
        found = [
            point
            for low, high in self.ranges
            for point in points[bisect_left(points, low) : bisect_right(points, high)]
        ]
        if self.properties:
            cased = "".join(map(chr, points))
            named = [ord(character) for character in regex.findall(f"[{''.join(self.properties)}]", cased)]
            found += named
        missing = {same for point in found for same in table[point]}.difference(found)
        return CharacterSet(_merge((*self.ranges, *((point, point) for point in missing))), self.properties)

    def render(self, *, negated: bool = False) -> str:
        if not self.ranges and not self.properties:
            return "(?s:.)" if negated else "(?!)"
        ranges = (
            render_character(low) if low == high else f"{render_character(low)}-{render_character(high)}"
            for low, high in self.ranges
        )
        return f"[{'^' if negated else ''}{''.join(ranges)}{''.join(self.properties)}]"


def make_set(*points: int) -> CharacterSet:
    return CharacterSet(_merge((point, point) for point in points))


def unite(sets: Iterable[CharacterSet]) -> CharacterSet:
    sets = list(sets)
    ranges = _merge(pair for chosen in sets for pair in chosen.ranges)
    return CharacterSet(ranges, tuple(dict.fromkeys(name for chosen in sets for name in chosen.properties)))


def invert(ranges: Ranges) -> Ranges:
    out, start = [], 0
    for low, high in ranges:
        if low > start:
            out.append((start, low - 1))
        start = high + 1
    return (*out, (start, LAST)) if start <= LAST else tuple(out)


def render_character(point: int) -> str:
    """Return a character in a notation that has no other meaning anywhere."""
    character = chr(point)
    return character if character.isascii() and character.isalnum() else f"\\U{point:08x}"


def list_case_variants(point: int, *, unicode: bool) -> tuple[int, ...]:
    """Return the character and those that the flag `i` makes equal to it."""
    if point < 0x80 and not unicode:  # the common case, without the table
        return tuple({ord(chr(point).lower()), ord(chr(point).upper())})
    return _case_table(unicode).get(point, (point,))


def render_property(name: str, *, negated: bool) -> str | None:
    r"""Return `\p{name}` or `\P{name}` for the regex module, or None if JavaScript has no such property.

    The regex module also takes looser names, so JavaScript's are listed here.
    """
    key, _, value = name.partition("=")
    if name in _CATEGORIES:
        name = f"gc={name}"
    elif key in ("gc", "General_Category"):
        if value not in _CATEGORIES:
            return None
    elif name not in _BINARY and not _SCRIPT.fullmatch(name):
        return None
    notation = f"\\{'P' if negated else 'p'}{{{name}}}"
    try:
        regex.compile(notation, cache_pattern=False)
    except regex.error:  # no such script
        return None
    return notation


def _merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return tuple(out)


@lru_cache(maxsize=2)
def _case_table(unicode: bool) -> dict[int, tuple[int, ...]]:
    """Map each character to those that the flag `i` makes equal: with `u` by simple folding, else by upper case."""
    # Left out because nothing there has case: CJK, Hangul, private use; and without `u` all beyond 16 bits.
    candidates = [*range(0x2E00), *range(0xA640, 0xAC00), *range(0xFB00, 0x1F200 if unicode else 0x10000)]
    classes: dict[str, list[int]] = {}
    for point in candidates:
        classes.setdefault(_folded(chr(point)) if unicode else _upper(chr(point)), []).append(point)
    return dict(sorted((point, tuple(same)) for same in classes.values() if len(same) > 1 for point in same))


def _folded(character: str) -> str:
    return next((same for same in (character.casefold(), character.lower()) if len(same) == 1), character)


def _upper(character: str) -> str:
    upper = character.upper()
    return character if len(upper) != 1 or (upper.isascii() and not character.isascii()) else upper
