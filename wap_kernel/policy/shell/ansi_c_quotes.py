r"""Decode `$'...'`: quotes in which bash reads escapes, so that `$'\163udo'` is `sudo`. Pure."""

from __future__ import annotations

import re

QUOTED = re.compile(rb"\$'((?:[^\\']|\\.)*)'", re.DOTALL)
_ESCAPE = re.compile(
    rb"""\\(?:
        (?P<octal>[0-7]{1,3})
      | x(?P<hex>[0-9A-Fa-f]{1,2})
      | x\{(?P<braced>[0-9A-Fa-f]*)\}?
      | u(?P<short>[0-9A-Fa-f]{1,4})
      | U(?P<long>[0-9A-Fa-f]{1,8})
      | c(?P<control>\\\\|.)
      | (?P<letter>[abeEfnrtv\\'"?])
    )""",
    re.DOTALL | re.VERBOSE,
)
_LETTERS = dict(zip(b"abeEfnrtv", b"\a\b\x1b\x1b\f\n\r\t\v", strict=True))


def decode_ansi_c(inner: bytes) -> bytes:
    """Return the text that bash makes of `inner`, between `$'` and `'`; it ends at the first NUL, as in C."""
    return _ESCAPE.sub(_character, inner).partition(b"\0")[0]


def _character(found: re.Match[bytes]) -> bytes:
    kind, value = found.lastgroup, found[found.lastgroup or 0]
    if kind == "letter":
        return bytes([_LETTERS.get(value[0], value[0])])
    if kind == "control":
        return bytes([0x7F if value == b"?" else value[0] & 0x1F])
    if kind in ("short", "long"):
        point = int(value, 16)
        return chr(point).encode(errors="replace") if point < 0x110000 else b"?"
    return bytes([int(value or b"0", 8 if kind == "octal" else 16) & 0xFF])


def expand_ansi_c(text: str) -> str:
    """Return the text with such quotes decoded, to search for names."""
    if "$'" not in text:
        return text
    raw = text.encode(errors="surrogatepass")
    return QUOTED.sub(lambda found: decode_ansi_c(found[1]), raw).decode(errors="replace")
