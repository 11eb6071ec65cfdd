"""Search for a literal in process: faster than rg as long as there is little to read and little to find.

rg does every larger search, so this gives up early. Python holds the interpreter's lock line by line, and
other threads of the server wait for it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass

from wap_kernel.files.interface import Files, OpenFile
from wap_kernel.files.search.line_scanner import Hit, compute_column, find_hits
from wap_kernel.files.search.match_rows import MatchedLine, build_matches
from wap_kernel.files.search.selection import Selection
from wap_kernel.files.tree_walk import open_real_folder, try_open
from wap_kernel.model.command import Deadline
from wap_kernel.model.paths import join_path, render_path
from wap_kernel.model.results import SearchMatch, SearchResult

FILE_BUDGET = 500
"""Files to search before rg is faster."""
BYTE_BUDGET = 16 * 1024 * 1024
"""Bytes to search before rg is faster."""
LINE_BUDGET = 10_000
"""Matching lines to find before rg is faster."""


_FOLDED_TO_ASCII = {b"k": "\u212a".encode(), b"s": "\u017f".encode()}
"""The Kelvin sign and the long s: the only other characters that fold to a letter of ASCII."""


@dataclass(frozen=True)
class Literal:
    """Bytes to search for. `folded`: they are ASCII in lower case, and match in either case."""

    text: bytes
    folded: bool = False

    def fold(self, data: bytes) -> bytes | None:
        """Return `data` as it is to be searched, with the same offsets; None if that needs more than ASCII."""
        if not self.folded:
            return data
        if any(letter in self.text and other in data for letter, other in _FOLDED_TO_ASCII.items()):
            return None
        return data.lower()


def search_literal(
    files: Files,
    selection: Selection,
    literal: Literal,
    deadline: Deadline,
    *,
    context: int,
    limit: int,
    skip: int = 0,
    file_budget: int = FILE_BUDGET,
) -> SearchResult | None:
    """Return the result of the search after the first `skip` matches, or None if rg is faster."""
    names_by_folder = _group_by_folder(selection, deadline, file_budget)
    if names_by_folder is None:
        return None
    budget = BYTE_BUDGET
    matching: list[tuple[str, str, bytes, list[Hit]]] = []
    total = 0
    with closing(_open_all(files, names_by_folder)) as found:
        for path, file in found:
            deadline.check()
            if file.stat.size > selection.max_file_size:
                continue
            if file.stat.size > budget:
                return None
            data = file.read(file.stat.size + 1)
            budget -= len(data)
            searchable = literal.fold(data)
            if searchable is None:
                return None
            if literal.text not in searchable or b"\0" in data:
                continue
            lines = find_hits([searchable], literal.text, LINE_BUDGET + 1 - total)
            total += len(lines)
            if total > LINE_BUDGET:
                return None
            matching.append((render_path(path), path, data, lines))
    matching.sort()
    matches: list[SearchMatch] = []
    left = skip
    for _, path, data, lines in matching:
        room = limit - len(matches)
        if not room:
            break
        matched = [MatchedLine(hit, compute_column(data, hit)) for hit in lines[left : left + room]]
        left = max(0, left - len(lines))
        if matched:
            matches += build_matches(path, data, matched, context)
    return SearchResult(matches=matches, is_truncated=total > skip + len(matches), total_matches=total)


def _group_by_folder(selection: Selection, deadline: Deadline, file_budget: int) -> dict[str, set[str]] | None:
    """Return the names of the files by their folder, or None if there are too many."""
    names_by_folder: dict[str, set[str]] = {}
    with closing(selection.walk(deadline)) as walk:
        for number, (folder, name) in enumerate(walk):
            if number == file_budget:
                return None
            names_by_folder.setdefault(folder, set()).add(name)
    return names_by_folder


def _open_all(files: Files, names_by_folder: dict[str, set[str]]) -> Generator[tuple[str, OpenFile], None, None]:
    """Yield each file that is still there, open until the next one. A folder is opened once for all its files."""
    for path, names in names_by_folder.items():
        folder = open_real_folder(files, path)
        if folder is None:
            continue
        with folder:
            for name in names:
                file = try_open(folder.open, name)
                if file is not None:
                    with file:
                        yield join_path(path, name), file
