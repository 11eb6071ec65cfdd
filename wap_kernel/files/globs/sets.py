"""Sets of globs that exclude or include paths relative to the root. Pure; `parse.py` parses the patterns.

Exclude globs (`ExcludePatterns`, `ExcludeSet`) follow gitignore. On top of gitignore, braces expand, and `dir/**`
covers the folder `dir` itself (but never a regular file `dir`). Patterns that only name a folder (`**/NAME/**`, like
all the defaults) become a set of names, which is ten times faster than pathspec.

Include globs (`IncludeSet`) are exact: `**` matches zero or more folders, `*` does not cross `/`, and hidden files are
like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from wap_kernel.files.globs.parse import parse_excludes, parse_include, too_many_error
from wap_kernel.files.globs.path_glob import FolderMatcher, PathGlob, compile_name
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import DEFAULT_EXCLUSIONS, MAX_GLOBS
from wap_kernel.model.paths import split_path

_ALL = (("**",), ("**", "*"))
_FOLDER_NAME = re.compile(r"(?:\*\*/)*([^/*?\[\]\\!#\s]+)/")


class ExcludePatterns:
    """The exclude globs of a caller, validated and compiled; `ExcludeSet` applies them to a folder."""

    def __init__(self, patterns: Iterable[str]) -> None:
        lines = parse_excludes(patterns)
        ordered = any(line.startswith("!") for line in lines)  # then the last match wins, and a set has no order
        names = {} if ordered else {line: found[1] for line in lines if (found := _FOLDER_NAME.fullmatch(line))}
        self.folder_names = frozenset(names.values())
        """The names of folders that are excluded at any depth."""
        self.rest = _compile([line for line in lines if line not in names])
        """The other patterns, in order."""
        self.ordered = ordered
        """True if a pattern negates others, so that the last match wins."""


class IncludeSet:
    """The include globs of a caller or a policy."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._globs = [PathGlob(names, compile_name) for pattern in patterns for names in parse_include(pattern)]
        if len(self._globs) > MAX_GLOBS:
            raise too_many_error("")

    @property
    def everything(self) -> bool:
        return any(glob.names in _ALL for glob in self._globs)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Return the patterns, with braces expanded, as rows of patterns for one name each."""
        return [glob.names for glob in self._globs]

    def within(self, folder: str) -> FolderMatcher:
        names = split_path(folder)
        return FolderMatcher([(glob, glob.after(names)) for glob in self._globs])

    def matches(self, path: str) -> bool:
        names = split_path(path)
        return any(glob.end in glob.after(names) for glob in self._globs)

    def leads_on(self, folder: str) -> bool:
        """Return whether a path below `folder` may be included."""
        names = split_path(folder)
        return any(glob.after(names) - {glob.end} for glob in self._globs)

    def covers(self, folder: str) -> bool:
        """Return whether every path below `folder` is included."""
        names = split_path(folder)
        return any(glob.names[state:] in _ALL for glob in self._globs for state in glob.after(names))

    def unselected(self, folder: str, names: Sequence[str], folders: Callable[[], Collection[str]]) -> set[str]:
        """Return the entries of `folder` that are not included, without `folders` that may hold an included path."""
        if self.covers(folder):
            return set()
        above = split_path(folder)
        states = [(glob, glob.after(above)) for glob in self._globs]
        left: set[str] = set()
        leading: set[str] = set()
        for name in names:
            reached = [(glob.end, glob.follow(found, name)) for glob, found in states if found]
            if any(end in found for end, found in reached):
                continue
            (leading if any(found for _, found in reached) else left).add(name)
        return left | leading.difference(folders()) if leading else left


class ExcludeSet:
    """The paths that an operation at the folder `start` excludes.

    With `include`, relative to the start, these are also the files that are not included and the folders that can hold
    none.

    A start inside an excluded folder is honoured: patterns that cover the start itself apply relative to it, so that a
    listing of `node_modules/x` has its entries and still excludes a `node_modules` further down.
    """

    def __init__(self, patterns: ExcludePatterns, start: str = ".", include: IncludeSet | None = None) -> None:
        self.folder_names = patterns.folder_names
        self.by_name = not patterns.rest
        """True if `folder_names` and `within` alone decide."""
        self.only_names = self.by_name and include is None
        """True if `folder_names` alone decides."""
        self._prefix = "" if start == "." else start + "/"
        covering = [self._covers_start(one) for one in patterns.rest]
        self._ordered = list(zip(patterns.rest, covering, strict=True))[::-1] if patterns.ordered else None
        outer = [one for one, covers in zip(patterns.rest, covering, strict=True) if not covers]
        inner = [one for one, covers in zip(patterns.rest, covering, strict=True) if covers or one.include is False]
        self._rooted = GitIgnoreSpec(outer) if outer else None
        self._relative = GitIgnoreSpec(inner) if any(covering) else None
        self._folders: dict[str, bool] = {".": False, start: False}
        self._include = include
        self._last = "", FolderMatcher(())
        """The folder of the last query and its matcher."""

    def excludes(self, path: str, is_folder: bool) -> bool:
        """Return whether `path`, below the start and in a folder that is not excluded, is excluded."""
        if is_folder and path.rpartition("/")[2] in self.folder_names:
            return True
        if self.only_names:
            return False
        if self._include is not None:
            folder, _, name = path.rpartition("/")
            within = self._within(folder or ".", self._include)
            if not (within.leads_on(name) if is_folder else within.matches(name)):
                return True
        path = _escape_newlines(path + "/" if is_folder else path)
        if self._ordered is not None:
            return self._decide_in_order(path, self._ordered)
        if self._rooted is not None and self._rooted.match_file(path):
            return True
        return self._relative is not None and self._relative.match_file(path[len(self._prefix) :])

    def within(self, folder: str) -> FolderMatcher | None:
        """Return the matcher of the entries of `folder`, the start or below it, or None without include globs."""
        return None if self._include is None else self._within(folder, self._include)

    def covers_folder(self, path: str) -> bool:
        """Return whether the folder `path`, anywhere below the start, or one on the way to it is excluded."""
        pending = []
        while (known := self._folders.get(path)) is None:
            pending.append(path)
            path = path.rpartition("/")[0] or "."
        for folder in reversed(pending):
            known = known or self.excludes(folder, is_folder=True)
            self._folders[folder] = known
        return known

    def _within(self, folder: str, include: IncludeSet) -> FolderMatcher:
        if folder != self._last[0]:
            self._last = folder, include.within(folder[len(self._prefix) :])
        return self._last[1]

    def _decide_in_order(self, path: str, patterns: Iterable[tuple[GitIgnoreSpecPattern, bool]]) -> bool:
        """Return the verdict on `path` of the first of `patterns` that matches it; they are in reverse order.

        pathspec would let a pattern for a folder on the way count for more.
        """
        relative = path[len(self._prefix) :]
        for pattern, covers_start in patterns:
            if (not covers_start and _matches_whole(pattern, path)) or (
                (covers_start or not pattern.include) and _matches_whole(pattern, relative)
            ):
                return bool(pattern.include)
        return False

    def _covers_start(self, pattern: GitIgnoreSpecPattern) -> bool:
        return bool(self._prefix and pattern.include and pattern.match_file(_escape_newlines(self._prefix)) is not None)


def choose_excludes(exclude: Iterable[str] | None, *, recursive: bool) -> ExcludePatterns:
    """Return the caller's exclude patterns, or the default ones for a recursive operation."""
    if exclude is not None:
        return ExcludePatterns(exclude)
    return DEFAULT_PATTERNS if recursive else NO_PATTERNS


def build_include_set(include: Iterable[str] | None) -> IncludeSet | None:
    """Return the caller's include globs, or None if there are none."""
    return None if include is None else IncludeSet(include)


def _compile(lines: list[str]) -> list[GitIgnoreSpecPattern]:
    try:
        return [GitIgnoreSpecPattern(_escape_newlines(line)) for line in lines]
    except (GitIgnorePatternError, re.error) as error:
        raise InvalidArgument(
            f"Not a valid exclude pattern. {error}", hint="Patterns are those of gitignore."
        ) from None


def _matches_whole(pattern: GitIgnoreSpecPattern, path: str) -> bool:
    """Return whether `pattern` matches `path` as a whole, and not only a folder on the way."""
    expression = pattern.regex
    if expression is None:  # a comment
        return False
    if not expression.pattern.startswith("^"):  # `*` and `*/`, which are looked for anywhere
        return "ps_d" not in expression.groupindex or path.endswith("/")
    return expression.fullmatch(path) is not None


def _escape_newlines(text: str) -> str:
    """Replace newlines, which pathspec's expressions take for the end and a glob for an ordinary character."""
    return text.replace("\n", "\x1f") if "\n" in text else text


DEFAULT_PATTERNS = ExcludePatterns(DEFAULT_EXCLUSIONS)
NO_PATTERNS = ExcludePatterns(())
