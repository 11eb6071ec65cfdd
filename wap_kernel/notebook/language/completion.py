"""Complete sub-commands, options, paths of the workspace and run ids within 200 ms.

An answer of the workspace that is later than that completes the next Tab.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from wap_kernel.notebook.language.argument_parser import Arguments
from wap_kernel.notebook.language.commands import COMMANDS, DEFAULT_COMMAND, PYTHON_OPTIONS, SubCommand
from wap_kernel.notebook.language.lookup import Lookup

if TYPE_CHECKING:
    from wap_kernel.client.workspace_client import WorkspaceClient

PATIENCE = 0.1
"""Seconds to wait for a lookup, so that the whole completion stays below 200 ms."""
_RUNS = 50
_WORD = re.compile(r"""(?:[^\s'"\\]+|\\.|'[^']*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\\?\Z)|\\\Z)+""", re.DOTALL)
"""A word in the syntax of a shell; the last one may be incomplete."""


@dataclass(frozen=True)
class Completions:
    """Texts that may replace the text from `start` to `end`."""

    matches: list[str]
    start: int
    end: int


class Completer:
    """The completer of one shell.

    `client` is called in a thread, because it may have to look for a server. Until `is_connected`, nothing of the
    workspace is completed.
    """

    def __init__(
        self,
        client: Callable[[], WorkspaceClient],
        is_connected: Callable[[], bool] = lambda: True,
        *,
        has_python: bool = True,
    ) -> None:
        self._lookup = Lookup(client, is_connected)
        self._left_out = () if has_python else PYTHON_OPTIONS

    def complete(self, text: str, cursor: int, *, heads_cell: bool = False, until: float | None = None) -> Completions:
        """Complete a line without its `%wap`, or the head of a cell without its `%%wap`.

        `until` is a deadline on the clock of `monotonic`, for callers that have used some of the time already.
        """
        until = monotonic() + PATIENCE if until is None else until
        before = text[:cursor]
        # Word by word from the start: searching for the last word takes quadratic time in its length.
        start = next((found.start() for found in _WORD.finditer(before) if found.end() == cursor), cursor)
        word, words = before[start:], _split(before[:start])
        if [*words, word][0].startswith("-"):  # options without a sub-command
            words.insert(0, "run" if heads_cell else DEFAULT_COMMAND)
        return Completions(self._matches(words, word, until), start, cursor)

    def _matches(self, words: list[str], word: str, until: float) -> list[str]:
        if not words:
            return _filter_prefix(word, COMMANDS)
        command = COMMANDS.get(words[0])
        if command is None:
            return []
        parser = command.arguments()
        expected, begun = _next_argument(parser, words[1:], command)
        if command.name == "check" and begun and COMMANDS.get(words[1]):
            return self._matches(words[1:], word, until)
        if word.startswith("-") and not begun and not command.bare:
            return _filter_prefix(word, parser.flags(self._left_out))
        return self._values(expected, word, until)

    def _values(self, expected: argparse.Action | None, word: str, until: float) -> list[str]:
        kind = None if expected is None else expected.metavar
        if expected is not None and expected.choices is not None:
            return _filter_prefix(word, map(str, expected.choices))
        if kind in ("PATH", "DIR", "COMMAND", "ARGUMENTS"):  # in a command, any word may be a path
            return self._paths(word, until, folders_only=kind == "DIR")
        if kind == "RUN":
            return self._runs(word, until)
        if kind in ("CMD", "LINE"):
            return _filter_prefix(word, COMMANDS)
        return []

    def _paths(self, word: str, until: float, *, folders_only: bool) -> list[str]:
        """Return the paths in the folder of the word, quoted as the word is."""
        written = _unquote(word)
        folder, _, beginning = written.rpartition("/")
        found = self._lookup.ask(("ls", folder), lambda client: client.ls(folder or "."), until)
        matches = []
        for entry in found.data["files"] if found is not None else ():
            name, is_folder = str(entry["path"]).rstrip("/").rpartition("/")[2], bool(entry["isDirectory"])
            hidden = name.startswith(".") and not beginning.startswith(".")
            if name.startswith(beginning) and not hidden and name.isprintable() and (is_folder or not folders_only):
                whole = f"{folder}/{name}" if folder else name
                matches.append(_quote(whole + ("/" if is_folder else ""), word))
        return sorted(matches)

    def _runs(self, word: str, until: float) -> list[str]:
        found = self._lookup.ask("runs", lambda client: client.runs(limit=_RUNS), until)
        runs = [] if found is None else [str(run["runId"]) for run in found.data["runs"]]
        return _filter_prefix(word, [*runs, "last"])


def _filter_prefix(word: str, known: Iterable[str]) -> list[str]:
    return [name for name in known if name and name.startswith(word)]


def _next_argument(parser: Arguments, words: Sequence[str], command: SubCommand) -> tuple[argparse.Action | None, bool]:
    """Return the argument after `words`, and whether the text of a verbatim command has begun."""
    positionals = [action for action in parser._actions if not action.option_strings]
    count, waiting = 0, None
    for word in words:
        if waiting is not None:
            waiting = None
        elif word.startswith("-") and not (command.verbatim and count) and not command.bare:
            waiting = next((action for action in parser._actions if word in action.option_strings), None)
            waiting = waiting if waiting is not None and waiting.nargs is None else None
        else:
            count += 1
    if waiting is not None:
        return waiting, False
    if command.verbatim:
        return positionals[0], count > 0
    if count >= len(positionals) and positionals and positionals[-1].nargs == "*":
        count = len(positionals) - 1
    return (positionals[count] if count < len(positionals) else None), False


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # quotes that a command closes later
        return text.split()


def _unquote(word: str) -> str:
    for closing in ("", "'", '"'):
        try:
            return "".join(shlex.split(word.removesuffix("\\") + closing))
        except ValueError:
            continue
    return word


def _quote(path: str, word: str) -> str:
    """Quote a path in the style of the word, so that the typed text stays."""
    if word.startswith('"'):
        return '"' + re.sub(r'(["\\$`])', r"\\\1", path) + ("" if path.endswith("/") else '"')
    quoted = shlex.quote(path)
    if word.startswith("'") and quoted == path:
        quoted = f"'{path}'"
    return quoted[:-1] if quoted.endswith("/'") else quoted
