r"""Parse the escapes and character classes of JavaScript's patterns.

Without the `u` flag nearly every escape means something (`\a` is an a, `\x` an x); with it only those listed here.
"""

from __future__ import annotations

import re

from wap_kernel.files.edit.js_regex import charsets
from wap_kernel.files.edit.js_regex.charsets import CharacterSet
from wap_kernel.model.errors import InvalidArgument

_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_CONTROLS = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_DIGIT = re.compile("[0-9]")
_TWO_DIGITS = re.compile("[0-9a-fA-F]{2}")
_FOUR_DIGITS = re.compile("[0-9a-fA-F]{4}")
_BRACED_DIGITS = re.compile(r"\{0*([0-9a-fA-F]{1,6})\}")
_PAIR = re.compile(r"([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_PROPERTY = re.compile(r"\{([A-Za-z_=]+)\}")


class CharacterParser:
    """Parses characters and sets of them at a position of a pattern; `translate.py` parses the rest."""

    def __init__(self, pattern: str, flags: str, names: dict[str, int]) -> None:
        self._pattern = pattern
        self._position = 0
        self._unicode = "u" in flags
        self._ignore_case = "i" in flags
        self._names = names
        self._word = charsets.WORD_UNICODE_IGNORING_CASE if self._unicode and self._ignore_case else charsets.WORD
        self._sets = {
            "d": charsets.DIGITS, "D": charsets.invert(charsets.DIGITS),
            "w": self._word, "W": charsets.invert(self._word),
            "s": charsets.SPACE, "S": charsets.invert(charsets.SPACE),
        }  # fmt: skip

    def _parse_brackets(self) -> tuple[CharacterSet, bool]:
        """Parse a class in brackets: return its characters, and whether the class means all others."""
        start = self._position
        self._position += 1
        negated = self._take("^")
        atoms: list[CharacterSet] = []
        while not self._take("]"):
            first = self._parse_class_atom(start)
            behind = self._pattern[self._position : self._position + 2]
            if not behind.startswith("-") or behind in ("-", "-]"):
                atoms.append(_to_set(first))
                continue
            dash = self._position
            self._position += 1
            last = self._parse_class_atom(start)
            if isinstance(first, int) and isinstance(last, int):
                if first > last:
                    raise self._invalid("a range is out of order", dash)
                atoms.append(CharacterSet(((first, last),)))
            elif self._unicode:
                raise self._invalid("a range needs a character on both sides", dash)
            else:
                atoms += _to_set(first), charsets.make_set(ord("-")), _to_set(last)
        return charsets.unite(atoms), negated

    def _parse_class_atom(self, start: int) -> int | CharacterSet:
        if self._position >= len(self._pattern):
            raise self._invalid("a character class is not closed", start)
        if self._pattern[self._position] == "\\":
            return self._parse_escape(in_class=True)
        self._position += 1
        return self._refuse_surrogate(ord(self._pattern[self._position - 1]))

    def _parse_escape(self, *, in_class: bool) -> int | CharacterSet:
        """Parse a backslash and the characters behind it: return the character or the set that they mean."""
        start = self._position
        self._position += 2
        following = self._pattern[start + 1 : start + 2]
        if not following:
            raise self._invalid("a backslash at the end", start)
        if following in self._sets:
            return CharacterSet(self._sets[following])
        if following in "pP" and self._unicode:
            return self._parse_property(negated=following == "P")
        if following in _CONTROLS:
            return _CONTROLS[following]
        if following == "b" and in_class:
            return 0x08
        if following == "c":
            return self._parse_control(start, in_class)
        if following == "0" and not _DIGIT.match(self._pattern, start + 2):
            return 0
        if _DIGIT.match(following):
            raise self._invalid("octal escapes are not supported", start)
        if following in "xu":
            point = self._parse_hexadecimal(following)
            if point is not None:
                return self._refuse_surrogate(point, start)
        if self._unicode and following not in _SYNTAX and not (in_class and following == "-"):
            raise self._invalid("no such escape with the u flag", start)
        if following == "k" and self._names:
            raise self._invalid("a reference to a group that does not exist", start)
        return self._refuse_surrogate(ord(following), start)

    def _parse_property(self, *, negated: bool) -> CharacterSet:
        name = _PROPERTY.match(self._pattern, self._position)
        notation = charsets.render_property(name[1], negated=negated) if name else None
        if not name or not notation:
            raise self._invalid("not a known property of characters")
        self._position = name.end()
        return CharacterSet(properties=(notation,))

    def _parse_control(self, start: int, in_class: bool) -> int:
        letter = self._pattern[start + 2 : start + 3]
        extended = in_class and not self._unicode and (letter == "_" or (letter.isascii() and letter.isdigit()))
        if extended or (letter.isascii() and letter.isalpha()):
            self._position += 1
            return ord(letter) % 32
        if self._unicode:
            raise self._invalid("no such control character", start)
        self._position = start + 1  # the backslash stands for itself
        return ord("\\")

    def _parse_hexadecimal(self, kind: str) -> int | None:
        if kind == "u" and self._unicode:
            braced = _BRACED_DIGITS.match(self._pattern, self._position)
            if braced and int(braced[1], 16) <= charsets.LAST:
                self._position = braced.end()
                return int(braced[1], 16)
        if kind == "u":
            both = _PAIR.match(self._pattern, self._position)
            if both:
                self._position = both.end()
                return 0x10000 + ((int(both[1], 16) - 0xD800) << 10) + int(both[2], 16) - 0xDC00
        digits = (_FOUR_DIGITS if kind == "u" else _TWO_DIGITS).match(self._pattern, self._position)
        if not digits:
            return None
        self._position = digits.end()
        return int(digits[0], 16)

    # -- parts

    def _take(self, text: str) -> bool:
        taken = self._pattern.startswith(text, self._position)
        self._position += len(text) * taken
        return taken

    def _refuse_surrogate(self, point: int, start: int | None = None) -> int:
        if point in charsets.SURROGATES:
            raise self._invalid("a surrogate on its own; write the whole character", start)
        return point

    def _invalid(self, reason: str, position: int | None = None) -> InvalidArgument:
        # A position, not the text: the audit stores messages, and a pattern may hold a secret.
        return InvalidArgument(f"Invalid pattern: {reason} (at {self._position if position is None else position}).")


def _to_set(atom: int | CharacterSet) -> CharacterSet:
    return charsets.make_set(atom) if isinstance(atom, int) else atom
