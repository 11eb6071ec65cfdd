"""Read single words of the shell's language: quotes, escapes, globs, `$NAME`. `strict_lexer.py` reads the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from wap_kernel.policy.shell.syntax import SimpleCommand, Word

ENDS = frozenset(" \t\n;&|<>()")
"""Characters that end a word unless they are quoted."""
_NAME = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|(\?))")
_BEYOND = re.compile(r"\$(?:[0-9@*#$!-]|[({'\"\[])")
"""A dollar sign that begins something else than a plain name; any other is an ordinary character."""
_BEYOND_NAMES = {
    "(": "command substitution",
    "{": "parameter expansion",
    "[": "arithmetic",
    "'": "$'...'",
    '"': '$"..."',
}
_LITERAL_RUN = re.compile(r"[^\s\\'\"$`;&|<>(){}*?\[~#=:]+")


class Unreadable(Exception):
    """The text goes beyond the simple part of the language; `commands` were read before it did."""

    def __init__(self, problem: str, commands: tuple[SimpleCommand, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.commands = commands


@dataclass
class Pieces:
    """The parts of a word that is being read."""

    text: list[str] = field(default_factory=list)
    known: bool = True
    glob: bool = False
    home: bool = False
    splits: bool = False
    assigns: bool = False

    def word(self) -> Word:
        text = "".join(self.text)
        return Word(text, self.known, self.glob and text != "[", self.home, self.splits)


class WordReader:
    """A position in the text, and the functions that read the word there."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.heredocs: list[tuple[str, bool]] = []
        """Heredocs of this line, which follow on the next one: until then no word may run over the end of the line."""

    def pieces(self) -> Pieces:
        """Return the parts of the word that begins here."""
        pieces = Pieces()
        start = self.at
        while self.at < len(self.source):
            char = self.source[self.at]
            if char in ENDS:
                break
            if run := _LITERAL_RUN.match(self.source, self.at):
                pieces.text.append(run.group())
                self.at = run.end()
            elif char == "\\":
                self._escaped(pieces)
            elif char == "'":
                self._single_quoted(pieces)
            elif char == '"':
                self._double_quoted(pieces)
            elif char in "$`":
                self._expansion(pieces)
            else:
                self._special(pieces, char, first=self.at == start)
                pieces.text.append(char)
                self.at += 1
        return pieces

    def _special(self, pieces: Pieces, char: str, *, first: bool) -> None:
        if char in "*?[":
            pieces.glob = True
        elif char in "{}":
            # `{}` is what it is; any other brace may be grammar.
            if not (self.source.startswith("{}", self.at) or (char == "}" and self.source[self.at - 1] == "{")):
                raise Unreadable("group or brace expansion")
        elif char == "=":
            pieces.assigns = True
        elif char == "~" and first:
            if self.source[self.at + 1 : self.at + 2] not in ("", "/", *ENDS):
                raise Unreadable("home folder of another user")
            pieces.home = True
        elif char == "~" and pieces.text and pieces.text[-1].endswith(("=", ":")):
            # `a=~` is expanded even where nothing is assigned.
            pieces.known, pieces.splits = False, True
        elif char not in "~#:":
            raise Unreadable("unusual character")

    def _escaped(self, pieces: Pieces) -> None:
        if self.at + 1 >= len(self.source):
            raise Unreadable("backslash at the end")
        following = self.source[self.at + 1]
        if following == "\n":
            self.line_continuation()
            return
        pieces.text.append(following)
        self.at += 2

    def _single_quoted(self, pieces: Pieces) -> None:
        end = self.source.find("'", self.at + 1)
        if end < 0:
            raise Unreadable("quote without its end")
        self._quoted(pieces, self.source[self.at + 1 : end])
        self.at = end + 1

    def _quoted(self, pieces: Pieces, text: str) -> None:
        if self.heredocs and "\n" in text:
            raise Unreadable("heredoc before a line break in quotes")
        pieces.text.append(text)

    def _double_quoted(self, pieces: Pieces) -> None:
        self.at += 1
        while self.at < len(self.source):
            char = self.source[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.source[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                if self.source[self.at + 1] == "\n":
                    self.line_continuation()
                    continue
                self._quoted(pieces, self.source[self.at + 1])
                self.at += 2
            elif char in "$`":
                self._expansion(pieces, in_quotes=True)
            else:
                self._quoted(pieces, char)
                self.at += 1
        raise Unreadable("quote without its end")

    def _expansion(self, pieces: Pieces, *, in_quotes: bool = False) -> None:
        if self.source[self.at] == "`":
            raise Unreadable("command substitution")
        if name := _NAME.match(self.source, self.at):
            pieces.text.append("$" + next(filter(None, name.groups())))
            pieces.known = False
            pieces.splits = pieces.splits or not in_quotes
            self.at = name.end()
            return
        beyond = _BEYOND.match(self.source, self.at)
        if beyond and not (in_quotes and beyond.group()[1] in "'\""):
            raise Unreadable(_BEYOND_NAMES.get(beyond.group()[1], "special parameter"))
        pieces.text.append("$")
        self.at += 1

    def line_continuation(self) -> None:
        if self.heredocs:
            raise Unreadable("heredoc on a continued line")
        self.at += 2
