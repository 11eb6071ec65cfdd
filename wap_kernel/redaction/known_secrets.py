"""Find and mask known secrets in every encoding in which a text may hold them. Pure.

The forms are: the secret itself, percent-encoded, in base64, alone or within a longer value, also broken into lines.
Patterns for these forms are slow, and texts have megabytes, nearly always without any secret. So a search for the bytes
that every match must hold comes first.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from urllib.parse import quote

MASK = "***"
MAX_TAIL_CHARACTERS = 6000
"""Characters at the end of a text that are searched for a partial secret; longer than any credential."""
_LONGEST_FORM = 6
"""Characters of a form for one character of the secret: percent-encoded twice, or on a line of its own."""
_BREAK = r"[\r\n\t ]*"
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")
_ONE_ALPHABET = bytes.maketrans(b"-_", b"+/")
_SHORTEST_CORE = 4
_NEAR = 256
"""Characters at the end of a text that hold the first few characters of a form even when lines break them."""
_PART_OF_PERCENT = re.compile(r"%(?:25)*[0-9a-fA-F]?\Z")
_PART_OF_BREAK = re.compile(rf"{_BREAK}\Z")


class _Form:
    """One form of a secret, as the patterns of its characters.

    A key has thousands of characters, so the patterns are compiled on first use.
    """

    def __init__(self, units: Sequence[str], part: re.Pattern[str]) -> None:
        self.beginning = "".join(units[:_SHORTEST_CORE])
        self._pattern = "".join(units)
        compiled = {unit: re.compile(unit) for unit in units}
        self._units = [compiled[unit] for unit in units]
        self._part = part

    @cached_property
    def begins(self) -> re.Pattern[str]:
        return re.compile(self.beginning)

    @cached_property
    def whole(self) -> re.Pattern[str]:
        return re.compile(self._pattern)

    def is_cut(self, text: str, at: int) -> bool:
        """Return whether `text` ends within the form, if the form begins at `at`."""
        for unit in self._units:
            match = unit.match(text, at)
            if match is None:
                return at == len(text) or self._part.match(text, at) is not None
            at = match.end()
        return False


class KnownSecrets:
    """A set of secrets that can be masked in a text.

    `fragments`, such as the lines of a key, are secret too, but masked only as they are and in no other form.
    """

    def __init__(self, secrets: Iterable[str] = (), fragments: Iterable[str] = ()) -> None:
        self._secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._fragments = sorted(set(fragments))
        self._in_json = sorted({json.dumps(secret)[1:-1] for secret in self._secrets}.difference(self._secrets))
        self._percent = [_percent_form(secret) for secret in self._secrets]
        self._base64 = [
            (core.encode("ascii"), _base64_form(core)) for secret in self._secrets for core in _cores(secret)
        ]
        self._forms = (*self._percent, *(form for _, form in self._base64))
        self._begins = _compile_alternatives(f"(?={form.beginning})" for form in self._forms)
        cores = [core.decode("ascii") for core, _ in self._base64]
        firsts = sorted({text[0] for text in (*self._secrets, *cores)}.union("%+-/_"))
        self._first = re.compile(f"[{re.escape(''.join(firsts))}]") if self._secrets else None
        self._tail_length = min(MAX_TAIL_CHARACTERS, _LONGEST_FORM * max(map(len, self._secrets), default=0))
        self._ends = [*self._secrets, *(quote(secret, safe="") for secret in self._secrets), *cores, *self._fragments]

    def mask(self, text: str) -> str:
        """Return `text` with the secrets masked."""
        for form in self._base64_in(text):
            text = _mask_runs(text, form.whole)
        for secret, form in zip(self._secrets, self._percent, strict=True):
            if _is_one_line(secret):
                if "%" in text:
                    lines = text.split("\n")
                    text = "\n".join(form.whole.sub(MASK, line) if "%" in line else line for line in lines)
            elif form.begins.search(text):
                text = form.whole.sub(MASK, text)
        for secret in (*self._secrets, *self._in_json, *self._fragments):
            text = text.replace(secret, MASK)
        return text

    def _base64_in(self, text: str) -> list[_Form]:
        if not self._base64:
            return []
        squeezed = text.encode("utf-8", "surrogatepass").translate(_ONE_ALPHABET, b"\r\n\t ")
        return [form for core, form in self._base64 if core in squeezed]

    def open_end(self, text: str) -> int:
        """Return the offset of a partial secret at the end of `text`, or its length if there is none."""
        end = len(text) - self._open_fragment(text)
        if self._first is None:
            return end
        tail = text[-self._tail_length :]
        for start in self._starts(tail):
            if any(form.is_cut(tail, start) for form in self._forms):
                return min(end, len(text) - len(tail) + start)
        return end

    def _open_fragment(self, text: str) -> int:
        """Return how many characters at the end may begin a fragment; a few could begin anything and do not count."""
        sizes = (
            size
            for fragment in self._fragments
            for size in range(min(len(fragment) - 1, len(text)), _SHORTEST_CORE - 1, -1)
            if text.endswith(fragment[:size])
        )
        return max(sizes, default=0)

    def _starts(self, tail: str) -> Iterator[int]:
        """Yield the offsets where a form may begin; near the end every possible first character counts."""
        assert self._begins is not None and self._first is not None
        near = max(0, len(tail) - _NEAR)
        for match in self._begins.finditer(tail):
            if match.start() >= near:
                break
            yield match.start()
        yield from (match.start() for match in self._first.finditer(tail, near))

    def open_start(self, text: str) -> int:
        """Return the end of a partial secret at the start of `text`, or 0 if there is none."""
        for form in self._ends:
            for size in range(min(len(form) - 1, len(text)), _SHORTEST_CORE - 1, -1):
                if text.startswith(form[-size:]):
                    return size
        return 0


def _compile_alternatives(forms: Iterable[str]) -> re.Pattern[str] | None:
    joined = "|".join(forms)
    return re.compile(joined) if joined else None


def _is_one_line(secret: str) -> bool:
    return not any(character.isspace() for character in secret)


def _percent_form(secret: str) -> _Form:
    units = [_percent(byte) for byte in secret.encode("utf-8", "surrogateescape")]
    return _Form(units, _PART_OF_PERCENT)


def _percent(byte: int) -> str:
    """Return a pattern for a byte as itself or percent-encoded, once or several times."""
    encoded = f"%(?:25)*(?i:{byte:02x})"
    plus = r"|\+|%(?:25)*(?i:2b)" if byte == 0x20 else ""
    return f"(?:{re.escape(chr(byte))}|{encoded}{plus})" if byte < 0x80 else encoded


def _cores(secret: str) -> Iterator[str]:
    """Yield the base64 forms of `secret` after none, one or two other bytes, which differ."""
    data = secret.encode("utf-8", "surrogateescape")
    for offset in range(3):
        core = _core(data, offset)
        if len(core) >= _SHORTEST_CORE:
            yield core


def _core(data: bytes, offset: int) -> str:
    """Return the base64 characters of `data` after `offset` other bytes that do not depend on its neighbours."""
    encoded = base64.b64encode(b"\0" * offset + data).decode().rstrip("=")
    start = (offset * 8 + 5) // 6
    end = (offset + len(data)) * 8 // 6
    return encoded[start:end]


def _base64_form(core: str) -> _Form:
    first, *others = ({"+": r"[+\-]", "/": "[/_]"}.get(character, character) for character in core)
    return _Form([first, *(f"{_BREAK}{other}" for other in others)], _PART_OF_BREAK)


def _mask_runs(text: str, pattern: re.Pattern[str]) -> str:
    """Mask the matches with the base64 characters next to them, which hold bits of the secret too."""
    parts: list[str] = []
    done = 0
    for match in pattern.finditer(text):
        start, end = match.span()
        if start < done:
            continue
        while start > done and text[start - 1] in _BASE64:
            start -= 1
        while end < len(text) and (text[end] in _BASE64 or text[end] == "="):
            end += 1
        parts += [text[done:start], MASK]
        done = end
    return "".join((*parts, text[done:])) if parts else text


NO_SECRETS = KnownSecrets()
