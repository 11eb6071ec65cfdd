"""Looking for a literal in process: faster than starting rg, as long as there is little to read and little to find.

rg is the judge of everything bigger, so this gives up early. Python holds the interpreter's lock line by line, and
other threads of the server wait for it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass

from wap_kernel.files.interface import Files, OpenFile
from wap_kernel.files.search.line_scanner import Hit, column_in, hits
from wap_kernel.files.search.match_rows import rows
from wap_kernel.files.search.selection import Selection
from wap_kernel.files.tree_walk import open_real, unless_gone
from wap_kernel.model.deadline import Deadline
from wap_kernel.model.paths import join_path, render_path
from wap_kernel.model.results import SearchMatch, SearchResult

FILE_BUDGET = 500
BYTE_BUDGET = 16 * 1024 * 1024
LINE_BUDGET = 10_000
"""What is searched, and found, before rg is faster."""


_FOLDED_TO_ASCII = {b"k": "\u212a".encode(), b"s": "\u017f".encode()}
"""The Kelvin sign and the long s: all that Unicode takes for another case of a letter of ASCII."""


@dataclass(frozen=True)
class Literal:
    """What to look for. `folded`: it is ASCII in lower case, and is found in either."""

    text: bytes
    folded: bool = False

    def searchable(self, data: bytes) -> bytes | None:
        """`data` as it is to be searched, every byte in its place; None if that needs to know more than ASCII."""
        if not self.folded:
            return data
        if any(letter in self.text and other in data for letter, other in _FOLDED_TO_ASCII.items()):
            return None
        return data.lower()


def find_literal(
    files: Files,
    selection: Selection,
    literal: Literal,
    deadline: Deadline,
    *,
    context: int,
    limit: int,
    file_budget: int = FILE_BUDGET,
) -> SearchResult | None:
    """The whole search, or None when there is more to do than pays."""
    wanted = _by_folder(selection, deadline, file_budget)
    if wanted is None:
        return None
    budget = BYTE_BUDGET
    matching: list[tuple[str, str, bytes, list[Hit]]] = []
    total = 0
    with closing(_open_all(files, wanted)) as found:
        for path, file in found:
            deadline.check()
            if file.stat.size > selection.max_file_size:
                continue
            if file.stat.size > budget:
                return None
            data = file.read(file.stat.size + 1)
            budget -= len(data)
            searchable = literal.searchable(data)
            if searchable is None:
                return None
            if literal.text not in searchable or b"\0" in data:
                continue
            lines = hits([searchable], literal.text, LINE_BUDGET + 1 - total)
            total += len(lines)
            if total > LINE_BUDGET:
                return None
            matching.append((render_path(path), path, data, lines))
    matching.sort()
    matches: list[SearchMatch] = []
    for _, path, data, lines in matching:
        room = limit - len(matches)
        if not room:
            break
        matches += rows(path, data, {hit.line: column_in(data, hit) for hit in lines[:room]}, context)
    return SearchResult(matches=matches, is_truncated=total > len(matches), total_matches=total)


def _by_folder(selection: Selection, deadline: Deadline, file_budget: int) -> dict[str, set[str]] | None:
    """The names of the files by the folder that they are in, or None when there are too many."""
    wanted: dict[str, set[str]] = {}
    with closing(selection.walk(deadline)) as walk:
        for number, (folder, name) in enumerate(walk):
            if number == file_budget:
                return None
            wanted.setdefault(folder, set()).add(name)
    return wanted


def _open_all(files: Files, wanted: dict[str, set[str]]) -> Generator[tuple[str, OpenFile], None, None]:
    """Each file that is still there, open until the next is asked for. A folder is opened once for all its files."""
    for path, names in wanted.items():
        folder = open_real(files, path)
        if folder is None:
            continue
        with folder:
            for name in names:
                file = unless_gone(folder.open, name)
                if file is not None:
                    with file:
                        yield join_path(path, name), file
