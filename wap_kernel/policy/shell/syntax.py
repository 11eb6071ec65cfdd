"""The parts of a command line: words, redirections, simple commands. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Word:
    """One word after quote removal. An expansion stands in the text as `$NAME`."""

    text: str
    known: bool = True
    """False where the word has an expansion, so that the text is not what the program gets."""
    glob: bool = False
    """True for an unquoted `*`, `?` or `[`, which stands for any number of file names."""
    home: bool = False
    """True for an unquoted `~` at the beginning, which is the home folder."""
    splits: bool = False
    """True for an unquoted expansion, which stands for any number of words."""

    @property
    def literal(self) -> str | None:
        """Return exactly what the program gets, or None if that is not certain."""
        return self.text if self.known and not self.glob and not self.home else None

    @property
    def may_be_any_option(self) -> bool:
        """Return whether the word may become any option: a file named `-delete` makes `*` one, as a variable can."""
        if self.splits:
            return True
        if self.glob:
            return self.text[0] in "*?[-"
        return not self.known and self.text[0] in "$-"


Mode = Literal["read", "write", "append"]


@dataclass(frozen=True)
class Redirect:
    """A redirection of a stream to or from a file."""

    target: Word
    mode: Mode


@dataclass(frozen=True)
class SimpleCommand:
    """A program, its arguments, and the files that its streams are connected to."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
