"""Validate glob patterns and expand their braces; refuse patterns that take long to match. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

import bracex

from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_GLOB_BRACES, MAX_GLOB_CHARACTERS, MAX_GLOBS

# pathspec turns globs into backtracking regular expressions: `**/a/**/a/**/b` on a deep path takes half a minute, with
# the interpreter's lock held. Within these bounds the worst path takes one pattern well under a second, and nearly all
# patterns, those with one `**` and two `*` in a name at most, a quarter of a millisecond. Of the others a few are fine.
MAX_GAPS = 2
MAX_STARS = 3
MAX_COSTLY = 10

_STARS = re.compile(r"\*+")
_BRACKET = re.compile(r"\\.|\[(?:[!^]|(?![!^]))(?:\\.|\]|[^\]\\])(?:\\.|[^\]\\])*\]|(?P<open>\[)", re.DOTALL)
_GAPS = re.compile(r"(?:(?<=/)|^)(?:\*\*/)+")


def expand_braces(pattern: str) -> list[str]:
    """Return the patterns that the braces of `pattern` expand to."""
    if len(pattern) > MAX_GLOB_CHARACTERS or "\0" in pattern:
        raise InvalidArgument(
            f"A pattern is longer than {MAX_GLOB_CHARACTERS} characters or contains NUL.",
            pattern=pattern[:50],
        )
    braces = pattern.count("{")
    if braces > MAX_GLOB_BRACES:  # each may be nested in the one before, and bracex recurses
        raise InvalidArgument(f"A pattern has more than {MAX_GLOB_BRACES} braces.", pattern=pattern[:50])
    if not braces:
        return [pattern]
    try:
        return list(bracex.expand(pattern, keep_escapes=True, limit=MAX_GLOBS))
    except bracex.ExpansionLimitException:
        raise too_many_error(pattern) from None


def parse_include(pattern: str) -> list[list[str]]:
    """Return an include pattern as rows of names; refuse one that can match nothing."""
    rows = []
    for line in expand_braces(pattern):
        names = line.removeprefix("./").rstrip("/").split("/")
        if line.startswith("/"):
            raise _build_useless_error("begins with /, and patterns are relative to the folder", pattern)
        _check_can_match(names, pattern)
        if any(len(_STARS.findall(name)) > MAX_STARS for name in names):
            raise InvalidArgument(
                f"The pattern has too many wildcards: {pattern}",
                hint=f"Use at most {MAX_STARS} times `*` in one name.",
                pattern=pattern,
            )
        rows.append(names)
    return rows


def parse_excludes(patterns: Iterable[str]) -> list[str]:
    """Return exclude patterns as gitignore lines, with braces expanded and `dir/**` written as `/dir/`."""
    lines: list[str] = []
    costly = 0
    for pattern in patterns:
        for text in expand_braces(pattern):
            line = _normalize(text)
            costly += _is_costly(line, pattern)
            if line:
                lines.append(line)
        if len(lines) > MAX_GLOBS:
            raise too_many_error(pattern)
        if costly > MAX_COSTLY:
            raise _build_costly_error(pattern)
    return lines


def _normalize(pattern: str) -> str:
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
    return negation + text


def _is_costly(line: str, pattern: str) -> bool:
    """Return whether matching `line` backtracks a lot; raise if it is too much for a single pattern."""
    text = line.removeprefix("!")
    parts = text.strip("/").split("/")
    anchored = "/" in text.rstrip("/")
    gaps = parts.count("**") + (not anchored)
    stars = [len(_STARS.findall(part)) for part in parts if part != "**"]
    if gaps > MAX_GAPS or sum(number for number in stars if number > 1) > MAX_STARS:
        raise InvalidArgument(
            f"The exclude pattern has too many wildcards: {pattern}",
            hint=f"Use at most {MAX_GAPS} times `**` and few `*` in one name, or several simpler patterns.",
            pattern=pattern,
        )
    return gaps > 1 or max(stars, default=0) > 2


def _check_can_match(names: Iterable[str], pattern: str) -> None:
    """Raise for a pattern that no path matches, which its author did not mean."""
    for name in names:
        if name == "..":
            raise _build_useless_error("holds .., and no path does", pattern)
        if any(token["open"] for token in _BRACKET.finditer(name)):
            raise _build_useless_error("has a bracket that is not closed; write \\[ for the character", pattern)


def _build_useless_error(problem: str, pattern: str) -> InvalidArgument:
    return InvalidArgument(
        f"The pattern matches nothing: {pattern[:50]!r} {problem}.",
        hint="Write it like src/**/*.py, relative to the folder that is searched.",
        pattern=pattern[:50],
    )


def too_many_error(pattern: str) -> InvalidArgument:
    return InvalidArgument(
        f"More than {MAX_GLOBS} patterns, braces expanded.",
        hint="Use coarser patterns.",
        pattern=pattern[:50],
    )


def _build_costly_error(pattern: str) -> InvalidArgument:
    return InvalidArgument(
        f"More than {MAX_COSTLY} exclude patterns with several wildcards, braces expanded.",
        hint="A pattern is cheap with at most one `**` and at most two `*` in a name.",
        pattern=pattern[:50],
    )
