r"""Replace by a regular expression as JavaScript does, on the `regex` module, which has a timeout.

The protocol's examples are JavaScript, and the differences bite: Python's `.` matches `\r`, so `x.*$` would eat the
line endings of a CRLF file, and its `$` also matches before a final newline. `translate.py` translates the
pattern.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import regex

from wap_kernel.files.edit.js_regex.translate import TranslatedPattern, translate
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import EditNotFound, InvalidArgument, TimedOut, TooLarge
from wap_kernel.model.limits import REGEX_TIMEOUT_SECONDS

FLAGS = "gimsu"


def replace(text: str, pattern: str, replacement: str, flags: str, *, max_size: int, deadline: Deadline) -> str:
    """Return `text.replace(new RegExp(pattern, flags), replacement)`; raise EditNotFound if nothing matches."""
    translated, compiled = _compile(pattern, flags)
    expand = _make_expander(replacement, translated)
    seconds = min(REGEX_TIMEOUT_SECONDS, deadline.remaining)
    done, size, pieces = 0, 0, list[str]()
    try:
        for match in _matches(compiled, text, seconds):
            start, end = match.span()
            expanded = expand(match)
            pieces += text[done:start], expanded
            size += start - done + len(expanded)
            if size > max_size:
                raise TooLarge(f"The result would be larger than {max_size} bytes.")
            done = end
            if "g" not in flags:
                break
    except TimeoutError:
        raise TimedOut(
            f"The pattern took longer than {seconds:.1g} s.",
            hint="Avoid nested repetition such as (a+)+, or edit by line numbers.",
        ) from None
    except MemoryError:
        raise InvalidArgument(
            "The pattern needs too much memory on this file.", hint="Repeat less at once, or edit by line numbers."
        ) from None
    if not pieces:
        raise EditNotFound(
            "The pattern matches nothing.", hint="Read the file; nothing was changed.", pattern=_shorten(pattern)
        )
    pieces.append(text[done:])
    return "".join(pieces)


def _matches(compiled: regex.Pattern[str], text: str, seconds: float) -> Iterator[regex.Match[str]]:
    stop = time.monotonic() + seconds
    position, nothing_at = 0, -1
    while position <= len(text):
        # A timeout of 0 would mean no timeout.
        left = max(stop - time.monotonic(), 0.001)
        for match in compiled.finditer(text, position, concurrent=True, timeout=left):
            if time.monotonic() >= stop:
                raise TimeoutError
            start, end = match.span()
            if start == nothing_at:
                # After an empty match JavaScript goes on with the next character; the regex module tries here again.
                position = start + 1
                break
            nothing_at = end if start == end else -1
            yield match
        else:
            return


def _compile(pattern: str, flags: str) -> tuple[TranslatedPattern, regex.Pattern[str]]:
    if set(flags) - set(FLAGS) or len(set(flags)) != len(flags):
        raise InvalidArgument(
            f"Unknown or repeated regex flags: {flags!r}.", hint=f"Known flags: {', '.join(FLAGS)}.", flags=flags
        )
    translated = translate(pattern, flags)
    try:
        return translated, regex.compile(translated.source, regex.VERSION0, cache_pattern=False)
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise InvalidArgument(
            f"The pattern cannot be used: {type(error).__name__}.", pattern=_shorten(pattern)
        ) from None


def _shorten(pattern: str) -> str:
    return pattern if len(pattern) <= 80 else f"{pattern[:80]}..."


def _make_expander(replacement: str, translated: TranslatedPattern) -> Callable[[regex.Match[str]], str]:
    """Return a function that fills in `$1`, `$<name>`, `$&`, `$$`, `` $` `` and `$'`; anything else is literal."""
    if "$" not in replacement:
        return lambda _: replacement
    pieces: list[Callable[[regex.Match[str]], str]] = []

    def literal(text: str) -> Callable[[regex.Match[str]], str]:
        return lambda _: text

    def group(number: int) -> Callable[[regex.Match[str]], str]:
        key = f"g{number}" if number else 0
        return lambda match: match.group(key) or ""

    position = 0
    while position < len(replacement):
        dollar = replacement.find("$", position)
        if dollar < 0 or dollar + 1 == len(replacement):
            pieces.append(literal(replacement[position:]))
            break
        if dollar > position:
            pieces.append(literal(replacement[position:dollar]))
        following = replacement[dollar + 1]
        position = dollar + 2
        if following == "$":
            pieces.append(literal("$"))
        elif following == "&":
            pieces.append(group(0))
        elif following == "`":
            pieces.append(lambda match: match.string[: match.start()])
        elif following == "'":
            pieces.append(lambda match: match.string[match.end() :])
        elif following == "<" and translated.names and (end := replacement.find(">", position)) > 0:
            name = replacement[position:end]
            pieces.append(group(translated.names[name]) if name in translated.names else literal(""))
            position = end + 1
        elif number := _group_number(replacement[dollar + 1 : dollar + 3], translated.groups):
            pieces.append(group(int(number)))
            position = dollar + 1 + len(number)
        else:
            pieces.append(literal("$"))
            position = dollar + 1
    return lambda match: "".join(piece(match) for piece in pieces)


def _group_number(digits: str, groups: int) -> str | None:
    """Return the two digits, or else the one, that name a group, as JavaScript reads `$10`."""
    for length in (2, 1):
        candidate = digits[:length]
        if len(candidate) == length and candidate.isascii() and candidate.isdigit() and 1 <= int(candidate) <= groups:
            return candidate
    return None
