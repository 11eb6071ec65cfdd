"""Find partial credentials where a text was truncated, which no pattern for whole ones matches. Pure."""

from __future__ import annotations

import re
from itertools import islice

from wap_kernel.redaction.known_secrets import MASK, MAX_TAIL_CHARACTERS, NO_SECRETS, KnownSecrets

_BETWEEN = re.compile(r"[\s<>]|(?<=\W)['\"]|['\"](?!\w)")
"""The end of a word in a reversed text: a quote within a word, or at its end, may be a part of it."""
_MAY_GO_ON = re.compile(
    r"(?i):/|:\Z|(?<![\w:/])/(?:\Z|/)|\bau\w{0,10}\Z|\bgi\w{0,9}\Z|\bgh[pousr]?\Z|\bgh[pousr]_|\bgithub_|\bey\Z|\beyj"
    r"|(?<![\w.@/:-])[a-z][\w.-]{0,63}:[^\s:@/]{1,256}(?:@[\w.-]{0,255})?\Z"
)
_LEFT_OUT = re.compile(r"(\n\[\.\.\. \d{1,20} bytes left out \.\.\.\]\n)")
TRUNCATION_MARK = "... [more]"
"""The mark at the end of a truncated text."""
_CUT_WITHIN = re.compile(r"\.\.\. \[(?:\d{1,20} )?more\](?=\n|\Z)|\n\[\.\.\. \d{1,20} characters left out \.\.\.\]\n")
"""The marks of `files/read.py` and of `files/notebooks/read.py`."""
MAX_NOTES = 2100
"""Marks of one text that are checked: a viewed line has at most one, and a view has fewer lines."""
MAX_LEFT_OUT = 20
"""Marks of one output that are checked; an output that the server truncated has one."""
SHORTEST_PART = 8
"""Characters of a partial secret that identify it as one."""
_WORD = r"[^\s'\"<>]"
_REST = re.compile(
    rf"[^\s/?#'\"<>]{{0,4096}}@"  # of `user:secret@host`
    rf"|(?={_WORD}*[0-9])(?={_WORD}*[a-z])(?={_WORD}*[A-Z]){_WORD}{{12,4096}}"  # of a token
)


def find_open_end(text: str, known: KnownSecrets = NO_SECRETS) -> int:
    """Return the offset of a partial credential at the end of `text`, or its length if there is none."""
    return min(_open_end(text), known.open_end(text))


def _open_end(text: str) -> int:
    tail = text[-MAX_TAIL_CHARACTERS:]
    offset = len(text) - len(tail)
    line = max(tail.rfind("\n"), tail.rfind("\r")) + 1
    header = tail.lower().find("authorization", line)
    if header >= 0:
        return offset + header
    last = _BETWEEN.search(tail[::-1])
    word = len(tail) - last.start() if last else 0
    if word == 0 and offset:
        return len(text)
    return offset + word if _MAY_GO_ON.search(tail, word) else len(text)


def has_partial_secret(text: str, known: KnownSecrets) -> bool:
    """Return whether a truncation left a part of a known secret.

    A text may contain such marks of its own, so only so many of them are checked.
    """
    for note in islice(_CUT_WITHIN.finditer(text), MAX_NOTES):
        head = text[max(0, note.start() - MAX_TAIL_CHARACTERS) : note.start()]
        if len(head) - known.open_end(head) >= SHORTEST_PART:
            return True
        if (
            note[0].startswith("\n")
            and known.open_start(text[note.end() : note.end() + MAX_TAIL_CHARACTERS]) >= SHORTEST_PART
        ):
            return True
    return False


def mask_partial_secrets(text: str, known: KnownSecrets = NO_SECRETS) -> str:
    """Mask the partial credentials on both sides of the omitted middle of an output."""
    pieces = _LEFT_OUT.split(text, MAX_LEFT_OUT)
    for index in range(1, len(pieces), 2):
        head, tail = pieces[index - 1], pieces[index + 1]
        end = find_open_end(head, known)
        pieces[index - 1] = head if end == len(head) else head[:end] + MASK
        rest = _REST.match(tail)
        start = max(rest.end() if rest else 0, known.open_start(tail))
        pieces[index + 1] = MASK + tail[start:] if start else tail
    return "".join(pieces)
