"""Which paths are excluded: patterns as gitignore reads them, relative to the root. Pure; nothing is looked up.

On top of gitignore: braces expand, and `dir/**` covers the folder `dir` itself (but never a regular file `dir`).
Patterns that only name a folder (`**/NAME/**`, like all the defaults) become a set of names, which a walk can ask
ten times faster than pathspec.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import bracex
from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError

from wap_kernel.errors import InvalidArgument

DEFAULT_EXCLUSIONS = (
    "**/node_modules/**",
    "**/.git/**",
    "**/dist/**",
    "**/build/**",
    "**/.venv/**",
    "**/target/**",
    "**/__pycache__/**",
    "**/vendor/**",
)

MAX_PATTERNS = 1000
MAX_PATTERN_LENGTH = 1000

# pathspec turns globs into backtracking regular expressions: `**/a/**/a/**/b` on a deep path takes half a minute, with
# the interpreter's lock held. Within these bounds the worst path takes well under a second.
MAX_GAPS = 2
MAX_WILDCARDS = 4

_FOLDER_NAME = re.compile(r"(?:\*\*/)*([^/*?\[\]\\!#\s]+)/")
_STARS = re.compile(r"\*+")
_GAPS = re.compile(r"(?:(?<=/)|^)(?:\*\*/)+")


class Exclusions:
    """The patterns of one operation that begins at the folder `start`.

    A start inside an excluded folder is honoured: patterns that cover the start itself are read relative to it, so
    that a listing of `node_modules/x` shows what is there and still leaves out a `node_modules` further down.
    """

    def __init__(self, patterns: Iterable[str], start: str = ".") -> None:
        lines = _normalised(patterns)
        ordered = any(line.startswith("!") for line in lines)  # then the last match wins, and a set has no order
        names = {} if ordered else {line: found[1] for line in lines if (found := _FOLDER_NAME.fullmatch(line))}
        self.folder_names = frozenset(names.values())
        """A folder with one of these names is excluded, wherever it is."""
        rest = [line for line in lines if line not in names]
        self._prefix = "" if start == "." else start + "/"
        inner = [line for line in rest if self._prefix and _compiled([line]).match_file(_flat(self._prefix))]
        negations = [line for line in rest if line.startswith("!")]
        self._rooted = _compiled([line for line in rest if line not in inner]) if len(inner) < len(rest) else None
        self._relative = _compiled([line for line in rest if line in inner or line in negations]) if inner else None
        self.only_names = not rest
        """Whether `folder_names` is all there is to ask."""
        self._folders: dict[str, bool] = {".": False, start: False}

    def excludes(self, path: str, is_folder: bool) -> bool:
        """Whether `path`, below the start and in a folder that is not excluded, is excluded."""
        if is_folder and path.rpartition("/")[2] in self.folder_names:
            return True
        if self.only_names:
            return False
        path = _flat(path + "/" if is_folder else path)
        if self._rooted is not None and self._rooted.match_file(path):
            return True
        return self._relative is not None and self._relative.match_file(path[len(self._prefix) :])

    def covers(self, path: str) -> bool:
        """Whether the file `path`, anywhere below the start, or a folder on the way to it is excluded."""
        return self.covers_folder(path.rpartition("/")[0] or ".") or (
            not self.only_names and self.excludes(path, is_folder=False)
        )

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


def _normalised(patterns: Iterable[str]) -> list[str]:
    lines: list[str] = []
    for pattern in patterns:
        if len(pattern) > MAX_PATTERN_LENGTH or "\0" in pattern:
            raise InvalidArgument(
                f"An exclude pattern is longer than {MAX_PATTERN_LENGTH} characters or contains NUL.",
                pattern=pattern[:50],
            )
        try:
            expanded = bracex.expand(pattern, keep_escapes=True, limit=MAX_PATTERNS)
        except bracex.ExpansionLimitException:
            raise _too_many(pattern) from None
        lines += filter(None, map(_normalise, expanded))
        if len(lines) > MAX_PATTERNS:
            raise _too_many(pattern)
    return lines


def _normalise(pattern: str) -> str:
    negation, text = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    if text.startswith("./"):
        text = text[1:]
    text = body = _GAPS.sub("**/", text)
    while body.endswith("/**"):
        body = body[:-3]
    if body in ("", "**") and text != body:
        text = "**"  # everything
    elif body != text:
        text = body + "/" if "/" in body else f"/{body}/"
    _check_cost(text, pattern)
    return negation + text


def _check_cost(text: str, pattern: str) -> None:
    parts = text.strip("/").split("/")
    anchored = "/" in text.rstrip("/")
    gaps = parts.count("**") + (not anchored)
    stars = [len(_STARS.findall(part)) for part in parts if part != "**"]
    if gaps > MAX_GAPS or gaps + sum(count for count in stars if count > 1) > MAX_WILDCARDS:
        raise InvalidArgument(
            f"The exclude pattern has too many wildcards: {pattern}",
            hint=f"Use at most {MAX_GAPS} times `**` and few `*` in one name, or several simpler patterns.",
            pattern=pattern,
        )


def _compiled(lines: list[str]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(map(_flat, lines))
    except GitIgnorePatternError as error:
        raise InvalidArgument(
            f"Not a valid exclude pattern. {error}", hint="Patterns are those of gitignore."
        ) from None


def _flat(text: str) -> str:
    """pathspec's expressions treat a newline as the end of the text; to a glob it is a character like any other."""
    return text.replace("\n", "\x1f") if "\n" in text else text


def _too_many(pattern: str) -> InvalidArgument:
    return InvalidArgument(
        f"More than {MAX_PATTERNS} exclude patterns, braces expanded.",
        hint="Use coarser patterns.",
        pattern=pattern[:50],
    )
