"""Match denied and read-only patterns: *excluded* globs, without case and without kind. Pure.

Case is ignored, since `.ENV` on a disk that ignores case is `.env`. The kind is ignored, since the check comes before
the path is opened: `secrets/**` also closes a regular file `secrets`. A big listing checks 100,000 names, so *needles*
come first: literal pieces of the patterns, searched in all the names at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from wap_kernel.files.globs.parse import parse_excludes
from wap_kernel.files.globs.path_glob import Matcher, PathGlob, compile_name
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.paths import join_path, split_path

_TOKEN = re.compile(r"\\(?P<escaped>.)|(?P<wild>\*+|\?|\[[!^]?\]?[^\]\\]*\])|(?P<bad>[\[\\])|(?P<plain>.)", re.DOTALL)


@dataclass(frozen=True)
class _Row:
    pattern: str
    """The pattern as its author wrote it."""
    glob: PathGlob
    negated: bool
    folder_only: bool

    @property
    def is_one_name(self) -> bool:
        """Return whether the pattern fits a name in any folder, so that moving a folder above it changes nothing."""
        return len(self.glob.names) == 2 and self.glob.names[0] == "**"

    def completes_in(self, states: frozenset[int]) -> bool:
        """Return whether an entry of a folder with these states may match."""
        return self.glob.end - 1 in states

    @cached_property
    def needle(self) -> str:
        return max((_needle(name) for name in self.glob.names if name != "**"), key=len, default="/")

    @cached_property
    def last_needle(self) -> str:
        return _needle(self.glob.names[-1]) if self.glob.names[-1] != "**" else "/"


class PathPatterns:
    """The patterns of one list of one layer. `!` negates, and the last that fits counts, as in gitignore."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        parse_excludes(self.patterns)  # refuses what costs too much, all together
        self.rows = [row for pattern in self.patterns for row in _rows(pattern)]
        closing = [row for row in self.rows if not row.negated]
        negated = [row for row in self.rows if row.negated]
        self._negates_folders = any(row.folder_only for row in negated)
        self._negates_paths = any(not row.is_one_name for row in negated)
        self._paths = [row for row in closing if not row.is_one_name]
        self._names = _Needles(row.last_needle for row in closing if row.is_one_name)
        self._anywhere = _Needles(row.needle for row in closing)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def find(self, path: str, *, folder: bool = False) -> str | None:
        """Return the pattern that covers `path` or a folder on the way to it; the root itself is never covered."""
        if not self._anywhere.may_be_in(f"/{path}/".casefold()):
            return None
        names = split_path(path)
        states = [row.glob.start for row in self.rows]
        for position, name in enumerate(names, start=1):
            is_folder = folder or position < len(names)
            found = None
            for number, row in enumerate(self.rows):
                states[number] = row.glob.follow(states[number], name)
                if row.glob.end in states[number] and (is_folder or not (row.negated and row.folder_only)):
                    found = None if row.negated else row.pattern
            if found is not None:
                return found
        return None

    def among(self, folder: str, names: Sequence[str], folders: Callable[[], Collection[str]]) -> set[str]:
        """Return the entries of `folder`, itself not covered, that are covered."""
        text = f"/{'/'.join(names)}/".casefold()
        if not self._names.may_be_in(text) and not (self._paths and self._completes(folder, text)):
            return set()
        known_folders = folders() if self._negates_folders else ()
        return {name for name in names if self.find(join_path(folder, name), folder=name in known_folders) is not None}

    def _completes(self, folder: str, text: str) -> bool:
        """Return whether a pattern with several components may match an entry of `folder` named in `text`."""
        above = split_path(folder)
        return any(row.last_needle in text for row in self._paths if row.completes_in(row.glob.after(above)))

    def may_hold(self, folder: str) -> bool:
        """Return whether something below `folder` may be covered because of its path, so that a move would free it."""
        above = split_path(folder)
        floating = {True: {0, 1}, False: set[int]()}
        return self._negates_paths or any(
            row.glob.after(above) - floating[row.glob.names[0] == "**"] - {row.glob.end} for row in self._paths
        )


class _Needles:
    """Literal pieces, at least one of which is in every text that can match; `/` stands before and after a name."""

    def __init__(self, needles: Iterable[str]) -> None:
        wanted = set(needles)
        least = sorted(one for one in wanted if not any(other in one for other in wanted - {one}))
        by_first: dict[str, list[str]] = {}
        for needle in least:
            by_first.setdefault(needle[0], []).append(needle[1:])
        self._single = [first + rest[0] for first, rest in by_first.items() if len(rest) == 1]
        self._several = [_any_of(first, rest) for first, rest in by_first.items() if len(rest) > 1]

    def may_be_in(self, text: str) -> bool:
        """Return whether a needle is in `text`, which is casefolded."""
        for needle in self._single:
            if needle in text:
                return True
        for search in self._several:  # noqa: SIM110 - `any` over a generator takes three times as long for a path
            if search(text):
                return True
        return False


def _any_of(first: str, rest: Sequence[str]) -> Callable[[str], object]:
    """Return a search for `first` followed by one of `rest`, and a little more: any second letter with any remainder.

    A set for the second letter makes it three times as fast as the exact expression, and faster than several searches.
    """
    seconds = re.escape("".join(sorted({text[0] for text in rest})))
    remainders = "|".join(sorted({re.escape(text[1:]) for text in rest}))
    return re.compile(f"{re.escape(first)}[{seconds}](?:{remainders})").search


def _rows(pattern: str) -> Iterable[_Row]:
    body = pattern.removeprefix("!")
    if not body.strip("/") or body.startswith("#") or body != body.strip():
        # gitignore ignores such a line, which would leave open what its author meant to close.
        raise _unclear("is empty, begins with # or has spaces around it", pattern)
    if body.startswith("~/"):
        raise _unclear("begins with ~, which is no home folder here: patterns are relative to the workspace", pattern)
    for line in parse_excludes([pattern]):
        text = line.removeprefix("!")
        names = text.strip("/").split("/")
        if ".." in names:
            raise _unclear("leaves the workspace", pattern)
        if names[-1] == "**" and len(names) > 1:
            raise _unclear("ends in /**/, which is neither a folder nor all that is in it", pattern)
        if any(token["bad"] or _is_unclear(token[0]) for name in names for token in _TOKEN.finditer(name)):
            raise _unclear("has brackets that are not closed, or hold more than letters and ranges", pattern)
        if "/" not in text.rstrip("/"):
            names.insert(0, "**")
        yield _Row(pattern, PathGlob(names, _caseless), line.startswith("!"), text.endswith("/"))


def _is_unclear(token: str) -> bool:
    """Return whether programs read a bracket differently: `[[:alpha:]]`, `[z-a]`."""
    letters = token[1:-1]
    backward = any(
        first > last for first, last in zip(letters, letters[2:], strict=False) if f"{first}-{last}" in letters
    )
    return token.startswith("[") and ("[" in letters or backward)


def _unclear(problem: str, pattern: str) -> InvalidArgument:
    return InvalidArgument(f"The pattern {problem}: {pattern!r}", hint="Patterns are those of gitignore.")


def _caseless(name: str) -> Matcher:
    folded = compile_name(name.casefold())
    if "[" not in name:
        return lambda text: folded(text.casefold())
    exact = compile_name(name)  # `[!a-z]` fits `A`, and not `a`
    return lambda text: folded(text.casefold()) or exact(text)


def _needle(name: str) -> str:
    """Return the longest literal piece of the pattern for one name, casefolded, with the slashes around it."""
    pieces = ["/"]
    for token in _TOKEN.finditer(name):
        if token["wild"]:
            pieces.append("")
        else:
            pieces[-1] += token["escaped"] or token["plain"]
    pieces[-1] += "/"
    return max(pieces, key=len).casefold()
