r"""Parse a command line: find the commands that it would run, as far as that is certain. Pure.

Two parsers read the text: tree-sitter-bash, which knows the whole language but differs from bash in corners
(`su\<newline>do` is two words to it), and `strict_lexer.py`, which knows little and that strictly. A line is
analysable only if both find the same words. `commands` has what either of them found anywhere, so that a blocked
program is seen in a substitution too; `problems` says why the line cannot be allowed by analysis.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from wap_kernel.model.limits import MAX_PARSED_COMMAND_CHARACTERS
from wap_kernel.policy.shell import ansi_c_quotes, spelling_variants
from wap_kernel.policy.shell.strict_lexer import Unreadable, read_strictly
from wap_kernel.policy.shell.syntax import Redirect, SimpleCommand, Word

__all__ = ["Redirect", "Script", "SimpleCommand", "Word", "builtin_problem", "parse_command"]

MAX_STRICT_TREE_CHARACTERS = 16 * 1024
MAX_LOOSE_TREE_CHARACTERS = 4 * 1024
"""Characters that tree-sitter parses where the strict lexer has read the text, and where it has not.

Its time can grow with the square of the length.
"""
MAX_DEPTH = 60
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


_SIMPLE_NODES = frozenset(
    """
    program list pipeline command command_name redirected_statement comment test_command
    word number string string_content raw_string concatenation simple_expansion expansion variable_name
    special_variable_name file_redirect file_descriptor herestring_redirect
    unary_expression binary_expression negation_expression test_operator
    """.split()
)
_SIMPLE_TOKENS = frozenset('\n | " $ ${ } ; && || |& < > >> >| &> &>> >& <& <<< [ ] = == != ! -a -o'.split(" "))
_NOT_WORDS = frozenset("file_redirect herestring_redirect heredoc_redirect variable_assignment".split())
_NAMES = {
    "compound_statement": "group",
    "ansi_c_string": "$'...'",
    "translated_string": '$"..."',
    "brace_expression": "brace expansion",
    "variable_assignment": "leading assignment",
    "variable_assignments": "leading assignment",
    "declaration_command": "variable declaration",
    "unset_command": "unset",
    "negated_command": "negation",
    "function_definition": "function",
    "&": "background",
}
"""Names of nodes for people; other nodes are called by their type."""

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
    unread = _Tree([], [], [f"longer than {limit} characters"], is_whole=False)
    tree = unread if len(text) > limit else _read_tree(text)
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


@dataclass
class _Tree:
    """The result of tree-sitter."""

    words: list[tuple[Word, ...]]
    targets: list[str]
    problems: list[str]
    is_whole: bool = True

    @property
    def texts(self) -> list[tuple[str, ...]]:
        return [tuple(word.text for word in words) for words in self.words]


@lru_cache(maxsize=1)
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def _read_tree(command: str) -> _Tree:
    source = command.encode()
    root = Parser(_language()).parse(source).root_node
    found = _Tree([], [], [])
    if root.has_error:
        found.problems.append(f"parse error near {_first_error(root, command)}")
    for node, depth in _walk(root):
        if depth > MAX_DEPTH:
            found.problems.append("too deeply nested")
            found.is_whole = False
            continue
        if not _is_simple(node):
            found.problems.append(_NAMES.get(node.type, node.type.replace("_", " ")))
        if node.type == "command":
            found.words.append(tuple(_word(child) for child in node.children if child.type not in _NOT_WORDS))
        elif node.type == "test_command":
            found.words.append(tuple(_word(leaf) for leaf in _test_words(node)))
        elif node.type == "file_redirect":
            found.targets.extend(_word(child).text for child in node.children_by_field_name("destination"))
    return found


def _is_simple(node: Node) -> bool:
    if node.is_named:
        return node.type in _SIMPLE_NODES
    parent = node.parent.type if node.parent else ""
    # A token of something that is no plain node has been reported with it; in `[ ... ]` an operator is a token.
    return node.type in _SIMPLE_TOKENS or parent not in _SIMPLE_NODES or parent.endswith("_expression")


def _walk(root: Node) -> Iterator[tuple[Node, int]]:
    """Yield the nodes in order with their depth, down to one step below MAX_DEPTH.

    `a && b && c` is not deep, whatever the tree says.
    """
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        if depth <= MAX_DEPTH:
            deeper = depth + (node.type not in ("list", "pipeline"))
            waiting.extend((child, deeper) for child in reversed(node.children))


def _first_error(root: Node, command: str) -> str:
    for node, _ in _walk(root):
        if node.is_error or node.is_missing:
            line = node.start_point[0]
            return f"line {line + 1}: {command.splitlines()[line][:40]!r}" if command.splitlines()[line:] else "the end"
    return "the end"


def _test_words(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.type.endswith("_expression"):
            yield from _test_words(child)
        else:
            yield child


_BACKSLASH = re.compile(rb"\\(\n|.)", re.DOTALL)
_BACKSLASH_IN_QUOTES = re.compile(rb'\\([\n$`"\\])')
_GLOB = re.compile(rb"(?<!\\)[*?\[]")
_SIMPLE_EXPANSION = re.compile(rb"\$\{?([A-Za-z_][A-Za-z0-9_]*|\?)\}?")


def _word(node: Node) -> Word:
    """Return the word of a node. A word with other than simple parts is marked as unknown; it is a problem anyway."""
    try:
        text, known = _value(node, 0)
    except RecursionError:
        text, known = b"", False
    bare = _bare(node)
    home = bare.startswith(b"~") and bare[1:2] in (b"", b"/")
    return Word(text.decode(errors="replace"), known, glob=bool(_GLOB.search(bare)), home=home, splits=not known)


def _bare(node: Node) -> bytes:
    """Return the part of a node outside of quotes; a quoted part means nothing but itself."""
    if node.type == "word":
        return node.text or b""
    if node.type in ("concatenation", "command_name"):
        return b"".join(_bare(child) or b"\\." for child in node.children)
    return b""


def _value(node: Node, depth: int) -> tuple[bytes, bool]:
    raw = node.text or b""
    if depth > MAX_DEPTH:
        return raw, False
    if node.type == "raw_string":
        return raw[1:-1], True
    if node.type == "ansi_c_string":
        return ansi_c_quotes.decode_ansi_c(raw[2:-1]), True
    if node.type in ("simple_expansion", "expansion"):
        simple = _SIMPLE_EXPANSION.fullmatch(raw)
        return (b"$" + simple.group(1) if simple else raw), False
    if node.type == "string":
        return _string(node, depth)
    if node.type == "translated_string":
        return _string(node.children[-1], depth)
    if node.type in ("concatenation", "command_name"):
        parts = [_value(child, depth + 1) for child in node.children]
        return b"".join(text for text, _ in parts), all(known for _, known in parts)
    if node.is_named and node.type not in ("word", "number", "test_operator"):
        return raw, False
    return _unescape(_BACKSLASH, raw), True


def _string(node: Node, depth: int) -> tuple[bytes, bool]:
    """Return the text between the quotes, by position, since tree-sitter leaves out some of the spaces."""
    raw, start = node.text or b"", node.start_byte
    parts, at, known = [], 1, True
    for child in node.children:
        if child.is_named and child.type != "string_content":
            parts.append(_unescape(_BACKSLASH_IN_QUOTES, raw[at : child.start_byte - start]))
            parts.append(_value(child, depth + 1)[0])
            at, known = child.end_byte - start, False
    return b"".join((*parts, _unescape(_BACKSLASH_IN_QUOTES, raw[at:-1]))), known


def _unescape(pattern: re.Pattern[bytes], raw: bytes) -> bytes:
    return pattern.sub(lambda found: b"" if found.group(1) == b"\n" else found.group(1), raw)
