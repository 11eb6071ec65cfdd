"""Match command rules against commands: no, possibly, or certainly. Pure.

A file named `-delete` makes `find *` another command, and a variable can hold anything. So a rule that allows must fit
for certain, and one that asks or denies counts when it possibly fits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Protocol

from wap_kernel.model.paths import relative_to
from wap_kernel.model.policy import CommandRule, VerdictKind
from wap_kernel.policy.commands.program_lookup import BUILTINS
from wap_kernel.policy.shell.syntax import Word

Words = tuple[Word, ...]


class Fit(IntEnum):
    """The degree to which a rule fits a command."""

    NO = 0
    POSSIBLE = 1
    CERTAIN = 2


class CommandFacts(Protocol):
    """The facts about the machine that rules need."""

    @property
    def confined(self) -> bool: ...
    @property
    def layered(self) -> bool: ...
    @property
    def home(self) -> str: ...
    @property
    def root(self) -> str: ...
    def resolve(self, name: str, /) -> str | None:
        """Return the real path of a program, see `Programs`."""

    def is_missing(self, name: str, /) -> bool:
        """Return whether no program of this name exists, see `Programs`."""


@dataclass(frozen=True)
class Program:
    """A program, as far as its name identifies it."""

    name: str | None
    """The name of the trusted program that it certainly is, or None."""
    names: frozenset[str]
    """The names of the programs that it may be."""
    pattern: str | None = None
    """The glob whose matches it may be: `/usr/bin/sud?`."""


def identify_program(text: str, facts: CommandFacts, *, external: bool) -> Program:
    """Return the program that `text` names.

    `/usr/bin/git` is git if that is what `git` means; `./git` is not, but `./sudo` may well be sudo.
    """
    base = text.rpartition("/")[2]
    real = facts.resolve(text)
    names = {base, base.casefold()} | ({os.path.basename(real)} if real else set())
    if "/" in text:
        trusted = real is not None and facts.resolve(base) == real
    else:
        trusted = real is not None or (text in BUILTINS and not external)
    return Program(base if trusted else None, frozenset(names))


@dataclass(frozen=True)
class _Leading:
    """Options between a program and its subcommand, with the number of words that follow each."""

    harmless: Mapping[str, int]
    others: Mapping[str, int]


def _options(flags: str, valued: str) -> dict[str, int]:
    return {**dict.fromkeys(flags.split(), 0), **dict.fromkeys(valued.split(), 1)}


_NPM = _Leading(_options("-s --silent", "--prefix"), {})
_PIP = _Leading(
    _options("-q --quiet -v --verbose --no-input --no-color --disable-pip-version-check", ""),
    _options("--isolated --require-virtualenv", "--python --log --proxy --retries --timeout --cache-dir --cert"),
)
_LEADING: Mapping[str, _Leading] = {
    "git": _Leading(
        _options("--no-pager -P --no-optional-locks --literal-pathspecs", "-C"),
        _options(
            "-p --paginate --bare --no-replace-objects --glob-pathspecs --noglob-pathspecs --exec-path --no-advice",
            "-c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source",
        ),
    ),
    "npm": _NPM,
    "pip": _PIP,
    "pip3": _PIP,
}


@lru_cache(maxsize=4096)
def split_words(command: str) -> tuple[str, ...]:
    return tuple(command.split())


def match_rule(rule: CommandRule, program: Program, words: Words, facts: CommandFacts) -> Fit:
    """Return how far `rule` fits `words`, which begin with the program.

    On a Layer `rm *.tmp` is no `rm -r`, although a file may have the name `-r`: policy judges the effect.
    """
    fit = _match_as_written(rule, program, words, facts)
    if fit is Fit.POSSIBLE and facts.layered:
        literal = (words[0], *(word for word in words[1:] if word.literal is not None))
        return _match_as_written(rule, program, literal, facts)
    return fit


def _match_as_written(rule: CommandRule, program: Program, words: Words, facts: CommandFacts) -> Fit:
    certain = rule.verdict is VerdictKind.ALLOW
    fit = match_words(split_words(rule.command), program, words, certain=certain)
    if rule.leaving and not any(may_leave(word, facts) for word in words[1:]):
        return Fit.NO
    if rule.alone and len(words) != len(split_words(rule.command)):
        return Fit.NO
    if fit and rule.having:
        fit = min(fit, max(match_option(option, words[1:], certain=certain) for option in rule.having))
    if fit and rule.targets:
        fit = min(fit, max((_points_at(t, w, facts) for t in rule.targets for w in words[1:]), default=Fit.NO))
    if fit and rule.without:
        present = max(match_option(option, words[1:], certain=False) for option in rule.without)
        if present is Fit.CERTAIN or (certain and present):
            return Fit.NO
    return Fit.NO if certain and fit is not Fit.CERTAIN else fit


def match_words(pattern: Sequence[str], program: Program, words: Words, *, certain: bool) -> Fit:
    """Return how far the program and its first words are those of `pattern`."""
    names = ({program.name} if program.name else set()) if certain else program.names
    most = Fit.CERTAIN
    # Most rules are about another program, and most are no patterns.
    if pattern[0] not in names and not ("*" in pattern[0] and any(fnmatchcase(name, pattern[0]) for name in names)):
        if certain or program.pattern is None or not fnmatchcase(pattern[0].casefold(), program.pattern):
            return Fit.NO
        most = Fit.POSSIBLE
    if len(pattern) == 1:
        return most
    rest, harmless = skip_leading_options(pattern[0], words[1:])
    fit = max(
        _begins(pattern[1:], words[1:]), _begins(pattern[1:], rest) if rest and (harmless or not certain) else Fit.NO
    )
    return Fit.NO if certain and fit is not Fit.CERTAIN else min(fit, most)


def match_blocked(entry: str, program: Program, words: Words) -> Fit:
    """Return how far a blocked command fits. The options of a blocked `rm -rf /` count wherever they stand."""
    pattern = split_words(entry)
    options = [word for word in pattern[1:] if word.startswith("-")]
    if not options:
        return match_words(pattern, program, words, certain=False)
    fit = match_words(pattern[:1], program, words, certain=False)
    letters = [f"-{x}" for o in options if not o.startswith("--") for x in o[1:]] + [
        o for o in options if o[:2] == "--"
    ]
    texts = [word.text for word in words[1:]]
    if not fit or any(word not in texts for word in pattern[1:] if word not in options):
        return Fit.NO
    return min(fit, *(match_option(option, words[1:], certain=False) for option in letters))


_BRACKETS = re.compile(r"\[.*\]", re.DOTALL)


def glob_of_name(base: str) -> str:
    """Return a glob that matches at least as much as the file name `base`: brackets may stand for anything."""
    return _BRACKETS.sub("*", base.casefold())


def skip_leading_options(name: str, words: Words) -> tuple[Words, bool]:
    """Return the words after the program's own options, and whether these options are harmless."""
    leading = _LEADING.get(name)
    at, harmless = 0, True
    while leading and at < len(words) and words[at].text.startswith("-"):
        option, equals, _ = words[at].text.partition("=")
        if option in leading.harmless and words[at].literal is not None:
            at += 1 + leading.harmless[option] * (not equals)
        else:
            harmless = False
            at += 1 + leading.others.get(option, 0) * (not equals)
    return words[at:], harmless and not any(word.splits or word.glob for word in words[:at])


def has_harmless_leading(program: Program, words: Words) -> bool:
    return all(skip_leading_options(name, words[1:])[1] for name in program.names)


def _begins(pattern: Sequence[str], words: Words) -> Fit:
    for expected, word in zip(pattern, words, strict=False):
        if word.literal is None:
            return Fit.POSSIBLE
        if word.literal != expected:
            return Fit.NO
    return Fit.CERTAIN if len(words) >= len(pattern) else Fit.NO


def match_option(option: str, words: Iterable[Word], *, certain: bool) -> Fit:
    """Return how far one of the words is the option. With `certain`, words after `--` are no options."""
    best = Fit.NO
    for word in words:
        if certain and word.text == "--":
            break
        best = max(best, _is(option, word))
    return best


def _is(option: str, word: Word) -> Fit:
    if word.may_be_any_option:
        return Fit.POSSIBLE
    text = word.text.partition("=")[0]
    if text == option:
        return Fit.CERTAIN
    if option.startswith("--"):
        # getopt takes any beginning of a long option for the option.
        return Fit.POSSIBLE if len(text) > 2 and option.startswith(text) else Fit.NO
    if len(option) == 2 and option[0] == "-" and text[:1] == "-" and text[:2] != "--" and option[1] in word.text[1:]:
        return Fit.CERTAIN if text[1:].isalpha() else Fit.POSSIBLE
    return Fit.NO


_EVERYTHING = frozenset("* ** .* .[!.]* ?* .??*".split())


def _points_at(target: str, word: Word, facts: CommandFacts) -> Fit:
    if word.text.startswith("-"):
        return Fit.NO
    text, fit = _absolute(word, facts)
    if text is None:
        return Fit.POSSIBLE
    parts = text.split("/")
    if word.glob:
        first = next(n for n, part in enumerate(parts) if any(char in part for char in "*?["))
        relative = not word.home and not word.text.startswith(("/", "$HOME", ".."))
        if relative or not all(part in _EVERYTHING for part in parts[first:]):
            fit = Fit.POSSIBLE
        parts = parts[:first]
    path = "/" + os.path.normpath("/".join(parts) or "/").lstrip("/")
    # A folder above the home folder or the workspace includes it.
    folder = {"/": "/", "~": facts.home, ".": facts.root}.get(target)
    if folder is None:
        return fit if path == os.path.normpath(target) else Fit.NO
    if target == "/":
        return fit if path == "/" else Fit.NO
    return fit if relative_to(os.path.normpath(folder), path) is not None else Fit.NO


def _absolute(word: Word, facts: CommandFacts) -> tuple[str | None, Fit]:
    if word.home:
        return facts.home + word.text[1:], Fit.CERTAIN
    if word.text == "$HOME" or word.text.startswith("$HOME/"):
        return (facts.home + word.text[5:], Fit.CERTAIN) if "$" not in word.text[1:] else (None, Fit.POSSIBLE)
    if not word.known:
        return None, Fit.POSSIBLE
    return os.path.join(facts.root, word.text), Fit.CERTAIN


def may_leave(word: Word, facts: CommandFacts) -> bool:
    """Return whether the word may name a path outside the root; links are not followed."""
    if not word.known or word.home:
        return True
    parts = word.text.replace("=", "/").replace(":", "/").split("/")
    if ".." in parts or (word.glob and any(part[:1] == "." and set(part) & set("*?[") for part in parts)):
        return True
    if word.text.startswith("/"):
        return relative_to(os.path.normpath(word.text), facts.root) is None
    # The value may be glued to its option: `-f/etc/passwd`, `--file=/etc/passwd`.
    return "/" in word.text and (word.text.startswith("-") or "=/" in word.text or ":/" in word.text)


def may_go_home(words: Words) -> bool:
    """Return whether the command is `cd` alone, or `cd -`."""
    return words[0].text == "cd" and all(word.text.startswith("-") for word in words[1:])
