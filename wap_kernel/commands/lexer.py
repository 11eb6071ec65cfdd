"""A strict reader of the plain part of the shell's language: words, quotes, globs, `$NAME`, `&& || ; |`, redirections.

It takes nothing for granted: every character is either accounted for as bash reads it, or the reading stops with
`Unreadable` and says why. `shell.py` reads the same text with tree-sitter and believes neither of the two alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from wap_kernel.commands.words import Mode, Redirect, SimpleCommand, Word

__all__ = ["MAX_COMMANDS", "Reading", "Redirect", "SimpleCommand", "Unreadable", "Word", "read"]


class Unreadable(Exception):
    """The text goes beyond the plain part: a finding that never leaves this package. `commands` were read before."""

    def __init__(self, problem: str, commands: tuple[SimpleCommand, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.commands = commands


RESERVED = frozenset(
    "if then else elif fi case esac for select while until do done in function coproc ! [[ ]] { }".split()
)
"""Words that are grammar where a program is expected. (`time` is too, but reads like a wrapper.)"""

HARMLESS_DEVICES = frozenset(
    "/dev/null /dev/stdin /dev/stdout /dev/stderr /dev/zero /dev/full /dev/random /dev/urandom".split()
)

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
_PLAIN = re.compile(r"[^\s\\'\"$`;&|<>(){}*?\[~#=:]+")
_OPERATOR = re.compile(r"&&|\|\||\|&|;;|;&|[;|&\n]")
_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||[<>]")
_HEREDOC = re.compile(r"[ \t]*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1(?=[\s;|&<>]|\Z)")
_MODES: dict[str, Mode] = {"<": "read", ">": "write", ">|": "write", "&>": "write", ">&": "write", ">>": "append"}
_MODES["&>>"] = "append"
_JOINERS = frozenset({"&&", "||", "|", "|&"})
_ENDS = frozenset(" \t\n;&|<>()")


MAX_COMMANDS = 200


@dataclass(frozen=True)
class Reading:
    commands: tuple[SimpleCommand, ...]
    """In order."""
    without_heredocs: str
    """The text for another reader. A heredoc is input for a program and never run by the shell, and tree-sitter errs
    about what stands beside it."""


def read(source: str) -> Reading:
    """Raises Unreadable."""
    reader = _Reader(source)
    try:
        reader.read()
    except Unreadable as found:
        raise Unreadable(found.problem, (*reader.commands, *reader.unfinished())) from None
    return Reading(tuple(reader.commands), reader.without_heredocs())


@dataclass
class _Pieces:
    """A word in the making."""

    text: list[str] = field(default_factory=list)
    known: bool = True
    glob: bool = False
    home: bool = False
    splits: bool = False
    assigns: bool = False

    def word(self) -> Word:
        text = "".join(self.text)
        return Word(text, self.known, self.glob and text != "[", self.home, self.splits)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.commands: list[SimpleCommand] = []
        self._words: list[Word] = []
        self._redirects: list[Redirect] = []
        self._begun = False
        self._heredocs: list[tuple[str, bool]] = []
        self._left_out: list[tuple[int, int]] = []
        self._joined = False
        """After `&&` or `|` another command must follow."""

    def read(self) -> None:
        while self.at < len(self.source):
            char = self.source[self.at]
            if char in " \t":
                self.at += 1
            elif self.source.startswith("\\\n", self.at):
                self._line_continuation()
            elif char == "#":
                end = self.source.find("\n", self.at)
                self.at = len(self.source) if end < 0 else end
            elif char in "()":
                raise Unreadable("subshell or function")
            elif _REDIRECTION.match(self.source, self.at):
                self._redirect(fd=None)
            elif operator := _OPERATOR.match(self.source, self.at):
                self._operator(operator.group())
            else:
                self._word_or_descriptor()
        self._end_command()
        if self._joined:
            raise Unreadable("parse error near the end: a command is missing")
        if self._heredocs:
            raise Unreadable("heredoc without its end")

    def unfinished(self) -> tuple[SimpleCommand, ...]:
        return (SimpleCommand(tuple(self._words), tuple(self._redirects)),) if self._words else ()

    def without_heredocs(self) -> str:
        kept, at = [], 0
        for start, end in self._left_out:
            kept.append(self.source[at:start])
            at = end
        return "".join((*kept, self.source[at:]))

    def _end_command(self) -> bool:
        """Whether there was one."""
        if not self._begun:
            return False
        if not self._words:
            raise Unreadable("redirection without a command")
        if len(self.commands) == MAX_COMMANDS:
            raise Unreadable(f"more than {MAX_COMMANDS} commands")
        self.commands.extend(self.unfinished())
        self._words, self._redirects, self._begun, self._joined = [], [], False, False
        return True

    def _operator(self, operator: str) -> None:
        self.at += len(operator)
        if operator in ("&", ";;", ";&"):
            raise Unreadable("background" if operator == "&" else f"parse error near {operator}")
        ended = self._end_command()
        if operator == "\n":
            self._heredoc_bodies()
        elif not ended:
            raise Unreadable(f"parse error near {operator}")
        else:
            self._joined = operator in _JOINERS

    def _line_continuation(self) -> None:
        if self._heredocs:
            raise Unreadable("heredoc on a continued line")
        self.at += 2

    def _word_or_descriptor(self) -> None:
        start = self.at
        pieces = self._pieces()
        raw = self.source[start : self.at]
        if raw.isascii() and raw.isdigit() and self.source[self.at : self.at + 1] in ("<", ">"):
            self._redirect(fd=raw)
            return
        word = pieces.word()
        if not self._words:
            self._check_program(pieces, word)
        self._words.append(word)
        self._begun = True

    def _check_program(self, pieces: _Pieces, word: Word) -> None:
        if pieces.assigns:
            raise Unreadable("leading assignment")
        if word.literal is None:
            raise Unreadable("program named by an expansion")
        if word.text in RESERVED:
            raise Unreadable(f"compound command: {word.text}")
        if not word.text:
            raise Unreadable("program without a name")

    def _redirect(self, fd: str | None) -> None:
        found = _REDIRECTION.match(self.source, self.at)
        assert found is not None
        operator = found.group()
        self.at = found.end()
        self._begun = True
        if operator == "<<":
            return self._heredoc_start(fd)
        if operator in ("<<-", "<>"):
            raise Unreadable(f"redirection {operator}")
        while self.source[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.source[self.at : self.at + 1] in ("", *_ENDS):
            raise Unreadable(f"parse error near {operator}")
        start = self.at
        word = self._pieces().word()
        if self.source[start : self.at].isdigit() and self.source[self.at : self.at + 1] in ("<", ">"):
            raise Unreadable(f"parse error near {operator}")
        if operator == "<<<":
            return None
        if operator in (">&", "<&") and word.literal is not None and re.fullmatch(r"[0-9]+", word.text):
            return None
        if operator == "<&" or word.text == "-" or (operator in (">&", "&>", "&>>") and fd is not None):
            raise Unreadable(f"redirection {operator}")
        if not word.known or word.glob or not word.text:
            raise Unreadable("redirection to an expansion")
        if word.text.startswith(("/dev/tcp/", "/dev/udp/")):
            raise Unreadable("redirection to the network")
        if word.home or word.text not in HARMLESS_DEVICES:
            self._redirects.append(Redirect(word, _MODES[operator]))
        return None

    def _heredoc_start(self, fd: str | None) -> None:
        found = _HEREDOC.match(self.source, self.at)
        if not found or self._heredocs or fd is not None:
            raise Unreadable("heredoc")
        self._left_out.append((self.at - len("<<"), found.end()))
        self.at = found.end()
        self._heredocs.append((found.group(2), bool(found.group(1))))

    def _heredoc_bodies(self) -> None:
        for end_word, quoted in self._heredocs:
            start = self.at
            for line in self.source[start:].split("\n"):
                if line == end_word:
                    break
                self.at += len(line) + 1
            else:
                raise Unreadable("heredoc without its end")
            if not quoted and set(self.source[start : self.at]) & set("$`\\"):
                raise Unreadable("heredoc with expansion")
            self.at += len(end_word)
            self._left_out.append((start, self.at))
        self._heredocs.clear()

    def _pieces(self) -> _Pieces:
        """The word that begins here."""
        pieces = _Pieces()
        start = self.at
        while self.at < len(self.source):
            char = self.source[self.at]
            if char in _ENDS:
                break
            if plain := _PLAIN.match(self.source, self.at):
                pieces.text.append(plain.group())
                self.at = plain.end()
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

    def _special(self, pieces: _Pieces, char: str, *, first: bool) -> None:
        if char in "*?[":
            pieces.glob = True
        elif char in "{}":
            # `{}` is what it is; any other brace may be grammar.
            if not (self.source.startswith("{}", self.at) or (char == "}" and self.source[self.at - 1] == "{")):
                raise Unreadable("group or brace expansion")
        elif char == "=":
            pieces.assigns = True
        elif char == "~" and first:
            if self.source[self.at + 1 : self.at + 2] not in ("", "/", *_ENDS):
                raise Unreadable("home folder of another user")
            pieces.home = True
        elif char == "~" and pieces.text and pieces.text[-1].endswith(("=", ":")):
            # `a=~` is expanded even where nothing is assigned.
            pieces.known, pieces.splits = False, True
        elif char not in "~#:":
            raise Unreadable("unusual character")

    def _escaped(self, pieces: _Pieces) -> None:
        if self.at + 1 >= len(self.source):
            raise Unreadable("backslash at the end")
        following = self.source[self.at + 1]
        if following == "\n":
            self._line_continuation()
            return
        pieces.text.append(following)
        self.at += 2

    def _single_quoted(self, pieces: _Pieces) -> None:
        end = self.source.find("'", self.at + 1)
        if end < 0:
            raise Unreadable("quote without its end")
        self._quoted(pieces, self.source[self.at + 1 : end])
        self.at = end + 1

    def _quoted(self, pieces: _Pieces, text: str) -> None:
        if self._heredocs and "\n" in text:
            raise Unreadable("heredoc before a line break in quotes")
        pieces.text.append(text)

    def _double_quoted(self, pieces: _Pieces) -> None:
        self.at += 1
        while self.at < len(self.source):
            char = self.source[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.source[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                if self.source[self.at + 1] == "\n":
                    self._line_continuation()
                    continue
                self._quoted(pieces, self.source[self.at + 1])
                self.at += 2
            elif char in "$`":
                self._expansion(pieces, in_quotes=True)
            else:
                self._quoted(pieces, char)
                self.at += 1
        raise Unreadable("quote without its end")

    def _expansion(self, pieces: _Pieces, *, in_quotes: bool = False) -> None:
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
