"""Looking for a literal in process: faster than starting rg, as long as there is little to read and little to find.

rg is the judge of everything bigger, so this gives up early. Python holds the interpreter's lock line by line, and
other threads of the server wait for it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from wap_kernel.files.deadline import Deadline
from wap_kernel.files.matches import rows
from wap_kernel.files.paths import display, join
from wap_kernel.files.primitives import Files, OpenFile
from wap_kernel.files.scanning import lines_with
from wap_kernel.files.selection import Selection
from wap_kernel.files.trees import open_real, unless_gone
from wap_kernel.results import Match, SearchResult

FILE_BUDGET = 500
BYTE_BUDGET = 16 * 1024 * 1024
LINE_BUDGET = 10_000
"""What is searched, and found, before rg is faster."""


def find_literal(
    files: Files,
    selection: Selection,
    literal: bytes,
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
    hits: list[tuple[str, str, bytes, list[int]]] = []
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
            if literal not in data or b"\0" in data:
                continue
            lines = lines_with([data], literal, LINE_BUDGET + 1 - total)
            total += len(lines)
            if total > LINE_BUDGET:
                return None
            hits.append((display(path), path, data, lines))
    hits.sort()
    matches: list[Match] = []
    for _, path, data, lines in hits:
        room = limit - len(matches)
        if not room:
            break
        matches += rows(path, data, lines[:room], context)
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
                        yield join(path, name), file
