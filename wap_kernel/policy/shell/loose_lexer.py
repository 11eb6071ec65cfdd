r"""Split any text into words as a shell would, without ever failing. Pure.

The result is for searches only: grammar (`if`, `for`, `$(`) reads as ordinary words and ends of commands, so that
every name that stands in the text is found. `strict_lexer.py` reads what must be certain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wap_kernel.policy.shell.ansi_c_quotes import decode_ansi_c

_TOKEN = re.compile(
    r"""
      (?P<comment>(?<![^\s;&|()])\#[^\n]*)
    | (?P<substitution>[$<>]\(|`)
    | (?P<redirect>[0-9]*(?:&>>|&>|<<<|<<-?|<>|<&|>>|>&|>\||[<>]))
    | (?P<operator>&&|\|\||\|&|[;|&()\n])
    | (?P<word>(?:\\.|\$'(?:[^\\']|\\.)*'|'[^']*'|"(?:[^\\"]|\\.)*"|\$(?!\()|[^\s;|&()<>`'"\\$])+)
    """,
    re.DOTALL | re.VERBOSE,
)
_PIECE = re.compile(
    r"""
      (?P<continuation>\\\n)
    | \\(?P<escaped>.)
    | \$'(?P<ansi>(?:[^\\']|\\.)*)'
    | '(?P<single>[^']*)'
    | \$?"(?P<double>(?:[^\\"]|\\.)*)"
    | [^\\'"]
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\])')
_SPECIAL = "$*?[]{}~ \t\n"
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
    for token in _TOKEN.finditer(text):
        if token["redirect"]:
            redirect = token["redirect"].lstrip("0123456789")
        elif token["word"] and token["word"].replace("\\\n", ""):
            words.append(LooseWord(_remove_quotes(token["word"]), redirect))
            redirect = ""
        elif operator := token["operator"] or token["substitution"]:
            if words:
                commands.append(LooseCommand(tuple(words), before))
                words, before = [], ""
            before, redirect = before + operator, ""
    if words:
        commands.append(LooseCommand(tuple(words), before))
    return tuple(commands)


def _remove_quotes(raw: str) -> str:
    return "".join(_read_piece(piece) for piece in _PIECE.finditer(raw))


def _read_piece(piece: re.Match[str]) -> str:
    if piece["continuation"]:
        return ""
    quoted = next((each for each in (piece["escaped"], piece["single"]) if each is not None), None)
    if piece["ansi"] is not None:
        quoted = decode_ansi_c(piece["ansi"].encode(errors="surrogatepass")).decode(errors="replace")
    if quoted is not None:
        return quoted.translate(_STAND_IN)
    if piece["double"] is None:
        return piece[0]
    # `$` and `${}` are special in these quotes, unless a backslash stands before them.
    parts = _ESCAPED_IN_QUOTES.split(piece["double"].replace("\\\n", ""))
    return "".join(part.translate(_STAND_IN if at % 2 else _QUOTED_TWICE) for at, part in enumerate(parts))
