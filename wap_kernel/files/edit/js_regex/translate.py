r"""JavaScript's patterns in the notation of the `regex` module: a recogniser of JavaScript's syntax, and nothing else.

The regex module knows far more (fuzzy matching, recursion, possessive repeats, inline flags), so nothing of a pattern
is passed through: what is recognised is written anew, every character escaped, and the rest is refused.

What differs from JavaScript, on purpose: a character is a code point also without the `u` flag (half of one cannot be
written to a file), so a surrogate on its own is refused; octal escapes are refused; and so is a repeat of something
that can match nothing where the two engines would not agree, such as `(a|b*)*`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import regex

from wap_kernel.files.edit.js_regex import charsets
from wap_kernel.files.edit.js_regex.charsets import Set
from wap_kernel.files.edit.js_regex.escapes import Characters
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_REGEX_CHARACTERS

MAX_DEPTH = 50
MAX_COUNT = 65_535
MAX_SIZE = 20_000
"""Of the pattern with its repeats written out, which is what the regex module does with `{n,m}`: n + 1 copies."""

_COUNTS = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_NAME = regex.compile(r"[$_\p{ID_Start}][$\u200c\u200d\p{ID_Continue}]*")
_DIGITS = re.compile("[0-9]+")
_REFERENCE = re.compile("<([^>]*)>")
_OPENING = re.compile(r"\(\?(?:(:)|(<?)([=!])|<([^>]*)>)")


@dataclass(frozen=True)
class Translated:
    source: str
    names: dict[str, int]
    """The number of each named group; group n is called `gn` in the source."""
    groups: int


def translate(pattern: str, flags: str) -> Translated:
    if len(pattern) > MAX_REGEX_CHARACTERS:
        raise InvalidArgument(f"The pattern is longer than {MAX_REGEX_CHARACTERS} characters.")
    groups, names = _groups(pattern)
    parser = _Parser(pattern, flags, groups, names)
    return Translated(parser.whole(), names, groups)


class _Empty(Enum):
    """Whether something can match nothing, and when."""

    NEVER = 0
    LAST = 1  # only after everything else was tried
    EARLY = 2


@dataclass(frozen=True)
class _Node:
    """A part of the pattern, written anew so that a repeat can follow it."""

    code: str
    size: int = 1
    empty: _Empty = _Empty.NEVER
    groups: tuple[int, ...] = ()
    looked: bool = False
    """Whether a group inside is in a look-around, which can match nothing and still hold something."""


def _groups(pattern: str) -> tuple[int, dict[str, int]]:
    """How many groups there are and their names: a back-reference may come before its group."""
    count, names, in_class, position = 0, dict[str, int](), False, 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
        elif character in "[]":
            in_class = character == "["
        elif character == "(" and not in_class:
            opening = _OPENING.match(pattern, position)
            if opening and opening[4] is not None:
                if opening[4] in names:
                    raise InvalidArgument(f"Invalid pattern: two groups have the same name (at {position}).")
                names[opening[4]] = count + 1
            count += pattern[position + 1 : position + 2] != "?" or bool(opening and opening[4] is not None)
        position += 1
    return count, names


class _Parser(Characters):
    def __init__(self, pattern: str, flags: str, groups: int, names: dict[str, int]) -> None:
        super().__init__(pattern, flags, names)
        self._groups = groups
        self._opened = 0
        self._open: list[int] = []
        self._depth = 0
        self._closed_sets: dict[Set, Set] = {}
        self._backward = False  # in a look-behind, which is matched from right to left
        line_end = Set(charsets.TERMINATORS).notation()
        word = Set(self._word).notation()
        many = "m" in flags
        self._any = Set().notation(negated=True) if "s" in flags else Set(charsets.TERMINATORS).notation(negated=True)
        self._assertions = {
            "^": f"(?:\\A|(?<={line_end}))" if many else "\\A",
            "$": f"(?:\\Z|(?={line_end}))" if many else "\\Z",
            "\\b": f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))",
            "\\B": f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}))",
        }

    def whole(self) -> str:
        node = self._alternatives()
        if self._position < len(self._pattern):
            raise self._invalid("a closing parenthesis without an opening one")
        return node.code

    # -- structure

    def _alternatives(self) -> _Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._invalid(f"groups are nested deeper than {MAX_DEPTH}")
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        self._depth -= 1
        early = any(branch.empty is not _Empty.NEVER for branch in branches[:-1])
        empty = _Empty.EARLY if early else branches[-1].empty
        return self._joined("|".join(branch.code for branch in branches), branches, empty)

    def _sequence(self) -> _Node:
        terms: list[_Node] = []
        size = 0
        while self._position < len(self._pattern) and self._pattern[self._position] not in "|)":
            terms.append(self._term())
            size = self._checked(size + terms[-1].size)  # here as well, to be refused before the work is done
        empties = {term.empty for term in terms}
        empty = next((kind for kind in (_Empty.NEVER, _Empty.EARLY) if kind in empties), _Empty.LAST)
        return self._joined("".join(term.code for term in terms), terms, empty)

    def _joined(self, code: str, nodes: list[_Node], empty: _Empty) -> _Node:
        groups = tuple(group for node in nodes for group in node.groups)
        size = self._checked(sum(node.size for node in nodes) + 1)
        return _Node(code, size, empty, groups, any(node.looked for node in nodes))

    def _term(self) -> _Node:
        for written, code in self._assertions.items():
            if self._take(written):
                return _Node(code, 5, _Empty.LAST)  # a repeat behind it is refused as one of nothing
        character = self._pattern[self._position]
        if character == "(":
            return self._group()
        if character in "*+?" or (character == "{" and _COUNTS.match(self._pattern, self._position)):
            raise self._invalid("nothing to repeat")
        if character == "[":
            chosen, negated = self._bracketed()
            return self._repeated(self._class(chosen, negated=negated))
        if character == "\\":
            return self._repeated(self._escape())
        if character in "{}]" and self._unicode:
            raise self._invalid("a bracket that needs a backslash with the u flag")
        self._position += 1
        if character == ".":
            return self._repeated(_Node(self._any))
        return self._repeated(self._literal(self._no_surrogate(ord(character))))

    def _group(self) -> _Node:
        start = self._position
        if self._pattern[start + 1 : start + 2] != "?":
            self._position += 1
            return self._repeated(self._capture())
        opening = _OPENING.match(self._pattern, start)
        if not opening:
            raise self._invalid("JavaScript has no such group")
        self._position = opening.end()
        plain, behind, looking, name = opening.groups()
        if plain:
            inner = self._closed(start)
            return self._repeated(_Node(f"(?:{inner.code})", inner.size, inner.empty, inner.groups, inner.looked))
        if name is not None:
            if not _NAME.fullmatch(name):
                raise self._invalid("not a name for a group", start)
            return self._repeated(self._capture())
        outside, self._backward = self._backward, bool(behind)
        inner = self._closed(start)
        self._backward = outside
        node = _Node(f"(?{behind}{looking}{inner.code})", inner.size + 1, _Empty.LAST, inner.groups, bool(inner.groups))
        # Only a look-ahead may be repeated, and only without `u`.
        return node if behind or self._unicode else self._repeated(node)

    def _capture(self) -> _Node:
        start = self._position
        self._opened += 1
        number = self._opened
        self._open.append(number)
        inner = self._closed(start - 1)
        self._open.pop()
        return _Node(f"(?P<g{number}>{inner.code})", inner.size + 1, inner.empty, (number, *inner.groups), inner.looked)

    def _closed(self, start: int) -> _Node:
        inner = self._alternatives()
        if not self._take(")"):
            raise self._invalid("a group is not closed", start)
        return inner

    # -- repeats

    def _repeated(self, body: _Node) -> _Node:
        start = self._position
        limits = self._limits()
        if limits is None:
            return body
        low, high = limits
        lazy = self._take("?")
        if high is not None and high < low:
            raise self._invalid("the counts of a repeat are out of order", start)
        self._check_empty(body, low, high, start)
        size = self._checked((body.size + len(body.groups)) * (low + 1), start)
        empty = body.empty
        if low == 0 or empty is not _Empty.NEVER:
            empty = _Empty.EARLY if lazy or empty is _Empty.EARLY else _Empty.LAST
        counts = f"{{{low},{'' if high is None else high}}}"
        code = f"(?:{self._forgetting(body, high)}){counts}{'?' if lazy else ''}"
        return _Node(code, size, empty, body.groups, body.looked)

    def _limits(self) -> tuple[int, int | None] | None:
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
        """JavaScript throws an optional round that matched nothing away; the regex module keeps it and stops.

        That comes to the same thing if nothing was the last resort, and no group could have been filled or emptied.
        """
        if body.empty is _Empty.NEVER or low == high:
            return
        if body.empty is _Empty.EARLY or body.looked or (body.groups and high != 1):
            raise InvalidArgument(
                f"A repeat of something that can match nothing is not supported here (at {start} of the pattern).",
                hint="Write it so that each repetition matches at least one character.",
            )

    def _forgetting(self, body: _Node, high: int | None) -> str:
        """JavaScript forgets the groups inside at each round; to be empty is as good, as nobody can tell the two."""
        if high in (0, 1):
            return body.code
        forgotten = "".join(f"(?P<g{group}>)" for group in body.groups)
        return f"{body.code}{forgotten}" if self._backward else f"{forgotten}{body.code}"

    # -- characters

    def _literal(self, point: int) -> _Node:
        if self._ignore_case:
            same = charsets.same_ignoring_case(point, unicode=self._unicode)
            if len(same) > 1:
                return _Node(charsets.characters(*same).notation(), len(same))
        return _Node(charsets.literal(point))

    def _class(self, chosen: Set, *, negated: bool = False) -> _Node:
        if self._ignore_case:
            if chosen not in self._closed_sets:
                self._closed_sets[chosen] = chosen.ignoring_case(unicode=self._unicode)
            chosen = self._closed_sets[chosen]
        return _Node(chosen.notation(negated=negated), chosen.size)

    def _escape(self) -> _Node:
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
        found = self._escaped(in_class=False)
        return self._literal(found) if isinstance(found, int) else self._class(found)

    def _reference(self, group: int) -> _Node:
        if group in self._open:  # not yet matched, and that matches nothing
            return _Node("(?:)", empty=_Empty.LAST)
        again = f"(?i:(?P=g{group}))" if self._ignore_case else f"(?P=g{group})"
        return _Node(f"(?(g{group}){again})", 2, _Empty.LAST)

    def _checked(self, size: int, start: int | None = None) -> int:
        if size > MAX_SIZE:
            raise self._invalid(f"with its repeats written out it is larger than {MAX_SIZE}", start)
        return size
