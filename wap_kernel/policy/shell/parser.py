r"""Parse a command line: find the commands that it would run, as far as that is certain. Pure.

Two parsers read the text: tree-sitter-bash, which knows the whole language but differs from bash in corners
(`su\<newline>do` is two words to it), and `strict_lexer.py`, which knows little and that strictly. A line is
analysable only if both find the same words. `commands` has what either of them found anywhere, so that a blocked
program is seen in a substitution too; `problems` says why the line cannot be allowed by analysis.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field, replace
from functools import lru_cache

from wap_kernel.model.limits import MAX_LOOSE_TREE_CHARACTERS, MAX_PARSED_COMMAND_CHARACTERS, MAX_STRICT_TREE_CHARACTERS
from wap_kernel.policy.shell import spelling_variants
from wap_kernel.policy.shell.strict_lexer import Unreadable, read_strictly
from wap_kernel.policy.shell.syntax import Redirect, SimpleCommand, Word
from wap_kernel.policy.shell.tree_parser import TreeParse, parse_tree

__all__ = ["Redirect", "Script", "SimpleCommand", "Word", "builtin_problem", "parse_command"]

MAX_CACHED_SCRIPTS = 32


@dataclass(frozen=True)
class Script:
    """A parsed command line."""

    commands: tuple[SimpleCommand, ...]
    problems: tuple[str, ...] = ()
    """Reasons why the line is not analysable; empty if it is."""
    text: str = field(default="", compare=False)
    """The command line, to search for names."""
    variable_values: tuple[str, ...] = field(default=(), compare=False)
    """The values of the caller's own variables, to search for names."""
    whole: bool = True
    """False where the line is too long or too deep, so that a part of it was not parsed."""


_CHANGES_THE_SHELL = frozenset(
    """
    eval source . exec alias unalias shopt set unset export declare typeset local readonly read mapfile readarray let
    trap enable hash bind complete compgen compopt fc history getopts builtin coproc ulimit umask suspend
    """.split()
)
"""Builtins after which a word no longer means what it says, or which run text."""
_HARMLESS_SET = re.compile(r"set( -[eux]+| -[eux]*o (pipefail|errexit|nounset))+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_BINARY_TESTS = frozenset("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef".split())
_UNARY_TESTS = frozenset(f"-{letter}" for letter in "abcdefghkLnNOoprsStuwxzG")


def parse_command(command: str) -> Script:
    """Return the commands that `command` would run.

    The last scripts are cached: the verdict on an operation, a wrapped command line in every layer, and the evidence
    of an approval need the script of the same line within a moment.
    """
    return _parse_cached(command) if len(command) <= MAX_PARSED_COMMAND_CHARACTERS else _parse_spellings(command)


def _parse_spellings(command: str) -> Script:
    script = _parse(command)
    if script.problems and script.whole and (normalized := spelling_variants.normalize(command)) != command:
        # tree-sitter errs about a line that goes on, and about quotes within `$'...'`.
        known = set(map(_texts, script.commands))
        others = [each for each in _parse(normalized).commands if _texts(each) not in known]
        script = replace(script, commands=(*script.commands, *others))
    return replace(script, text=command)


_parse_cached = lru_cache(maxsize=MAX_CACHED_SCRIPTS)(_parse_spellings)


def _parse(command: str) -> Script:
    if problem := _unusual(command):
        # Still read, so that a blocked program is named.
        is_short = len(command) <= MAX_PARSED_COMMAND_CHARACTERS
        rest = _analyse(_SURROGATE.sub("?", command)) if is_short else Script((), whole=False)
        return replace(rest, problems=_unique((problem, *rest.problems)))
    return _analyse(command)


def _texts(command: SimpleCommand) -> tuple[str, ...]:
    return tuple(word.text for word in command.words)


def _unusual(command: str) -> str | None:
    if len(command) > MAX_PARSED_COMMAND_CHARACTERS:
        return f"longer than {MAX_PARSED_COMMAND_CHARACTERS} characters"
    if command.isascii() and command.isprintable():
        return None
    for char in command:
        if char not in " \t\n" and unicodedata.category(char)[0] in "CZ":
            return f"control or space character U+{ord(char):04X}"
    return None


def _analyse(command: str) -> Script:
    problems: list[str] = []
    try:
        reading = read_strictly(command)
        commands, text, limit = reading.commands, reading.without_heredocs, MAX_STRICT_TREE_CHARACTERS
    except Unreadable as found:
        commands, text, limit = found.commands, command, MAX_LOOSE_TREE_CHARACTERS
        problems.append(found.problem)
    unread = TreeParse([], [], [f"longer than {limit} characters"], is_whole=False)
    tree = unread if len(text) > limit else parse_tree(text)
    problems += tree.problems
    if not problems and (
        tree.texts != list(map(_texts, commands))
        or not set(tree.targets) >= {redirect.target.text for each in commands for redirect in each.redirects}
    ):
        problems.append("two readings")
    problems += filter(None, map(builtin_problem, commands))
    if not problems and (moved := _relative_after_cd(commands)):
        problems.append(moved)
    known = set(map(_texts, commands))
    others = [each for each in map(SimpleCommand, tree.words) if _texts(each) not in known]
    return Script((*commands, *others), _unique(problems), whole=tree.is_whole)


def _unique(problems: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(problems))


def builtin_problem(command: SimpleCommand) -> str | None:
    """Return why a builtin cannot be analysed, or None.

    Some builtins change the shell itself, and some evaluate a variable's name: `test -v 'a[$(id)]'` runs `id`.
    """
    if not command.words:
        return None
    program, arguments = command.words[0].text, command.words[1:]
    if program in _CHANGES_THE_SHELL:
        line = " ".join(word.literal or "?" for word in command.words)
        return None if _HARMLESS_SET.fullmatch(line) else program
    if program == "printf" and arguments and (arguments[0].may_be_any_option or arguments[0].text.startswith("-v")):
        return "printf into a variable"
    if program in ("test", "[") and not _is_simple_test(arguments[:-1] if program == "[" else arguments):
        return "test of a variable"
    return None


def _is_simple_test(arguments: tuple[Word, ...]) -> bool:
    if all(word.literal not in (None, "-v", "-R") for word in arguments):
        return True
    if any(word.splits or word.glob for word in arguments):
        return False
    if len(arguments) == 3:
        return arguments[1].literal in _BINARY_TESTS
    return len(arguments) == 2 and arguments[0].literal in _UNARY_TESTS


def _relative_after_cd(commands: tuple[SimpleCommand, ...]) -> str | None:
    moved = False
    for command in commands:
        if moved and any(not (each.target.home or each.target.text.startswith("/")) for each in command.redirects):
            return "redirection after cd"
        # Anywhere, since `time cd x` and `command cd x` go there too.
        moved = moved or any(word.text in ("cd", "pushd", "popd") for word in command.words)
    return None
