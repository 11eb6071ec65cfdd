"""Globs, relative to the root, and the two questions asked of them. Pure; nothing is looked up. How patterns are read
stands in `patterns`.

*Is it excluded* (`Patterns`, `Exclusions`): as gitignore reads them. On top of gitignore braces expand, and `dir/**`
covers the folder `dir` itself (but never a regular file `dir`). Patterns that only name a folder (`**/NAME/**`, like
all the defaults) become a set of names, which a walk can ask ten times faster than pathspec.

*Is it selected* (`Selected`): exact. `**` is zero or more folders, `*` does not cross `/`, hidden files are like any
other.
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
    """What a caller wants excluded, checked and compiled; where it applies is for `Exclusions`."""

    def __init__(self, patterns: Iterable[str]) -> None:
        lines = parse_excludes(patterns)
        ordered = any(line.startswith("!") for line in lines)  # then the last match wins, and a set has no order
        names = {} if ordered else {line: found[1] for line in lines if (found := _FOLDER_NAME.fullmatch(line))}
        self.folder_names = frozenset(names.values())
        """A folder with one of these names is excluded, wherever it is."""
        self.rest = _compiled([line for line in lines if line not in names])
        """Everything else, one by one, in order."""
        self.ordered = ordered
        """Whether some of them take back what others say."""


class IncludeSet:
    """What a caller or a policy selects; a path that no pattern matches is not."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._globs = [PathGlob(names, compile_name) for pattern in patterns for names in parse_include(pattern)]
        if len(self._globs) > MAX_GLOBS:
            raise too_many_error("")

    @property
    def everything(self) -> bool:
        return any(glob.names in _ALL for glob in self._globs)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The patterns, braces expanded, as patterns for one name each."""
        return [glob.names for glob in self._globs]

    def within(self, folder: str) -> FolderMatcher:
        names = split_path(folder)
        return FolderMatcher([(glob, glob.after(names)) for glob in self._globs])

    def matches(self, path: str) -> bool:
        names = split_path(path)
        return any(glob.end in glob.after(names) for glob in self._globs)

    def leads_on(self, folder: str) -> bool:
        """Whether something below `folder` may be selected."""
        names = split_path(folder)
        return any(glob.after(names) - {glob.end} for glob in self._globs)

    def covers(self, folder: str) -> bool:
        """Whether all that can be below `folder` is selected."""
        names = split_path(folder)
        return any(glob.names[state:] in _ALL for glob in self._globs for state in glob.after(names))

    def unselected(self, folder: str, names: Sequence[str], folders: Callable[[], Collection[str]]) -> set[str]:
        """Entries of `folder` that are not selected, apart from the `folders` among them that lead on."""
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
    """The patterns of one operation that begins at the folder `start`: what it leaves out.

    Where it selects (`include`, relative to the start), that is all else: files that are not selected, and folders in
    which nothing can be.

    A start inside an excluded folder is honoured: patterns that cover the start itself are read relative to it, so
    that a listing of `node_modules/x` shows what is there and still leaves out a `node_modules` further down.
    """

    def __init__(self, patterns: ExcludePatterns, start: str = ".", include: IncludeSet | None = None) -> None:
        self.folder_names = patterns.folder_names
        self.by_name = not patterns.rest
        """Whether `folder_names` and `within` are all there is to ask."""
        self.only_names = self.by_name and include is None
        """Whether `folder_names` is."""
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
        """The folder that was last asked about, and what is selected in it."""

    def excludes(self, path: str, is_folder: bool) -> bool:
        """Whether `path`, below the start and in a folder that is not excluded, is excluded."""
        if is_folder and path.rpartition("/")[2] in self.folder_names:
            return True
        if self.only_names:
            return False
        if self._include is not None:
            folder, _, name = path.rpartition("/")
            within = self._within(folder or ".", self._include)
            if not (within.leads_on(name) if is_folder else within.matches(name)):
                return True
        path = _flat(path + "/" if is_folder else path)
        if self._ordered is not None:
            return self._last_word(path, self._ordered)
        if self._rooted is not None and self._rooted.match_file(path):
            return True
        return self._relative is not None and self._relative.match_file(path[len(self._prefix) :])

    def within(self, folder: str) -> FolderMatcher | None:
        """What is selected in `folder`, the start or below it; None if everything is."""
        return None if self._include is None else self._within(folder, self._include)

    def covers_folder(self, path: str) -> bool:
        """Whether the folder `path`, anywhere below the start, or one on the way to it is excluded."""
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

    def _last_word(self, path: str, patterns: Iterable[tuple[GitIgnoreSpecPattern, bool]]) -> bool:
        """What the first of `patterns`, the last that was given, says of `path` itself: pathspec would let one for a
        folder on the way count for more."""
        relative = path[len(self._prefix) :]
        for pattern, covers_start in patterns:
            if (not covers_start and _is_for(pattern, path)) or (
                (covers_start or not pattern.include) and _is_for(pattern, relative)
            ):
                return bool(pattern.include)
        return False

    def _covers_start(self, pattern: GitIgnoreSpecPattern) -> bool:
        return bool(self._prefix and pattern.include and pattern.match_file(_flat(self._prefix)) is not None)


def choose_excludes(exclude: Iterable[str] | None, *, recursive: bool) -> ExcludePatterns:
    """What the caller excludes, or the defaults, which are for recursive operations."""
    if exclude is not None:
        return ExcludePatterns(exclude)
    return DEFAULT_PATTERNS if recursive else NO_PATTERNS


def build_include_set(include: Iterable[str] | None) -> IncludeSet | None:
    """What the caller selects; None if that is everything."""
    return None if include is None else IncludeSet(include)


def _compiled(lines: list[str]) -> list[GitIgnoreSpecPattern]:
    try:
        return [GitIgnoreSpecPattern(_flat(line)) for line in lines]
    except (GitIgnorePatternError, re.error) as error:
        raise InvalidArgument(
            f"Not a valid exclude pattern. {error}", hint="Patterns are those of gitignore."
        ) from None


def _is_for(pattern: GitIgnoreSpecPattern, path: str) -> bool:
    """Whether it matches `path` as a whole, and not only a folder on the way."""
    expression = pattern.regex
    if expression is None:  # a comment
        return False
    if not expression.pattern.startswith("^"):  # `*` and `*/`, which are looked for anywhere
        return "ps_d" not in expression.groupindex or path.endswith("/")
    return expression.fullmatch(path) is not None


def _flat(text: str) -> str:
    """pathspec's expressions treat a newline as the end of the text; to a glob it is a character like any other."""
    return text.replace("\n", "\x1f") if "\n" in text else text


DEFAULT_PATTERNS = ExcludePatterns(DEFAULT_EXCLUSIONS)
NO_PATTERNS = ExcludePatterns(())
