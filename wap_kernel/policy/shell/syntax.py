"""The parts of a command line that can be read: words, redirections, simple commands. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Word:
    """One word after quote removal. An expansion stands in the text as `$NAME`."""

    text: str
    known: bool = True
    """False: it holds an expansion, so the text is not what the program gets."""
    glob: bool = False
    """It holds an unquoted `*`, `?` or `[`: any number of file names."""
    home: bool = False
    """It begins with an unquoted `~`: the home folder."""
    splits: bool = False
    """It holds an unquoted expansion: any number of words."""

    @property
    def literal(self) -> str | None:
        """Exactly what the program gets, if that is certain."""
        return self.text if self.known and not self.glob and not self.home else None

    @property
    def may_be_any_option(self) -> bool:
        """A file named `-delete` makes `*` an option, and so does a variable."""
        if self.splits:
            return True
        if self.glob:
            return self.text[0] in "*?[-"
        return not self.known and self.text[0] in "$-"


Mode = Literal["read", "write", "append"]


@dataclass(frozen=True)
class Redirect:
    target: Word
    mode: Mode


@dataclass(frozen=True)
class SimpleCommand:
    """A program, its arguments, and the files that its streams are connected to."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
