"""Expand variables, braces and `~` in the words of a text, as far as the text itself says what they stand for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

from wap_kernel.policy.shell.loose_lexer import LooseCommand, restore_quoted
from wap_kernel.policy.shell.spelling_variants import expand_braced_word

MAX_EXPANSIONS = 64
"""Texts that one word may stand for."""
MAX_BRACES = 3
"""Braces in one word that are expanded for certain: so many need fewer steps than `expand_braced_word` takes."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_OTHER_EXPANSION = re.compile(r"\$(?:[0-9@*#?$!-]|[({\[])|`")
_BRACE = re.compile(r"(?<!\$)\{")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_SPACE = re.compile(r"\s")
_HOME = re.compile(r"(^|[=:])~(?=/|$)")
_OTHER_TILDE = re.compile(r"(?:^|[=:])~[^/]")

Variables = Mapping[str, tuple[str, ...] | None]
"""The values that each variable may have; None where a value is not known."""


@dataclass(frozen=True)
class Expansion:
    """The texts that a word may stand for, with stand-ins as in `loose_lexer.py`."""

    texts: tuple[str, ...]
    is_complete: bool
    """False where the word may stand for other texts too."""


def expand_word(live: str, variables: Variables) -> Expansion:
    """Return what a word may stand for. A variable may always be empty: its assignment may fail."""
    braced = list(islice(expand_braced_word(live), MAX_EXPANSIONS + 1)) or [live]  # bash expands braces first
    expansions = [_expand_variables(each, variables) for each in braced]
    texts = dict.fromkeys(text for each in expansions for text in each.texts)
    is_complete = (
        all(each.is_complete for each in expansions)
        and max(len(texts), len(braced)) <= MAX_EXPANSIONS
        and len(_BRACE.findall(live)) <= MAX_BRACES
        and not any(_BRACES.search(each) for each in braced)
    )
    return Expansion(tuple(texts)[:MAX_EXPANSIONS], is_complete)


def _expand_variables(live: str, variables: Variables) -> Expansion:
    parts = _VARIABLE.split(live)  # text, name in braces, name, text, ...
    known: list[tuple[str, ...] | None] = []
    for at in range(0, len(parts), 3):
        known.append((parts[at],))
        if at + 1 < len(parts):
            values = variables.get(parts[at + 1] or parts[at + 2])
            known.append(None if values is None else tuple(dict.fromkeys((*values, ""))))
    texts = ["".join(each) for each in islice(product(*(each or ("",) for each in known)), MAX_EXPANSIONS + 1)]
    # A value with spaces is one word or several, according to quotes that are no longer there.
    has_neighbours = len(parts) > 4 or bool(parts[0] or parts[-1])
    is_ambiguous = has_neighbours and any(_SPACE.search(value) for each in known[1::2] for value in each or ())
    is_complete = (
        not is_ambiguous
        and len(texts) <= MAX_EXPANSIONS
        and None not in known
        and not _OTHER_EXPANSION.search("".join(parts[::3]))
        and not any(map(_OTHER_TILDE.search, texts))
    )
    return Expansion(tuple(_expand_homes(texts, variables)), is_complete)


def _expand_homes(texts: Iterable[str], variables: Variables) -> Iterator[str]:
    """Yield the texts, and with home folders where a `~` may stand for one: after `''` it does not."""
    homes = [home for home in variables.get("HOME") or () if home]
    for text in texts:
        yield text
        if _HOME.search(text):
            yield from (_HOME.sub(rf"\g<1>{_escape(home)}", text) for home in homes)


def _escape(replacement: str) -> str:
    return replacement.replace("\\", r"\\")


def find_assignments(commands: Iterable[LooseCommand], variables: Variables) -> Variables:
    """Return `variables` with those that the commands assign, by `NAME=value` or in a `for` loop."""
    known: dict[str, tuple[str, ...] | None] = dict(variables)
    for command in commands:
        words = [word.live for word in command.words]
        if words[0] == "for" and words[2:3] == ["in"]:
            assigned = [(words[1], "", value) for value in words[3:]]
        else:
            matches = (_ASSIGNMENT.fullmatch(word) for word in words)
            assigned = [(found[1], found[2], found[3]) for found in matches if found]
        for name, more, value in assigned:
            expansion, before = expand_word(value, known), known.get(name, ())
            if more or not expansion.is_complete or before is None:
                known[name] = None
            else:
                # Without quotes around the variable, everything in its value is special again.
                values = map(restore_quoted, expansion.texts)
                known[name] = tuple(dict.fromkeys((*before, *values)))[:MAX_EXPANSIONS]
    return known
