"""Trees of other shapes than a project: each makes something else expensive.

A flat one costs the listing of one folder, a deep one the way to every file, one where every file matches the handling
of each match, and one of long lines the reading. Each holds the needle in more lines than an answer has, and the rare
word once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from benchmarks.trees import FILES_PER_FOLDER, NEEDLE, WORDS

RARE = "measure_the_rarity"

_CHAIN = 10
"""Folders of a deep tree that lie in one another."""
_LONG = 1000
"""Words of a long line."""


def flat(tree: Path, files: int) -> None:
    """Create `files` files in one folder; every 50th has the needle."""
    _fill(tree, files, lambda number: ".", lambda number: int(number % 50 == 0))


def deep(tree: Path, files: int) -> None:
    """Create `files` files, 50 in a folder, in chains of ten folders; every 50th has the needle."""

    def choose_folder(number: int) -> str:
        chain, level = divmod(number // FILES_PER_FOLDER, _CHAIN)
        return "/".join([f"chain{chain:03}", *(f"level{below}" for below in range(level))])

    _fill(tree, files, choose_folder, lambda number: int(number % 50 == 0))


def many_matches(tree: Path, files: int) -> None:
    """Create `files` files, 50 in a folder; each has the needle, every fifth twice."""
    _fill(tree, files, _choose_part, lambda number: 1 + (number % 5 == 0))


def long_lines(tree: Path, files: int) -> None:
    """Create a tenth of `files` files, 50 in a folder, of ten times the size in six lines; each has the needle."""
    _fill(tree, files // 10, _choose_part, lambda number: 1, line_words=_LONG, lines=5)


SHAPES: Mapping[str, Callable[[Path, int], None]] = MappingProxyType(
    {"flat": flat, "deep": deep, "many matches": many_matches, "long lines": long_lines}
)


def create_tree(parent: Path, shape: str, files: int) -> Path:
    """Return the tree of a shape, which is made once."""
    tree = parent / f"{shape.replace(' ', '-')}-{files}"
    if not tree.exists():
        SHAPES[shape](tree, files)
    return tree


def _choose_part(number: int) -> str:
    return f"part{number // FILES_PER_FOLDER:03}"


def _fill(
    tree: Path,
    files: int,
    choose_folder: Callable[[int], str],
    count_needles: Callable[[int], int],
    *,
    line_words: int = 6,
    lines: int = 64,
) -> None:
    texts = [_make_text(seed, line_words, lines) for seed in range(100)]
    made: set[str] = set()
    for number in range(files):
        folder = choose_folder(number)
        if folder not in made:
            made.add(folder)
            (tree / folder).mkdir(parents=True, exist_ok=True)
        words = [NEEDLE] * count_needles(number) + [RARE] * (number == files // 2)
        lead = " ".join(["value"] * line_words)
        found = "".join(f"{lead} {word}({number})\n" for word in words)
        (tree / folder / f"module_{number:05}.py").write_bytes(texts[number % len(texts)] + found.encode())


def _make_text(seed: int, line_words: int, lines: int) -> bytes:
    choose = random.Random(seed)
    return "".join(" ".join(choose.choices(WORDS, k=line_words)) + "\n" for _ in range(lines)).encode()
