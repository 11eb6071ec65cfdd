"""What can be written next: sub-commands, options, paths of the workspace, run ids. Never slower than 200 ms."""

from __future__ import annotations

import argparse
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wap_kernel.errors import WapError
from wap_kernel.language.arguments import Arguments
from wap_kernel.language.commands import COMMANDS, Command

if TYPE_CHECKING:
    from wap_kernel.client.answers import Answer
    from wap_kernel.client.hands import Hands

PATIENCE = 0.1
"""Seconds that a lookup may take: the first one also loads these modules, and all of it stays below 200 ms."""
_RUNS = 50
_LAST_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*(?:'|$)|"(?:\\.|[^"\\])*(?:"|$)|\\$)*$""", re.DOTALL)


@dataclass(frozen=True)
class Completions:
    """`matches` replace what stands from `start` to `end`."""

    matches: list[str]
    start: int
    end: int


class Completer:
    """Completes the lines of one shell. `hands` is called in a thread of its own: it may have to look for a server."""

    def __init__(self, hands: Callable[[], Hands]) -> None:
        self._hands = hands
        self._late: threading.Thread | None = None

    def complete(self, text: str, cursor: int, *, heads_cell: bool = False) -> Completions:
        """For a line without its `%wap`, or the head of a cell without its `%%wap`."""
        before = text[:cursor]
        found = _LAST_WORD.search(before)
        start = found.start() if found else cursor
        word, words = before[start:], _split(before[:start])
        if [*words, word][0].startswith("-"):  # of no sub-command
            words.insert(0, "run" if heads_cell else "")
        return Completions(self._matches(words, word), start, cursor)

    def _matches(self, words: list[str], word: str) -> list[str]:
        if not words:
            return _beginning(word, COMMANDS)
        command = COMMANDS.get(words[0])
        if command is None:
            return []
        given = command.arguments()
        expected, begun = _expected(given, words[1:], command)
        if command.name == "check" and begun and COMMANDS.get(words[1]):
            return self._matches(words[1:], word)
        if word.startswith("-") and not begun and not command.bare:
            return _beginning(word, given.flags())
        return self._values(expected, word)

    def _values(self, expected: argparse.Action | None, word: str) -> list[str]:
        kind = None if expected is None else expected.metavar
        if expected is not None and expected.choices is not None:
            return _beginning(word, map(str, expected.choices))
        if kind in ("PATH", "DIR", "COMMAND", "ARGUMENTS"):  # in a command, any word may be a path
            return self._paths(word, folders_only=kind == "DIR")
        if kind == "RUN":
            return self._runs(word)
        if kind in ("CMD", "LINE"):
            return _beginning(word, COMMANDS)
        return []

    def _paths(self, word: str, *, folders_only: bool) -> list[str]:
        """Those in the folder that has been written so far, quoted as the word is."""
        written = _unquoted(word)
        folder, _, beginning = written.rpartition("/")
        found = self._look(lambda hands: hands.ls(folder or ".")) or {"files": []}
        matches = []
        for entry in found["files"]:
            name, is_folder = str(entry["path"]).rstrip("/").rpartition("/")[2], bool(entry["isDirectory"])
            hidden = name.startswith(".") and not beginning.startswith(".")
            if name.startswith(beginning) and not hidden and name.isprintable() and (is_folder or not folders_only):
                whole = f"{folder}/{name}" if folder else name
                matches.append(_quoted(whole + ("/" if is_folder else ""), word))
        return sorted(matches)

    def _runs(self, word: str) -> list[str]:
        found = self._look(lambda hands: hands.runs(limit=_RUNS)) or {"runs": []}
        return _beginning(word, [*(str(run["runId"]) for run in found["runs"]), "last"])

    def _look(self, question: Callable[[Hands], Answer]) -> Mapping[str, Any] | None:
        """The answer, or None where it is late. One lookup at a time: a slow server is not asked twice."""
        if self._late is not None and self._late.is_alive():
            return None
        answers: list[Mapping[str, Any]] = []

        def ask() -> None:
            try:
                answers.append(question(self._hands()).data)
            except WapError:
                pass  # a refusal completes to nothing

        self._late = threading.Thread(target=ask, name="wap-completing", daemon=True)
        self._late.start()
        self._late.join(PATIENCE)
        return answers[0] if answers else None


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
