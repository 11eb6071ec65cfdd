"""Find the lines that a text which does not occur in a file was probably meant for. Pure.

An error shows them to the caller; they are never edited. Two steps, so that a large file costs little: windows of as
many lines as the text has are ranked by the words that they share with it, and only the best are compared character by
character.
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
MAX_COMPARED_CHARACTERS = 4_000
"""Characters of a text that are compared."""
CANDIDATES = 5
MIN_SIMILARITY = 0.4
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class ClosestMatch:
    """Lines of a file that are much like a text."""

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


def find_closest(text: str, wanted: str) -> ClosestMatch | None:
    """Return the lines most like `wanted`, or None if none are much like it."""
    lines = _lines(text)[:MAX_LINES]
    height = max(1, len(_lines(wanted)))
    compared = wanted[:MAX_COMPARED_CHARACTERS]
    matcher = SequenceMatcher(None, b=compared, autojunk=False)
    best: ClosestMatch | None = None
    for start in nlargest(CANDIDATES, *_rank_windows(lines, wanted, height)):
        region = "".join(lines[start : start + height])
        excerpt = region[:MAX_COMPARED_CHARACTERS]
        matcher.set_seq1(excerpt if wanted.endswith("\n") else excerpt.rstrip("\r\n"))
        similarity = matcher.ratio()
        if similarity >= MIN_SIMILARITY and (best is None or similarity > best.similarity):
            best = ClosestMatch(start + 1, min(start + height, len(lines)), excerpt, similarity)
    return best


def _lines(text: str) -> list[str]:
    """Split `text` into lines with their endings; only a newline ends a line."""
    *ended, rest = text.split("\n")
    return [f"{line}\n" for line in ended] + ([rest] if rest else [])


def _rank_windows(lines: list[str], wanted: str, height: int) -> tuple[list[int], Callable[[int], int]]:
    """Return the starts of the windows, and a function that counts the words of `wanted` in each."""
    needed = Counter(_WORD.findall(wanted))
    words = [[word for word in _WORD.findall(line[:MAX_COMPARED_CHARACTERS]) if word in needed] for line in lines]
    counted: Counter[str] = Counter()
    scores: list[int] = []
    score = 0
    for number, entering in enumerate(words):
        for word in entering:
            score += counted[word] < needed[word]
            counted[word] += 1
        if number >= height:
            for word in words[number - height]:
                counted[word] -= 1
                score -= counted[word] < needed[word]
        if number >= height - 1:
            scores.append(score)
    if not scores and lines:
        scores = [score]
    return list(range(len(scores))), scores.__getitem__
