"""Takes credentials out of text, in every form in which they could appear there. Pure.

Two kinds: secrets that are known (as they are, percent-encoded, in base64 alone or as a part of something longer, also
broken into lines), and what looks like one (`user:secret@host`, an Authorization header, GitHub's tokens).

No pattern may take longer than the text is long: what is redacted was written by others.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator

MASK = "***"
_BREAK = r"[\r\n\t ]*"
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")
_SHORTEST_CORE = 4
_KIND = "(?:basic|bearer|token) "
_LOOKS_LIKE_ONE = (
    # Everything up to the last `@` before the path: a secret may itself hold `@` and `:`. `git@` is nobody's secret,
    # and neither is `Bearer $TOKEN`.
    (
        "://",
        re.compile(r"(?i)([a-z0-9+.]://)(?!git@[^\s/?#'\"<>@]{1,255}(?:[\s/?#'\"<>]|$))[^\s/?#'\"<>]{1,4096}@"),
        rf"\1{MASK}@",
    ),
    (
        "authorization",
        # Without the kind it must look like a secret: `def call(authorization: str)` is no header.
        re.compile(
            rf"(?i)\b(authorization[ \t]{{0,8}}[:=][ \t]{{0,8}})(?:({_KIND})(?![$<{{%])[^\s'\"]+|[\w+/=.~-]{{16,}})"
        ),
        rf"\1\2{MASK}",
    ),
    ("gh", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{16,255})"), MASK),
    ("github_pat_", re.compile(r"\bgithub_pat_[A-Za-z0-9_]{16,255}"), MASK),
    # Looked at once for each run of such characters: it may begin with `eyJ-eyJ-eyJ-`, and from each of them go on.
    (
        "eyj",
        re.compile(r"(?<![\w-])(?=[\w-]+\.eyJ[\w-]{8,}\.[\w-]{8})((?:[\w-]*?-)??)eyJ[\w-]{8,}\.[\w-]+\.[\w-]+"),
        rf"\1{MASK}",
    ),
)
"""What a text must hold in small letters to be looked at closely, the pattern, and what it becomes."""


class Redactor:
    """`redactor(text)` is the text without the secrets."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._plain = _any(form for secret in known for form in _plain(secret))
        self._base64 = _any(form for secret in known for form in _encoded(secret))

    def __call__(self, text: str) -> str:
        if self._base64 is not None:
            text = _without_runs(text, self._base64)
        if self._plain is not None:
            text = self._plain.sub(MASK, text)
        small = text.lower()
        for mark, pattern, replacement in _LOOKS_LIKE_ONE:
            if mark in small:
                text = pattern.sub(replacement, text)
        return text


def _any(forms: Iterable[str]) -> re.Pattern[str] | None:
    joined = "|".join(forms)
    return re.compile(joined) if joined else None


def _plain(secret: str) -> Iterator[str]:
    if not secret.isascii():
        yield re.escape(secret)
    yield "".join(map(_percent, secret.encode("utf-8", "surrogateescape")))


def _percent(byte: int) -> str:
    """A byte as itself or percent-encoded, once or several times over."""
    encoded = f"%(?:25)*(?i:{byte:02x})"
    plus = r"|\+|%(?:25)*(?i:2b)" if byte == 0x20 else ""
    return f"(?:{re.escape(chr(byte))}|{encoded}{plus})" if byte < 0x80 else encoded


def _encoded(secret: str) -> Iterator[str]:
    """In base64 the same bytes look different after none, one or two others."""
    data = secret.encode("utf-8", "surrogateescape")
    for offset in range(3):
        core = _core(data, offset)
        if len(core) >= _SHORTEST_CORE:
            yield _BREAK.join(map(_character, core))


def _core(data: bytes, offset: int) -> str:
    """The characters that `data` has in base64 after `offset` other bytes, whatever stands before and after it."""
    encoded = base64.b64encode(b"\0" * offset + data).decode().rstrip("=")
    start = (offset * 8 + 5) // 6
    end = (offset + len(data)) * 8 // 6
    return encoded[start:end]


def _character(character: str) -> str:
    return {"+": r"[+\-]", "/": "[/_]"}.get(character, character)


def _without_runs(text: str, pattern: re.Pattern[str]) -> str:
    """Without what is found and what is attached to it: the characters beside it hold bits of the secret too."""
    kept: list[str] = []
    done = 0
    for match in pattern.finditer(text):
        start, end = match.span()
        if start < done:
            continue
        while start > done and text[start - 1] in _BASE64:
            start -= 1
        while end < len(text) and (text[end] in _BASE64 or text[end] == "="):
            end += 1
        kept += [text[done:start], MASK]
        done = end
    return "".join((*kept, text[done:])) if kept else text
