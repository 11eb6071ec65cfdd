r"""List other spellings of the same text, so that a search finds a name in each of them. Pure.

`s\<newline>udo`, `$'\163udo'`, `${x:-sudo}` and `s{u,}do` all name sudo. `normalize` returns what bash reads, for a
parser that knows less. `list_spellings` may be wrong about quotes: it is for searches only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wap_kernel.policy.shell import ansi_c_quotes

MAX_WORD = 1024
MAX_STEPS = 256
"""Length and alternatives of one word with braces; no name of a program has more."""
MAX_NESTED = 4
"""Depth of expansions: `${a:-${b:-sudo}}`."""

_TOKEN = re.compile(
    r"""
      (?P<continuation>\\\n)
    | \\.
    | (?<![^\s;&|()])\#[^\n]*
    | \$'(?P<ansi>(?:[^\\']|\\.)*)'
    | '[^']*'
    | (?P<double>"(?:[^\\"]|\\.)*")
    """,
    re.DOTALL | re.VERBOSE,
)
_QUOTES = re.compile(r"[\\'\"]")
_EXPANSION = re.compile(r"\$\{\w+(?::?[-+=](?P<word>[^{}]*))?\}|\$\w+(?=['\"])|\$[@*\d]|``|\$\(\)")
"""Expansions that may stand for their own word, or for nothing at all."""
_SEPARATOR = re.compile(r"\bIFS=([^\s;]+)")
_BRACES = re.compile(r"(?<!\$)\{(?:([^{},\s]*(?:,[^{},\s]*)+)|(\w)\.\.(\w)(?:\.\.[-+]?\d+)?)\}")


def normalize(text: str) -> str:
    """Return the text without continued lines, and with `$'...'` in ordinary quotes."""
    return _TOKEN.sub(_normalize_token, text) if "\\\n" in text or "$'" in text else text


def _normalize_token(found: re.Match[str]) -> str:
    if found["continuation"]:
        return ""
    if found["ansi"] is not None:
        inner = ansi_c_quotes.decode_ansi_c(found["ansi"].encode(errors="surrogatepass")).decode(errors="replace")
        return "'" + inner.replace("'", "'\\''") + "'"
    return found[0].replace("\\\n", "") if found["double"] else found[0]


def list_spellings(text: str) -> tuple[str, ...]:
    """Return the text without quotes, in each way that it may be meant."""
    text = text.replace("\\\n", "")
    texts = [text, ansi_c_quotes.expand_ansi_c(text)]
    texts += map(_without_expansions, texts[:2])
    # `s'u'do` is one word, and `-S'sudo id'` holds one.
    found = [_QUOTES.sub(instead, each) for each in dict.fromkeys(texts) for instead in ("", " ")]
    if marks := "".join(_SEPARATOR.findall(text)):
        found += [each.translate(dict.fromkeys(map(ord, marks), " ")) for each in found]
    return tuple(dict.fromkeys(found))


def _without_expansions(text: str) -> str:
    for _ in range(MAX_NESTED):
        text = _EXPANSION.sub(lambda found: found["word"] or "", text)
    return text


def expand_braced_word(word: str) -> Iterator[str]:
    """Yield the words that the braces of `word` stand for; none for a word without braces."""
    word = word[: word.rfind("}") + 1] + word[word.rfind("}") + 1 :].replace("{", "")  # what is open stays so
    if len(word) > MAX_WORD or not _BRACES.search(word):
        return
    waiting = [word]
    for _ in range(MAX_STEPS):
        if not waiting:
            return
        text = waiting.pop()
        found = _BRACES.search(text)
        if found is None:
            yield text
        else:
            waiting += (text[: found.start()] + each + text[found.end() :] for each in reversed(_alternatives(found)))


def _alternatives(found: re.Match[str]) -> list[str]:
    if found[1] is not None:
        return found[1].split(",")
    first, last = sorted((ord(found[2]), ord(found[3])))
    return [chr(point) for point in range(first, min(last, first + MAX_STEPS) + 1)]
