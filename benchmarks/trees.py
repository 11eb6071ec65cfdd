"""Trees of files to measure on. The same number always gives the same tree, and a tree that is there is not made again.

A tree for searching looks like a project: folders of 50 files of some 2.5 KB of words. Every fifth file has six lines
with the needle, so that even 100 files hold more matches than the 100 that are returned.
"""

from __future__ import annotations

import random
from pathlib import Path

NEEDLE = "measure_the_needle"
NEEDLE_REGEX = r"measure_\w+_needle\(\d+\)"
FILES_PER_FOLDER = 50
_LINES = 64
WORDS = "value result index buffer handler request answer folder entry number object config return import".split()


def sources(parent: Path, files: int) -> Path:
    """Create a tree to search: `files` files in two levels of folders."""
    tree = parent / f"sources-{files}"
    if tree.exists():
        return tree
    texts = [_text(number, with_needle=number % 5 == 0) for number in range(100)]
    for number in range(files):
        folder = tree / f"area{number // FILES_PER_FOLDER // 20:02}" / f"part{number // FILES_PER_FOLDER % 20:02}"
        if number % FILES_PER_FOLDER == 0:
            folder.mkdir(parents=True)
        (folder / f"module_{number:05}.py").write_bytes(texts[number % len(texts)])
    return tree


def names(parent: Path, files: int) -> Path:
    """Create a tree to list: `files` small files, 100 in a folder."""
    tree = parent / f"names-{files}"
    for number in range(files):
        if number % 100 == 0:
            folder = tree / f"group{number // 10_000:02}" / f"folder{number // 100 % 100:02}"
            folder.mkdir(parents=True)
        (folder / f"file_{number:06}.txt").write_bytes(b"x\n")
    return tree


def folder(parent: Path, files: int) -> Path:
    """One folder with `files` files of 1 KB."""
    made = parent / f"folder-{files}"
    made.mkdir()
    for number in range(files):
        (made / f"file_{number:03}.py").write_bytes(b"# " + b"x" * 1021 + b"\n")
    return made


def text_of_4k() -> str:
    """4,096 characters in 64 lines."""
    return "".join(f"line {number:04} ".ljust(63, "x") + "\n" for number in range(64))


def _text(seed: int, *, with_needle: bool) -> bytes:
    choose = random.Random(seed)
    lines = [" ".join(choose.choices(WORDS, k=6)) for _ in range(_LINES)]
    if with_needle:
        for place in (3, 7, 20, 30, 41, 60):
            lines[place] = f"    return {NEEDLE}({seed + place})"
    return ("\n".join(lines) + "\n").encode()
