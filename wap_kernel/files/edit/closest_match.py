"""Where a text that does not occur in a file was probably meant: shown to whoever asked, never applied. Pure.

Two steps, so that a large file costs little: windows of as many lines as the text has are ranked by the words that they
share with it, and only the best are compared character by character.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nlargest
from typing import Any

MAX_LINES = 50_000
MAX_COMPARED = 4_000
"""Characters of a text that are compared."""
CANDIDATES = 5
LEAST_SIMILARITY = 0.4
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Closest:
    start_line: int
    end_line: int
    text: str
    similarity: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "startLine": self.start_line,
            "endLine": self.end_line,
            "text": self.text,
            "similarity": round(self.similarity, 2),
        }


def closest(text: str, wanted: str) -> Closest | None:
    """The lines most like `wanted`, or None if nothing is much like it."""
    lines = _lines(text)[:MAX_LINES]
    height = max(1, len(_lines(wanted)))
    compared = wanted[:MAX_COMPARED]
    matcher = SequenceMatcher(None, b=compared, autojunk=False)
    best: Closest | None = None
    for start in nlargest(CANDIDATES, *_ranked(lines, wanted, height)):
        region = "".join(lines[start : start + height])
        shown = region[:MAX_COMPARED]
        matcher.set_seq1(shown if wanted.endswith("\n") else shown.rstrip("\r\n"))
        similarity = matcher.ratio()
        if similarity >= LEAST_SIMILARITY and (best is None or similarity > best.similarity):
            best = Closest(start + 1, min(start + height, len(lines)), shown, similarity)
    return best


def _lines(text: str) -> list[str]:
    """With their endings; only a newline ends a line, as everywhere else here."""
    *ended, rest = text.split("\n")
    return [f"{line}\n" for line in ended] + ([rest] if rest else [])


def _ranked(lines: list[str], wanted: str, height: int) -> tuple[list[int], Callable[[int], int]]:
    """The starts of windows, and how many of the wanted words each holds."""
    needed = Counter(_WORD.findall(wanted))
    words = [[word for word in _WORD.findall(line[:MAX_COMPARED]) if word in needed] for line in lines]
    held: Counter[str] = Counter()
    scores: list[int] = []
    score = 0
    for number, entering in enumerate(words):
        for word in entering:
            score += held[word] < needed[word]
            held[word] += 1
        if number >= height:
            for word in words[number - height]:
                held[word] -= 1
                score -= held[word] < needed[word]
        if number >= height - 1:
            scores.append(score)
    if not scores and lines:
        scores = [score]
    return list(range(len(scores))), scores.__getitem__
