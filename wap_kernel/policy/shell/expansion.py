"""Expand variables, braces and `~` in the words of a text, as far as the text itself says what they stand for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

from wap_kernel.policy.shell.loose_lexer import LooseCommand
from wap_kernel.policy.shell.spelling_variants import expand_braced_word

MAX_EXPANSIONS = 64
"""Texts that one word may stand for."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_OTHER_EXPANSION = re.compile(r"\$(?:[0-9@*#?$!-]|[({\[])|`")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_HOME = re.compile(r"(^|[=:])~(?=[/:]|$)")
_OTHER_TILDE = re.compile(r"(?:^|[=:])~[^/:]")

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
    parts = _VARIABLE.split(live)  # text, name in braces, name, text, ...
    known: list[tuple[str, ...] | None] = []
    for at in range(0, len(parts), 3):
        known.append((parts[at],))
        if at + 1 < len(parts):
            name = parts[at + 1] or parts[at + 2]
            values = variables.get(name)
            known.append(None if values is None else tuple(dict.fromkeys((*values, ""))))
    texts = ["".join(each) for each in islice(product(*(each or ("",) for each in known)), MAX_EXPANSIONS + 1)]
    texts = list(islice(_expand_further(texts, variables), MAX_EXPANSIONS + 1))
    is_complete = (
        None not in known
        and len(texts) <= MAX_EXPANSIONS
        and not _OTHER_EXPANSION.search("".join(parts[::3]))
        and not any(_BRACES.search(text) or _OTHER_TILDE.search(text) for text in texts)
    )
    return Expansion(tuple(dict.fromkeys(texts[:MAX_EXPANSIONS])), is_complete)


def _expand_further(texts: Iterable[str], variables: Variables) -> Iterator[str]:
    """Yield the texts with braces and home folders expanded."""
    homes = [home for home in variables.get("HOME") or () if home] or ["~"]
    for text in texts:
        for each in tuple(expand_braced_word(text)) or (text,):
            if not _HOME.search(each):
                yield each
            else:
                yield from (_HOME.sub(lambda found, home=home: found[1] + home, each) for home in homes)  # type: ignore[misc]


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
                known[name] = tuple(dict.fromkeys((*before, *expansion.texts)))[:MAX_EXPANSIONS]
    return known
