r"""Translate JavaScript's patterns into the notation of the `regex` module.

The regex module knows far more (fuzzy matching, recursion, possessive repeats, inline flags), so nothing of a pattern
is passed through: the parser writes JavaScript's syntax anew, every character escaped, and refuses the rest.

Differences from JavaScript, on purpose: a character is a code point also without the `u` flag (half of one cannot be
written to a file), so a surrogate on its own is refused; octal escapes are refused; and so is a repeat of something
that can match nothing where the two engines would not agree, such as `(a|b*)*`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import regex

from wap_kernel.files.edit.js_regex import charsets
from wap_kernel.files.edit.js_regex.charsets import CharacterSet
from wap_kernel.files.edit.js_regex.escapes import CharacterParser
from wap_kernel.files.edit.js_regex.groups import OPENING, scan_groups
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_REGEX_CHARACTERS

MAX_DEPTH = 50
MAX_COUNT = 65_535
MAX_EXPANDED_SIZE = 20_000
"""Size of the pattern with its repeats written out: the regex module makes n + 1 copies for `{n,m}`."""

_COUNTS = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_NAME = regex.compile(r"[$_\p{ID_Start}][$\u200c\u200d\p{ID_Continue}]*")
_DIGITS = re.compile("[0-9]+")
_REFERENCE = re.compile("<([^>]*)>")


@dataclass(frozen=True)
class TranslatedPattern:
    """A pattern for the regex module."""

    source: str
    names: dict[str, int]
    """Numbers of the named groups; group n is called `gn` in the source."""
    groups: int


def translate(pattern: str, flags: str) -> TranslatedPattern:
    if len(pattern) > MAX_REGEX_CHARACTERS:
        raise InvalidArgument(f"The pattern is longer than {MAX_REGEX_CHARACTERS} characters.")
    groups, names = scan_groups(pattern)
    parser = _Parser(pattern, flags, groups, names)
    return TranslatedPattern(parser.parse(), names, groups)


class _Empty(Enum):
    """The moments at which a part of a pattern can match the empty text."""

    NEVER = 0
    LAST = 1  # after everything else was tried
    EARLY = 2


@dataclass(frozen=True)
class _Node:
    """A part of the pattern, translated so that a repeat can follow it."""

    code: str
    size: int = 1
    empty: _Empty = _Empty.NEVER
    groups: tuple[int, ...] = ()
    looked: bool = False
    """True if a group inside is in a look-around, which can match the empty text and still fill the group."""


class _Parser(CharacterParser):
    def __init__(self, pattern: str, flags: str, groups: int, names: dict[str, int]) -> None:
        super().__init__(pattern, flags, names)
        self._groups = groups
        self._opened = 0
        self._open: list[int] = []
        self._depth = 0
        self._closed_sets: dict[CharacterSet, CharacterSet] = {}
        self._backward = False  # in a look-behind, which is matched from right to left
        line_end = CharacterSet(charsets.TERMINATORS).render()
        word = CharacterSet(self._word).render()
        many = "m" in flags
        self._any = (
            CharacterSet().render(negated=True)
            if "s" in flags
            else CharacterSet(charsets.TERMINATORS).render(negated=True)
        )
        self._assertions = {
            "^": f"(?:\\A|(?<={line_end}))" if many else "\\A",
            "$": f"(?:\\Z|(?={line_end}))" if many else "\\Z",
            "\\b": f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))",
            "\\B": f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}))",
        }

    def parse(self) -> str:
        node = self._parse_alternatives()
        if self._position < len(self._pattern):
            raise self._invalid("a closing parenthesis without an opening one")
        return node.code

    # -- structure

    def _parse_alternatives(self) -> _Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._invalid(f"groups are nested deeper than {MAX_DEPTH}")
        branches = [self._parse_sequence()]
        while self._take("|"):
            branches.append(self._parse_sequence())
        self._depth -= 1
        early = any(branch.empty is not _Empty.NEVER for branch in branches[:-1])
        empty = _Empty.EARLY if early else branches[-1].empty
        return self._join("|".join(branch.code for branch in branches), branches, empty)

    def _parse_sequence(self) -> _Node:
        terms: list[_Node] = []
        size = 0
        while self._position < len(self._pattern) and self._pattern[self._position] not in "|)":
            terms.append(self._parse_term())
            size = self._check_size(size + terms[-1].size)  # here as well, to be refused before the work is done
        empties = {term.empty for term in terms}
        empty = next((kind for kind in (_Empty.NEVER, _Empty.EARLY) if kind in empties), _Empty.LAST)
        return self._join("".join(term.code for term in terms), terms, empty)

    def _join(self, code: str, nodes: list[_Node], empty: _Empty) -> _Node:
        groups = tuple(group for node in nodes for group in node.groups)
        size = self._check_size(sum(node.size for node in nodes) + 1)
        return _Node(code, size, empty, groups, any(node.looked for node in nodes))

    def _parse_term(self) -> _Node:
        for written, code in self._assertions.items():
            if self._take(written):
                return _Node(code, 5, _Empty.LAST)  # a repeat behind it is refused as one of nothing
        character = self._pattern[self._position]
        if character == "(":
            return self._parse_group()
        if character in "*+?" or (character == "{" and _COUNTS.match(self._pattern, self._position)):
            raise self._invalid("nothing to repeat")
        if character == "[":
            chosen, negated = self._parse_brackets()
            return self._parse_repeat(self._class(chosen, negated=negated))
        if character == "\\":
            return self._parse_repeat(self._parse_backslash())
        if character in "{}]" and self._unicode:
            raise self._invalid("a bracket that needs a backslash with the u flag")
        self._position += 1
        if character == ".":
            return self._parse_repeat(_Node(self._any))
        return self._parse_repeat(self._literal(self._refuse_surrogate(ord(character))))

    def _parse_group(self) -> _Node:
        start = self._position
        if self._pattern[start + 1 : start + 2] != "?":
            self._position += 1
            return self._parse_repeat(self._parse_capture())
        opening = OPENING.match(self._pattern, start)
        if not opening:
            raise self._invalid("JavaScript has no such group")
        self._position = opening.end()
        colon, behind, looking, name = opening.groups()
        if colon:
            inner = self._parse_closed(start)
            return self._parse_repeat(_Node(f"(?:{inner.code})", inner.size, inner.empty, inner.groups, inner.looked))
        if name is not None:
            if not _NAME.fullmatch(name):
                raise self._invalid("not a name for a group", start)
            return self._parse_repeat(self._parse_capture())
        outside, self._backward = self._backward, bool(behind)
        inner = self._parse_closed(start)
        self._backward = outside
        node = _Node(f"(?{behind}{looking}{inner.code})", inner.size + 1, _Empty.LAST, inner.groups, bool(inner.groups))
        # Only a look-ahead may be repeated, and only without `u`.
        return node if behind or self._unicode else self._parse_repeat(node)

    def _parse_capture(self) -> _Node:
        start = self._position
        self._opened += 1
        number = self._opened
        self._open.append(number)
        inner = self._parse_closed(start - 1)
        self._open.pop()
        return _Node(f"(?P<g{number}>{inner.code})", inner.size + 1, inner.empty, (number, *inner.groups), inner.looked)

    def _parse_closed(self, start: int) -> _Node:
        inner = self._parse_alternatives()
        if not self._take(")"):
            raise self._invalid("a group is not closed", start)
        return inner

    # -- repeats

    def _parse_repeat(self, body: _Node) -> _Node:
        start = self._position
        limits = self._parse_limits()
        if limits is None:
            return body
        low, high = limits
        lazy = self._take("?")
        if high is not None and high < low:
            raise self._invalid("the counts of a repeat are out of order", start)
        self._check_empty(body, low, high, start)
        size = self._check_size((body.size + len(body.groups)) * (low + 1), start)
        empty = body.empty
        if low == 0 or empty is not _Empty.NEVER:
            empty = _Empty.EARLY if lazy or empty is _Empty.EARLY else _Empty.LAST
        counts = f"{{{low},{'' if high is None else high}}}"
        code = f"(?:{self._empty_groups(body, high)}){counts}{'?' if lazy else ''}"
        return _Node(code, size, empty, body.groups, body.looked)

    def _parse_limits(self) -> tuple[int, int | None] | None:
        for written, limits in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(written):
                return limits
        counts = _COUNTS.match(self._pattern, self._position)
        if not counts:
            return None
        self._position = counts.end()
        low, more, high = counts.groups(default="")
        # By length first: int() refuses thousands of digits.
        if any(len(digits) > 9 or int(digits or 0) > MAX_COUNT for digits in (low, high)):
            raise self._invalid(f"a count above {MAX_COUNT}", counts.start())
        return int(low), (int(high) if high else None) if more else int(low)

    def _check_empty(self, body: _Node, low: int, high: int | None, start: int) -> None:
        """Refuse a repeat of `body` that the two engines would match differently.

        JavaScript throws an optional round away that matched the empty text; the regex module keeps it and stops. That
        is the same if the empty text was the last resort, and no group could have been filled or emptied.
        """
        if body.empty is _Empty.NEVER or low == high:
            return
        if body.empty is _Empty.EARLY or body.looked or (body.groups and high != 1):
            raise InvalidArgument(
                f"A repeat of something that can match nothing is not supported here (at {start} of the pattern).",
                hint="Write it so that each repetition matches at least one character.",
            )

    def _empty_groups(self, body: _Node, high: int | None) -> str:
        """Return the code of `body`, with its groups emptied at the beginning of each round.

        JavaScript forgets them there, and a replacement cannot tell an empty group from a forgotten one.
        """
        if high in (0, 1):
            return body.code
        forgotten = "".join(f"(?P<g{group}>)" for group in body.groups)
        return f"{body.code}{forgotten}" if self._backward else f"{forgotten}{body.code}"

    # -- characters

    def _literal(self, point: int) -> _Node:
        if self._ignore_case:
            same = charsets.list_case_variants(point, unicode=self._unicode)
            if len(same) > 1:
                return _Node(charsets.make_set(*same).render(), len(same))
        return _Node(charsets.render_character(point))

    def _class(self, chosen: CharacterSet, *, negated: bool = False) -> _Node:
        if self._ignore_case:
            if chosen not in self._closed_sets:
                self._closed_sets[chosen] = chosen.add_case_variants(unicode=self._unicode)
            chosen = self._closed_sets[chosen]
        return _Node(chosen.render(negated=negated), chosen.size)

    def _parse_backslash(self) -> _Node:
        following = self._pattern[self._position + 1 : self._position + 2]
        if following and following in "123456789":
            digits = _DIGITS.findall(self._pattern, self._position + 1, self._position + 6)[0]
            if len(digits) > 4 or int(digits) > self._groups:
                raise self._invalid("a reference to a group that does not exist (octal escapes are not supported)")
            self._position += 1 + len(digits)
            return self._reference(int(digits))
        if following == "k" and (self._names or self._unicode):
            name = _REFERENCE.match(self._pattern, self._position + 2)
            if not name or name[1] not in self._names:
                raise self._invalid("a reference to a group that does not exist")
            self._position = name.end()
            return self._reference(self._names[name[1]])
        found = self._parse_escape(in_class=False)
        return self._literal(found) if isinstance(found, int) else self._class(found)

    def _reference(self, group: int) -> _Node:
        if group in self._open:  # not yet matched, and that matches nothing
            return _Node("(?:)", empty=_Empty.LAST)
        again = f"(?i:(?P=g{group}))" if self._ignore_case else f"(?P=g{group})"
        return _Node(f"(?(g{group}){again})", 2, _Empty.LAST)

    def _check_size(self, size: int, start: int | None = None) -> int:
        if size > MAX_EXPANDED_SIZE:
            raise self._invalid(f"with its repeats written out it is larger than {MAX_EXPANDED_SIZE}", start)
        return size
