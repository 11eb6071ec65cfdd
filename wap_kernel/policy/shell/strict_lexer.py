"""Read the simple part of the shell's language strictly: words, quotes, globs, `$NAME`, `&& || ; |`, redirections.

The lexer takes nothing for granted: it reads every character as bash does, or stops with `Unreadable` and says why.
`word_lexer.py` reads single words. `parser.py` parses the same text with tree-sitter and trusts neither of the two
alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wap_kernel.policy.shell.syntax import Mode, Redirect, SimpleCommand, Word
from wap_kernel.policy.shell.word_lexer import ENDS, Pieces, Unreadable, WordReader

__all__ = ["LexedScript", "Unreadable", "read_strictly"]

MAX_COMMANDS = 200

RESERVED = frozenset(
    "if then else elif fi case esac for select while until do done in function coproc ! [[ ]] { }".split()
)
"""Words that are grammar where a program is expected. (`time` is too, but reads like a wrapper.)"""

HARMLESS_DEVICES = frozenset(
    "/dev/null /dev/stdin /dev/stdout /dev/stderr /dev/zero /dev/full /dev/random /dev/urandom".split()
)

_OPERATOR = re.compile(r"&&|\|\||\|&|;;|;&|[;|&\n]")
_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||[<>]")
_HEREDOC = re.compile(r"[ \t]*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1(?=[\s;|&<>]|\Z)")
_MODES: dict[str, Mode] = {"<": "read", ">": "write", ">|": "write", "&>": "write", ">&": "write", ">>": "append"}
_MODES["&>>"] = "append"
_JOINERS = frozenset({"&&", "||", "|", "|&"})


@dataclass(frozen=True)
class LexedScript:
    """The commands of a line, as the strict lexer reads them."""

    commands: tuple[SimpleCommand, ...]
    without_heredocs: str
    """The text without heredocs, for tree-sitter, which errs about their neighbours; the shell never runs a heredoc."""


def read_strictly(source: str) -> LexedScript:
    """Return the commands of `source`, or raise Unreadable."""
    reader = _Reader(source)
    try:
        reader.read()
    except Unreadable as found:
        raise Unreadable(found.problem, (*reader.commands, *reader.unfinished())) from None
    return LexedScript(tuple(reader.commands), reader.without_heredocs())


class _Reader(WordReader):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.commands: list[SimpleCommand] = []
        self._words: list[Word] = []
        self._redirects: list[Redirect] = []
        self._begun = False
        self._left_out: list[tuple[int, int]] = []
        self._joined = False
        """True after `&&` or `|`, where another command must follow."""

    def read(self) -> None:
        while self.at < len(self.source):
            char = self.source[self.at]
            if char in " \t":
                self.at += 1
            elif self.source.startswith("\\\n", self.at):
                self.line_continuation()
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
        if self.heredocs:
            raise Unreadable("heredoc without its end")

    def unfinished(self) -> tuple[SimpleCommand, ...]:
        return (SimpleCommand(tuple(self._words), tuple(self._redirects)),) if self._words else ()

    def without_heredocs(self) -> str:
        parts, at = [], 0
        for start, end in self._left_out:
            parts.append(self.source[at:start])
            at = end
        return "".join((*parts, self.source[at:]))

    def _end_command(self) -> bool:
        """End the present command, and return whether there was one."""
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

    def _word_or_descriptor(self) -> None:
        start = self.at
        pieces = self.pieces()
        raw = self.source[start : self.at]
        if raw.isascii() and raw.isdigit() and self.source[self.at : self.at + 1] in ("<", ">"):
            self._redirect(fd=raw)
            return
        word = pieces.word()
        if not self._words:
            self._check_program(pieces, word)
        self._words.append(word)
        self._begun = True

    def _check_program(self, pieces: Pieces, word: Word) -> None:
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
        if self.source[self.at : self.at + 1] in ("", *ENDS):
            raise Unreadable(f"parse error near {operator}")
        start = self.at
        word = self.pieces().word()
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
        if not found or self.heredocs or fd is not None:
            raise Unreadable("heredoc")
        self._left_out.append((self.at - len("<<"), found.end()))
        self.at = found.end()
        self.heredocs.append((found.group(2), bool(found.group(1))))

    def _heredoc_bodies(self) -> None:
        for end_word, quoted in self.heredocs:
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
        self.heredocs.clear()
