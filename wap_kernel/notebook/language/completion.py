"""What can be written next: sub-commands, options, paths of the workspace, run ids. Never slower than 200 ms: what the
workspace has not said by then is left out, and is there with the next Tab."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from wap_kernel.notebook.language.argument_parser import Arguments
from wap_kernel.notebook.language.commands import COMMANDS, NAMELESS, OF_PYTHON, Command
from wap_kernel.notebook.language.lookup import Lookup

if TYPE_CHECKING:
    from wap_kernel.client.workspace_client import Hands

PATIENCE = 0.1
"""Seconds after which a lookup is not waited for any longer, so that all of it stays below 200 ms."""
_RUNS = 50
_WORD = re.compile(r"""(?:[^\s'"\\]+|\\.|'[^']*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\\?\Z)|\\\Z)+""", re.DOTALL)
"""As a shell reads it; the last one may not be finished."""


@dataclass(frozen=True)
class Completions:
    """`matches` replace what stands from `start` to `end`."""

    matches: list[str]
    start: int
    end: int


class Completer:
    """Completes the lines of one shell. `hands` is called in a thread of its own: it may have to look for a server.
    What `has_hands` says decides whether anything of the workspace completes yet."""

    def __init__(
        self, hands: Callable[[], Hands], has_hands: Callable[[], bool] = lambda: True, *, has_python: bool = True
    ) -> None:
        self._lookup = Lookup(hands, has_hands)
        self._left_out = () if has_python else OF_PYTHON

    def complete(self, text: str, cursor: int, *, heads_cell: bool = False, until: float | None = None) -> Completions:
        """For a line without its `%wap`, or the head of a cell without its `%%wap`. `until` is the end of the time for
        it, on the clock of `monotonic`, where some of that has gone already."""
        until = monotonic() + PATIENCE if until is None else until
        before = text[:cursor]
        # From the beginning, word by word: to look for the last one would take the square of a long word's length.
        start = next((found.start() for found in _WORD.finditer(before) if found.end() == cursor), cursor)
        word, words = before[start:], _split(before[:start])
        if [*words, word][0].startswith("-"):  # of no sub-command
            words.insert(0, "run" if heads_cell else NAMELESS)
        return Completions(self._matches(words, word, until), start, cursor)

    def _matches(self, words: list[str], word: str, until: float) -> list[str]:
        if not words:
            return _beginning(word, COMMANDS)
        command = COMMANDS.get(words[0])
        if command is None:
            return []
        given = command.arguments()
        expected, begun = _expected(given, words[1:], command)
        if command.name == "check" and begun and COMMANDS.get(words[1]):
            return self._matches(words[1:], word, until)
        if word.startswith("-") and not begun and not command.bare:
            return _beginning(word, given.flags(self._left_out))
        return self._values(expected, word, until)

    def _values(self, expected: argparse.Action | None, word: str, until: float) -> list[str]:
        kind = None if expected is None else expected.metavar
        if expected is not None and expected.choices is not None:
            return _beginning(word, map(str, expected.choices))
        if kind in ("PATH", "DIR", "COMMAND", "ARGUMENTS"):  # in a command, any word may be a path
            return self._paths(word, until, folders_only=kind == "DIR")
        if kind == "RUN":
            return self._runs(word, until)
        if kind in ("CMD", "LINE"):
            return _beginning(word, COMMANDS)
        return []

    def _paths(self, word: str, until: float, *, folders_only: bool) -> list[str]:
        """Those in the folder that has been written so far, quoted as the word is."""
        written = _unquoted(word)
        folder, _, beginning = written.rpartition("/")
        found = self._lookup.ask(("ls", folder), lambda hands: hands.ls(folder or "."), until)
        matches = []
        for entry in found.data["files"] if found is not None else ():
            name, is_folder = str(entry["path"]).rstrip("/").rpartition("/")[2], bool(entry["isDirectory"])
            hidden = name.startswith(".") and not beginning.startswith(".")
            if name.startswith(beginning) and not hidden and name.isprintable() and (is_folder or not folders_only):
                whole = f"{folder}/{name}" if folder else name
                matches.append(_quoted(whole + ("/" if is_folder else ""), word))
        return sorted(matches)

    def _runs(self, word: str, until: float) -> list[str]:
        found = self._lookup.ask("runs", lambda hands: hands.runs(limit=_RUNS), until)
        runs = [] if found is None else [str(run["runId"]) for run in found.data["runs"]]
        return _beginning(word, [*runs, "last"])


def _beginning(word: str, known: Iterable[str]) -> list[str]:
    return [name for name in known if name and name.startswith(word)]


def _expected(given: Arguments, words: Sequence[str], command: Command) -> tuple[argparse.Action | None, bool]:
    """What comes after `words`, and whether the text of a verbatim command has begun."""
    positionals = [action for action in given._actions if not action.option_strings]
    place, waiting = 0, None
    for word in words:
        if waiting is not None:
            waiting = None
        elif word.startswith("-") and not (command.verbatim and place) and not command.bare:
            waiting = next((action for action in given._actions if word in action.option_strings), None)
            waiting = waiting if waiting is not None and waiting.nargs is None else None
        else:
            place += 1
    if waiting is not None:
        return waiting, False
    if command.verbatim:
        return positionals[0], place > 0
    return (positionals[place] if place < len(positionals) else None), False


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # quotes that a command closes later
        return text.split()


def _unquoted(word: str) -> str:
    for closing in ("", "'", '"'):
        try:
            return "".join(shlex.split(word.removesuffix("\\") + closing))
        except ValueError:
            continue
    return word


def _quoted(path: str, word: str) -> str:
    """As the word was begun, so that what has been typed stays."""
    if word.startswith('"'):
        return '"' + re.sub(r'(["\\$`])', r"\\\1", path) + ("" if path.endswith("/") else '"')
    quoted = shlex.quote(path)
    if word.startswith("'") and quoted == path:
        quoted = f"'{path}'"
    return quoted[:-1] if quoted.endswith("/'") else quoted
