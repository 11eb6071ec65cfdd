"""regexReplace as JavaScript understands it, on the `regex` module for its timeout.

The protocol's examples are JavaScript, and the differences bite: Python's `.` matches `\r`, so `x.*$` would eat the
line endings of a CRLF file, and its `$` also matches before a final newline. Those two, `^`, and the few notations that
differ are translated; everything else is the same in both.
"""

from __future__ import annotations

from collections.abc import Callable

import regex

from wap_kernel.errors import EditNotFound, InvalidArgument, TimedOut, TooLarge

TIMEOUT_SECONDS = 2.0
MAX_PATTERN = 10_000
FLAGS = {"g": 0, "i": regex.IGNORECASE, "m": 0, "s": 0, "u": 0}

_TERMINATORS = "\\n\\r\\u2028\\u2029"


def replace(text: str, pattern: str, replacement: str, flags: str, *, max_size: int) -> str:
    """`text.replace(new RegExp(pattern, flags), replacement)`, except that no match is an error, not a shrug."""
    compiled = _compile(pattern, flags)
    expand = _expander(replacement, compiled)
    room = max_size

    def bounded(match: regex.Match[str]) -> str:
        nonlocal room
        expanded = expand(match)
        room -= len(expanded)
        if room < 0:
            raise TooLarge(f"The result would be larger than {max_size} bytes.")
        return expanded

    try:
        result, count = compiled.subn(
            bounded, text, count=0 if "g" in flags else 1, concurrent=True, timeout=TIMEOUT_SECONDS
        )
    except TimeoutError:
        raise TimedOut(
            f"The pattern took longer than {TIMEOUT_SECONDS:g} s.",
            hint="Avoid nested repetition such as (a+)+, or edit by line numbers.",
        ) from None
    if not count:
        raise EditNotFound(
            f"The pattern matches nothing: {_shortened(pattern)}", hint="Read the file; nothing was changed."
        )
    return str(result)


def _compile(pattern: str, flags: str) -> regex.Pattern[str]:
    unknown = sorted(set(flags) - set(FLAGS))
    if unknown or len(set(flags)) != len(flags):
        raise InvalidArgument(
            f"Unknown or repeated regex flags: {flags!r}.", hint=f"Known flags: {', '.join(FLAGS)}.", flags=flags
        )
    if len(pattern) > MAX_PATTERN:
        raise InvalidArgument(f"The pattern is longer than {MAX_PATTERN} characters.")
    options = regex.VERSION0
    for flag in flags:
        options |= FLAGS[flag]
    try:
        return regex.compile(_translate(pattern, flags), options)
    except (regex.error, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"Invalid regex pattern: {error}", pattern=_shortened(pattern)) from None


def _shortened(pattern: str) -> str:
    return pattern if len(pattern) <= 80 else f"{pattern[:80]}..."


def _translate(pattern: str, flags: str) -> str:
    """The pattern in Python's notation."""
    anchors = {
        ".": "(?s:.)" if "s" in flags else f"[^{_TERMINATORS}]",
        "^": f"(?:\\A|(?<=[{_TERMINATORS}]))" if "m" in flags else "\\A",
        "$": f"(?:\\Z|(?=[{_TERMINATORS}]))" if "m" in flags else "\\Z",
    }
    out: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            token, position = _escape(pattern, position)
            out.append(token)
        elif character == "[":
            token, position = _character_class(pattern, position)
            out.append(token)
        else:
            out.append(anchors.get(character, character))
            position += 1
    return "".join(out)


def _escape(pattern: str, position: int) -> tuple[str, int]:
    following = pattern[position + 1 : position + 2]
    if following == "u" and pattern[position + 2 : position + 3] == "{":
        end = pattern.find("}", position)
        digits = pattern[position + 3 : end]
        if end > 0 and digits and all(digit in "0123456789abcdefABCDEF" for digit in digits) and len(digits) <= 6:
            return f"\\U{int(digits, 16):08x}", end + 1
    if following == "k" and pattern[position + 2 : position + 3] == "<":
        end = pattern.find(">", position)
        if end > 0:
            return f"(?P={pattern[position + 3 : end]})", end + 1
    if following == "0":
        return "\\x00", position + 2
    if following == "/":
        return "/", position + 2
    return pattern[position : position + 2], position + 2


def _character_class(pattern: str, position: int) -> tuple[str, int]:
    start = position
    position += 1
    negated = pattern[position : position + 1] == "^"
    position += negated
    if pattern[position : position + 1] == "]":  # `[]` never matches and `[^]` always does, unlike in Python
        return ("(?s:.)" if negated else "(?!)"), position + 1
    out = [pattern[start:position]]
    while position < len(pattern) and pattern[position] != "]":
        if pattern[position] == "\\":
            if pattern[position + 1 : position + 2] == "b":
                token, position = "\\x08", position + 2
            else:
                token, position = _escape(pattern, position)
            out.append(token)
        else:
            out.append("\\[" if pattern[position] == "[" else pattern[position])
            position += 1
    out.append(pattern[position : position + 1])
    return "".join(out), position + 1


def _expander(replacement: str, compiled: regex.Pattern[str]) -> Callable[[regex.Match[str]], str]:
    """A function that fills `$1`, `$<name>`, `$&`, `$$`, `` $` `` and `$'` in; anything else is literal."""
    pieces: list[Callable[[regex.Match[str]], str]] = []

    def literal(text: str) -> Callable[[regex.Match[str]], str]:
        return lambda _: text

    def group(key: int | str) -> Callable[[regex.Match[str]], str]:
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
        elif following == "<" and compiled.groupindex and ">" in replacement[position:]:
            end = replacement.index(">", position)
            name = replacement[position:end]
            pieces.append(group(name) if name in compiled.groupindex else literal(""))
            position = end + 1
        elif number := _group_number(replacement[dollar + 1 : dollar + 3], compiled.groups):
            pieces.append(group(int(number)))
            position = dollar + 1 + len(number)
        else:
            pieces.append(literal(f"${following}"))
    return lambda match: "".join(piece(match) for piece in pieces)


def _group_number(digits: str, groups: int) -> str | None:
    """The longest of one or two digits that names a group, as JavaScript reads `$10`."""
    for length in (2, 1):
        candidate = digits[:length]
        if len(candidate) == length and candidate.isascii() and candidate.isdigit() and 1 <= int(candidate) <= groups:
            return candidate
    return None
