r"""Split any text into words as a shell would, without ever failing. Pure.

The result is for searches only: grammar (`if`, `for`, `$(`) reads as ordinary words and ends of commands, so that
every name that stands in the text is found. `strict_lexer.py` reads what must be certain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wap_kernel.policy.shell.spelling_variants import normalize

_TOKEN = re.compile(
    r"""
      (?P<comment>(?<![^\s;&|()])\#[^\n]*)
    | (?P<redirect>[0-9]*(?:&>>|&>|<<<|<<-?|<>|<&|>>|>&|>\||[<>]))
    | (?P<operator>&&|\|\||\|&|[;|&()`\n])
    | (?P<word>(?:\\.|'[^']*'|"(?:[^\\"]|\\.)*"|[^\s;|&()<>`'"\\])+)
    """,
    re.DOTALL | re.VERBOSE,
)
_PIECE = re.compile(r"""\\(?P<escaped>.)|'(?P<single>[^']*)'|\$?"(?P<double>(?:[^\\"]|\\.)*)"|[^\\'"]""", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\])')
_SPECIAL = "$*?[]{}~"
_STAND_IN = {ord(char): 0xE000 + ord(char) for char in _SPECIAL}
_QUOTED_TWICE = {point: stand_in for point, stand_in in _STAND_IN.items() if chr(point) not in "${}"}
_RESTORED = {stand_in: char for char, stand_in in _STAND_IN.items()}


@dataclass(frozen=True)
class LooseWord:
    """A word after quote removal."""

    live: str
    """The word with stand-ins for the characters that quotes keep from being special."""
    redirect: str = ""
    """The operator before the word if it is the target of a redirection."""

    @property
    def text(self) -> str:
        return restore_quoted(self.live)


@dataclass(frozen=True)
class LooseCommand:
    """The words up to an operator."""

    words: tuple[LooseWord, ...]
    before: str = ""
    """The operators between the last command and this one."""


def restore_quoted(live: str) -> str:
    """Return the text with every stand-in replaced by its character."""
    return live.translate(_RESTORED)


def split_loosely(text: str) -> tuple[LooseCommand, ...]:
    """Return the commands that `text` may consist of, in order."""
    commands: list[LooseCommand] = []
    words: list[LooseWord] = []
    before, redirect = "", ""
    for token in _TOKEN.finditer(normalize(text)):
        if token["redirect"]:
            redirect = token["redirect"].lstrip("0123456789")
        elif token["word"]:
            words.append(LooseWord(_remove_quotes(token["word"]), redirect))
            redirect = ""
        elif token["operator"]:
            if words:
                commands.append(LooseCommand(tuple(words), before))
                words, before = [], ""
            before, redirect = before + token["operator"], ""
    if words:
        commands.append(LooseCommand(tuple(words), before))
    return tuple(commands)


def _remove_quotes(raw: str) -> str:
    return "".join(_read_piece(piece) for piece in _PIECE.finditer(raw))


def _read_piece(piece: re.Match[str]) -> str:
    if piece["escaped"] is not None:
        return piece["escaped"].translate(_STAND_IN)
    if piece["single"] is not None:
        return piece["single"].translate(_STAND_IN)
    if piece["double"] is not None:
        # `$` and `${}` are special in these quotes, unless a backslash stands before them.
        parts = _ESCAPED_IN_QUOTES.split(piece["double"])
        return "".join(part.translate(_STAND_IN if at % 2 else _QUOTED_TWICE) for at, part in enumerate(parts))
    return piece[0]
