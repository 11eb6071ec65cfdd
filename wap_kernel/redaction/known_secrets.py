"""Secrets that are known, and the forms in which they could stand in a text: as they are, percent-encoded, in base64
alone or as a part of something longer, also broken into lines. Pure.

Patterns for these forms are slow, and texts have megabytes, nearly always without any secret. So what every match must
hold is looked for first, by what looks for plain bytes.
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
"""Characters of a text's end that are looked at; longer than any credential."""
_LONGEST_FORM = 6
"""Characters of a form to one of the secret, at the end of a piece: percent-encoded twice over, or a line for each."""
_BREAK = r"[\r\n\t ]*"
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")
_ONE_ALPHABET = bytes.maketrans(b"-_", b"+/")
_SHORTEST_CORE = 4
_NEAR = 256
"""Characters at a text's end, in which the first few of a form have room even when they are broken into lines."""
_PART_OF_PERCENT = re.compile(r"%(?:25)*[0-9a-fA-F]?\Z")
_PART_OF_BREAK = re.compile(rf"{_BREAK}\Z")


class _Form:
    """One form, as the patterns of its characters. A key has thousands, so what takes long is made when it is used."""

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
        """Whether the text ends within it, if it begins at `at`."""
        for unit in self._units:
            match = unit.match(text, at)
            if match is None:
                return at == len(text) or self._part.match(text, at) is not None
            at = match.end()
        return False


class KnownSecrets:
    """`fragments` are secret too, but looked for as they are and in no other form: the lines of a key."""

    def __init__(self, secrets: Iterable[str] = (), fragments: Iterable[str] = ()) -> None:
        self._plain = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._fragments = sorted(set(fragments))
        self._in_json = sorted({json.dumps(secret)[1:-1] for secret in self._plain}.difference(self._plain))
        self._percent = [_percent_form(secret) for secret in self._plain]
        self._base64 = [(core.encode("ascii"), _base64_form(core)) for secret in self._plain for core in _cores(secret)]
        self._forms = (*self._percent, *(form for _, form in self._base64))
        self._begins = _any(f"(?={form.beginning})" for form in self._forms)
        cores = [core.decode("ascii") for core, _ in self._base64]
        firsts = sorted({text[0] for text in (*self._plain, *cores)}.union("%+-/_"))
        self._first = re.compile(f"[{re.escape(''.join(firsts))}]") if self._plain else None
        self._held = min(MAX_TAIL_CHARACTERS, _LONGEST_FORM * max(map(len, self._plain), default=0))
        self._ends = [*self._plain, *(quote(secret, safe="") for secret in self._plain), *cores, *self._fragments]

    def without(self, text: str) -> str:
        """`text` without them."""
        for form in self._base64_in(text):
            text = _without_runs(text, form.whole)
        for secret, form in zip(self._plain, self._percent, strict=True):
            if _is_one_line(secret):
                if "%" in text:
                    lines = text.split("\n")
                    text = "\n".join(form.whole.sub(MASK, line) if "%" in line else line for line in lines)
            elif form.begins.search(text):
                text = form.whole.sub(MASK, text)
        for secret in (*self._plain, *self._in_json, *self._fragments):
            text = text.replace(secret, MASK)
        return text

    def _base64_in(self, text: str) -> list[_Form]:
        if not self._base64:
            return []
        squeezed = text.encode("utf-8", "surrogatepass").translate(_ONE_ALPHABET, b"\r\n\t ")
        return [form for core, form in self._base64 if core in squeezed]

    def open_end(self, text: str) -> int:
        """Where that begins which may be the first part of one; the length of `text` if there is nothing."""
        end = len(text) - self._open_fragment(text)
        if self._first is None:
            return end
        tail = text[-self._held :]
        for start in self._starts(tail):
            if any(form.is_cut(tail, start) for form in self._forms):
                return min(end, len(text) - len(tail) + start)
        return end

    def _open_fragment(self, text: str) -> int:
        """How much at the end begins one of the fragments; a few characters could begin anything."""
        sizes = (
            size
            for fragment in self._fragments
            for size in range(min(len(fragment) - 1, len(text)), _SHORTEST_CORE - 1, -1)
            if text.endswith(fragment[:size])
        )
        return max(sizes, default=0)

    def _starts(self, tail: str) -> Iterator[int]:
        """Where one may begin. Near the end so little of it may be there that every place is one."""
        assert self._begins is not None and self._first is not None
        near = max(0, len(tail) - _NEAR)
        for match in self._begins.finditer(tail):
            if match.start() >= near:
                break
            yield match.start()
        yield from (match.start() for match in self._first.finditer(tail, near))

    def open_start(self, text: str) -> int:
        """Where that ends which may be the last part of one; 0 if there is nothing."""
        for form in self._ends:
            for size in range(min(len(form) - 1, len(text)), _SHORTEST_CORE - 1, -1):
                if text.startswith(form[-size:]):
                    return size
        return 0


def _any(forms: Iterable[str]) -> re.Pattern[str] | None:
    joined = "|".join(forms)
    return re.compile(joined) if joined else None


def _is_one_line(secret: str) -> bool:
    return not any(character.isspace() for character in secret)


def _percent_form(secret: str) -> _Form:
    units = [_percent(byte) for byte in secret.encode("utf-8", "surrogateescape")]
    return _Form(units, _PART_OF_PERCENT)


def _percent(byte: int) -> str:
    """A byte as itself or percent-encoded, once or several times over."""
    encoded = f"%(?:25)*(?i:{byte:02x})"
    plus = r"|\+|%(?:25)*(?i:2b)" if byte == 0x20 else ""
    return f"(?:{re.escape(chr(byte))}|{encoded}{plus})" if byte < 0x80 else encoded


def _cores(secret: str) -> Iterator[str]:
    """In base64 the same bytes look different after none, one or two others."""
    data = secret.encode("utf-8", "surrogateescape")
    for offset in range(3):
        core = _core(data, offset)
        if len(core) >= _SHORTEST_CORE:
            yield core


def _core(data: bytes, offset: int) -> str:
    """The characters that `data` has in base64 after `offset` other bytes, whatever stands before and after it."""
    encoded = base64.b64encode(b"\0" * offset + data).decode().rstrip("=")
    start = (offset * 8 + 5) // 6
    end = (offset + len(data)) * 8 // 6
    return encoded[start:end]


def _base64_form(core: str) -> _Form:
    first, *others = ({"+": r"[+\-]", "/": "[/_]"}.get(character, character) for character in core)
    return _Form([first, *(f"{_BREAK}{other}" for other in others)], _PART_OF_BREAK)


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


NO_SECRETS = KnownSecrets()
