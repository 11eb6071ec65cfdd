"""Mask credentials in text. Pure.

There are two kinds: known secrets (`known_secrets.py`), and text that matches a pattern of credentials
(`user:secret@host`, an Authorization header, GitHub's tokens).

Every pattern takes linear time, since others wrote the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from wap_kernel.redaction.known_secrets import MASK, KnownSecrets


def _replace_userinfo(match: re.Match[str]) -> str:
    start, user = match[1], match[0][len(match[1]) : -1]
    return f"{start}{MASK}@" if ":" in user else match[0]


def _replace_header(match: re.Match[str]) -> str:
    """Return the replacement of a header; deciding here and not in the pattern avoids a second pass over the run."""
    run = match[3]
    if run is not None and (match[4] or not _DIGIT.search(run) or not _LETTER.search(run)):
        return match[0]
    return f"{match[1]}{match[2] or ''}{MASK}"


_DIGIT, _LETTER = re.compile(r"\d"), re.compile("[A-Za-z]")
_KIND = "(?:basic|bearer|token) "
_OF_USER = r"(?:[^\s/?#'\"<>]|(?<=\w)['\"](?=\w))"
"""A quote within a word is a part of it; one beside anything else ends what it quotes."""
_PLACEHOLDER = r"[^\s/?#'\"@:]{0,256}:(?:\$\w{1,64}|\$?\{[^{}\s]{0,64}\}|<[^<>\s]{0,64}>)@"
_MAIL = "mailto|to|cc|bcc|from|reply-to|author|e-?mail|mail|contact|maintainer|sips?|xmpp|acct"
_RUN = r"[\w+/=.~-]"
_CREDENTIAL_PATTERNS = (
    # Everything up to the last `@` before the path: a secret may itself hold `@` and `:`. `git@` is nobody's secret,
    # and neither is `Bearer $TOKEN`.
    (
        "://",
        re.compile(
            rf"(?i)([a-z0-9+.]://)(?!git@[^\s/?#'\"<>@]{{1,255}}(?:[\s/?#'\"<>]|$))(?!{_PLACEHOLDER}){_OF_USER}{{1,4096}}@"
        ),
        rf"\1{MASK}@",
    ),
    # An address that was taken for a path has lost a slash, and one without its scheme begins with two. There it takes
    # a user and a secret to look like one: `C:/a@b` is a file.
    (
        "@",
        re.compile(rf"(?i)([a-z0-9+.]:/|(?<![\w:/])//)(?![/:])(?!{_PLACEHOLDER}){_OF_USER}{{1,4096}}@"),
        _replace_userinfo,
    ),
    # With neither: what stands before the host must look like a secret, since addresses of people and versions of
    # packages (`npm:x@1.2.3`, `image:tag@sha256:...`) are no secrets.
    (
        "@",
        re.compile(
            rf"(?<![\w.@/:-])(?!(?i:{_MAIL}):)([A-Za-z][\w.-]{{0,63}}:)"
            r"(?=[^\s:@/]{0,256}\d)(?=[^\s:@/]{0,256}[A-Za-z])[^\s:@/'\"<>(){}$]{8,256}"
            r"(?=@(?:[\w-]{1,63}\.(?:[\w-]{1,63}\.){0,8}[A-Za-z]{2,24}(?![\w.])|(?!sha\d)[A-Za-z][\w-]{0,62}[:/]))"
        ),
        rf"\1{MASK}",
    ),
    (
        "authorization",
        # Without the kind it must look like a secret: `authorization = request.headers.get(...)` is no header.
        re.compile(
            rf"\b((?i:authorization)[\"']?\]?[ \t]{{0,8}}[:=][ \t]{{0,8}}[\"']?)"
            rf"(?:((?i:{_KIND}))(?![$<{{%])[^\s'\"]+|({_RUN}{{16,}})(\(?))"
        ),
        _replace_header,
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
"""A marker that a lower-case text must hold for the pattern to apply, the pattern, and the replacement."""


class Redactor:
    """A callable that returns a text with its credentials masked."""

    def __init__(self, secrets: Iterable[str] = (), fragments: Iterable[str] = ()) -> None:
        self.known = KnownSecrets(secrets, fragments)

    def __call__(self, text: str) -> str:
        text = self.known.mask(text)
        small = text.lower()
        for mark, pattern, replacement in _CREDENTIAL_PATTERNS:
            if mark in small:
                text = pattern.sub(replacement, text)
        return text
