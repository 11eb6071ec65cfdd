"""Parse a command line with tree-sitter-bash, and report every part of it that is not simple. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from wap_kernel.model.limits import MAX_SHELL_DEPTH
from wap_kernel.policy.shell import ansi_c_quotes
from wap_kernel.policy.shell.syntax import Word

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


_ASCII = bytes(range(128)) + b"x" * 128
"""A table that makes a letter of every byte beyond ASCII.

After `{`, tree-sitter-bash reads beyond a table of the C library for such characters, and the process may crash.
"""


@dataclass
class TreeParse:
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


def parse_tree(command: str) -> TreeParse:
    """Return the words and redirections that tree-sitter finds in `command`, and the problems of the line."""
    source = command.encode()
    root = Parser(_language()).parse(source.translate(_ASCII)).root_node
    found = TreeParse([], [], [])
    if root.has_error:
        found.problems.append(f"parse error near {_first_error(root, command)}")
    for node, depth in _walk(root):
        if depth > MAX_SHELL_DEPTH:
            found.problems.append("too deeply nested")
            found.is_whole = False
            continue
        if not _is_simple(node):
            found.problems.append(_NAMES.get(node.type, node.type.replace("_", " ")))
        if node.type == "command":
            children = (child for child in node.children if child.type not in _NOT_WORDS)
            found.words.append(tuple(_word(child, source) for child in children))
        elif node.type == "test_command":
            found.words.append(tuple(_word(leaf, source) for leaf in _test_words(node)))
        elif node.type == "file_redirect":
            found.targets.extend(_word(child, source).text for child in node.children_by_field_name("destination"))
    return found


def _is_simple(node: Node) -> bool:
    if node.is_named:
        return node.type in _SIMPLE_NODES
    parent = node.parent.type if node.parent else ""
    # A token of something that is no plain node has been reported with it; in `[ ... ]` an operator is a token.
    return node.type in _SIMPLE_TOKENS or parent not in _SIMPLE_NODES or parent.endswith("_expression")


def _walk(root: Node) -> Iterator[tuple[Node, int]]:
    """Yield the nodes in order with their depth, down to one step below MAX_SHELL_DEPTH.

    `a && b && c` is not deep, whatever the tree says.
    """
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        if depth <= MAX_SHELL_DEPTH:
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


def _raw(node: Node, source: bytes) -> bytes:
    return source[node.start_byte : node.end_byte]


def _word(node: Node, source: bytes) -> Word:
    """Return the word of a node. A word with other than simple parts is marked as unknown; it is a problem anyway."""
    try:
        text, known = _value(node, source, 0)
    except RecursionError:
        text, known = b"", False
    bare = _bare(node, source)
    home = bare.startswith(b"~") and bare[1:2] in (b"", b"/")
    return Word(text.decode(errors="replace"), known, glob=bool(_GLOB.search(bare)), home=home, splits=not known)


def _bare(node: Node, source: bytes) -> bytes:
    """Return the part of a node outside of quotes; a quoted part means nothing but itself."""
    if node.type == "word":
        return _raw(node, source)
    if node.type in ("concatenation", "command_name"):
        return b"".join(_bare(child, source) or b"\\." for child in node.children)
    return b""


def _value(node: Node, source: bytes, depth: int) -> tuple[bytes, bool]:
    raw = _raw(node, source)
    if depth > MAX_SHELL_DEPTH:
        return raw, False
    if node.type == "raw_string":
        return raw[1:-1], True
    if node.type == "ansi_c_string":
        return ansi_c_quotes.decode_ansi_c(raw[2:-1]), True
    if node.type in ("simple_expansion", "expansion"):
        simple = _SIMPLE_EXPANSION.fullmatch(raw)
        return (b"$" + simple.group(1) if simple else raw), False
    if node.type == "string":
        return _string(node, source, depth)
    if node.type == "translated_string":
        return _string(node.children[-1], source, depth)
    if node.type in ("concatenation", "command_name"):
        parts = [_value(child, source, depth + 1) for child in node.children]
        return b"".join(text for text, _ in parts), all(known for _, known in parts)
    if node.is_named and node.type not in ("word", "number", "test_operator"):
        return raw, False
    return _unescape(_BACKSLASH, raw), True


def _string(node: Node, source: bytes, depth: int) -> tuple[bytes, bool]:
    """Return the text between the quotes, by position, since tree-sitter leaves out some of the spaces."""
    raw, start = _raw(node, source), node.start_byte
    parts, at, known = [], 1, True
    for child in node.children:
        if child.is_named and child.type != "string_content":
            parts.append(_unescape(_BACKSLASH_IN_QUOTES, raw[at : child.start_byte - start]))
            parts.append(_value(child, source, depth + 1)[0])
            at, known = child.end_byte - start, False
    return b"".join((*parts, _unescape(_BACKSLASH_IN_QUOTES, raw[at:-1]))), known


def _unescape(pattern: re.Pattern[bytes], raw: bytes) -> bytes:
    return pattern.sub(lambda found: b"" if found.group(1) == b"\n" else found.group(1), raw)
