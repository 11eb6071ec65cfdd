"""Search text that cannot be parsed for certain for the names of restricted commands. Pure.

No list has all the programs that run their arguments, or all the ways to write a name. So this only searches: a command
is mentioned where its words stand in one part of the text, or where a variable there can hold what the text says
elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from wap_kernel.model.policy import ShellPolicy, VerdictKind
from wap_kernel.policy.commands.rule_match import glob_of_name, match_option, split_words
from wap_kernel.policy.shell.spelling_variants import expand_braced_word, list_spellings
from wap_kernel.policy.shell.syntax import Word

MAX_EXPANDED_GLOBS = 500
"""Patterns in a text; no honest command has more."""
MAX_SKIPPED = 20
"""Options between a program and its subcommand."""

_ENDS = re.compile(r"[;|&\n()`]+")
_BLANK = re.compile(r"[\s<>]+")
_NAMES = re.compile(r"[\w.+-]+")
_OPTION_NAME = re.compile(r"-[\w.+-]*")
_PARTS = re.compile(r"[-+_]")
_BEFORE_PROGRAMS = frozenset("do then else elif if while until ! { time exec command env eval".split())
_ASSIGNMENT = re.compile(r"\w+\+?=")


@dataclass(frozen=True)
class CommandPattern:
    """The words and options of a command that a policy asks about or denies."""

    words: tuple[str, ...]
    options: tuple[tuple[str, ...], ...] = ()
    """Groups of options; of each group one must be there."""
    blocked: bool = False
    network: bool = False
    """True where the command is given the network once it is allowed."""

    @classmethod
    def of_blocked(cls, entry: str) -> CommandPattern:
        options = [word for word in split_words(entry) if word.startswith("-")]
        letters = [(f"-{letter}",) for each in options if each[:2] != "--" for letter in each[1:]]
        names = tuple(
            word for word in split_words(entry) if _NAMES.fullmatch(word.replace("*", "x")) and word[0] != "-"
        )
        return cls(names, (*letters, *((each,) for each in options if each[:2] == "--")), blocked=True)

    def __str__(self) -> str:
        return " ".join((*self.words, *("|".join(each) for each in self.options)))


def list_restricted_commands(shell: ShellPolicy) -> tuple[CommandPattern, ...]:
    """Return the commands that the policy blocks or has a rule against."""
    rules = (rule for rule in shell.rules if rule.verdict is not VerdictKind.ALLOW)
    return (
        *map(CommandPattern.of_blocked, shell.blocked_commands),
        *(
            CommandPattern(
                split_words(rule.command),
                (rule.having,) if rule.having else (),
                blocked=rule.verdict is VerdictKind.DENY,
                network=rule.network,
            )
            for rule in rules
        ),
    )


def find_in_long_text(text: str, wanted: Iterable[CommandPattern]) -> CommandPattern | None:
    """Return the first command whose words stand anywhere in a text that is too long for `Mentions`."""
    words = frozenset(_NAMES.findall(text.casefold()))
    options = [Word(word) for word in frozenset(_NAMES.findall(text)) if word[0] == "-"]
    return next(
        (
            each
            for each in wanted
            if each.words
            and all(_among(name, words) for name in each.words)
            and all(_has(group, options) for group in each.options)
        ),
        None,
    )


class Mentions:
    """The names and options that stand in some texts."""

    def __init__(self, texts: Iterable[str], variable_values: Iterable[str] = (), *, parts: bool = False) -> None:
        """Search the texts and the values of variables. With `parts`, `x-sudo` names sudo, as in `${x-sudo}`."""
        variable_values, self._parts = tuple(variable_values), parts
        self._segments = list(
            dict.fromkeys(
                segment
                for text in (*texts, *variable_values)
                for spelling in list_spellings(text)
                for part in _ENDS.split(spelling)
                if (segment := tuple(_words(part)))
            )
        )
        words = dict.fromkeys(word for segment in self._segments for word in segment)
        self._names_of = {word: self._find_names(word) for word in words}
        self._names = frozenset(name for names in self._names_of.values() for name in names)
        self._options_of = {word: [Word(each) for each in _NAMES.findall(word) if each[0] == "-"] for word in words}
        self._options = list(dict.fromkeys(option for options in self._options_of.values() for option in options))
        self._globs = [word for word in words if _is_glob(word)]

    def first(self, wanted: Iterable[CommandPattern]) -> CommandPattern | None:
        return next((each for each in wanted if each.words and self._mentions(each)), None)

    def _mentions(self, wanted: CommandPattern) -> bool:
        if not all(map(self._is_named, wanted.words)):
            return False
        if len(wanted.words) == 1 and not wanted.options:
            return True
        return any(self._in_segment(wanted, segment) for segment in self._segments)

    def _is_named(self, name: str) -> bool:
        return _among(name, self._names) or any(self._is(name, word) for word in self._globs)

    def _is(self, name: str, word: str) -> bool:
        if _among(name, self._names_of[word]):
            return True
        return _is_glob(word) and (len(self._globs) > MAX_EXPANDED_GLOBS or _may_expand_to(name, word))

    def _in_segment(self, wanted: CommandPattern, segment: tuple[str, ...]) -> bool:
        program = next((n for n, w in enumerate(segment) if w not in _BEFORE_PROGRAMS and not _ASSIGNMENT.match(w)), 0)
        last = min((self._last(each, segment) for each in wanted.options), default=len(segment))
        for at, word in enumerate(segment[:last]):
            # A variable where a program stands can hold what is named elsewhere.
            variable = "$" in word and (at == program or "".join(segment[at + 1 : at + 2]).startswith("-"))
            if variable or self._is(wanted.words[0], word):
                end = self._after(wanted.words[1:], segment, at + 1)
                if end is not None and end <= last:
                    return True
        return False

    def _after(self, names: Sequence[str], words: tuple[str, ...], start: int) -> int | None:
        """Return the position after the names, between which only options and their values stand."""
        at = start
        for name in names:
            end = min(len(words), at + MAX_SKIPPED)
            while at < end and not (self._is(name, words[at]) or "$" in words[at]):
                if not (words[at].startswith("-") or (at > start and words[at - 1].startswith("-"))):
                    return None
                at += 1
            if at == end:
                return None
            at += 1
        return at

    def _last(self, options: Sequence[str], segment: tuple[str, ...]) -> int:
        """Return the position of the last of the options in the segment, or -1."""
        if any("$" in word for word in segment) and _has(options, self._options):
            return len(segment)
        there = (at for at in range(len(segment) - 1, -1, -1) if _has(options, self._options_of[segment[at]]))
        return next(there, -1)

    def _find_names(self, word: str) -> frozenset[str]:
        if word.startswith("-"):  # `--rm` is no rm, and `--with=sudo` has one
            word = _OPTION_NAME.sub("", word, count=1)
        names = _NAMES.findall(word.casefold())
        return frozenset((*names, *(part for name in names for part in _PARTS.split(name) if self._parts)))


def _words(part: str) -> Iterable[str]:
    for word in filter(None, _BLANK.split(part)):
        yield word
        yield from expand_braced_word(word)


def _among(name: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(each, name) for each in names) if "*" in name else name in names


def _has(options: Iterable[str], words: Iterable[Word]) -> bool:
    return any(match_option(option, words, certain=False) for option in options)


def _is_glob(word: str) -> bool:
    return any(char in word for char in "*?[")


def _may_expand_to(name: str, word: str) -> bool:
    """Return whether a glob may mean the program: `/usr/bin/sud?`.

    Most globs with `*` are for files of the workspace, so these must have more letters in common.
    """
    base = word.casefold().rpartition("/")[2]
    pattern = glob_of_name(base)
    letters = sum(char.isalnum() for char in pattern)
    is_telling = word.startswith("/") or "*" not in word
    return letters >= (1 if is_telling else max(2, len(name) - 1)) and fnmatchcase(name, pattern)
