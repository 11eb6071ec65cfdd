"""Search with rg: it counts in all files, and then finds the lines of those that come first.

rg gets paths where it is confined to the root, and open descriptors elsewhere. The texts of a result are read through
the file primitives in both cases, so everything that is returned came through containment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from heapq import nsmallest
from typing import TypeVar

from wap_kernel.files.contained.handles import LocalFile
from wap_kernel.files.interface import Files, OpenFile
from wap_kernel.files.search.line_scanner import BLOCK, Hit, compute_column, find_hits, read_blocks, read_column
from wap_kernel.files.search.match_rows import MatchedLine, build_matches
from wap_kernel.files.search.ripgrep import Ripgrep, open_memory_file
from wap_kernel.files.search.search_query import SearchQuery
from wap_kernel.files.search.selection import Selection
from wap_kernel.files.tree_walk import try_open
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.model.paths import join_path, render_path
from wap_kernel.model.results import SearchMatch, SearchResult

DESCRIPTOR_BATCH = 200
ARGUMENT_BYTES = 128 * 1024
"""Bytes of paths in one command line; systems allow far more."""
MAX_RG_GLOBS = 100

LONG = 1024 * 1024
"""Bytes of a line, or a file, in which rg may note down every match."""
_SHORT = 4096

T = TypeVar("T")

_SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_SAFE_GLOB = re.compile(r"\*?[A-Za-z0-9_.-]+\*?|\*{1,2}")


class RipgrepSearch:
    """One search with rg."""

    def __init__(
        self,
        files: Files,
        rg: Ripgrep,
        query: SearchQuery,
        selection: Selection,
        context: int,
        limit: int,
        deadline: Deadline,
        skip: int = 0,
    ) -> None:
        self._files = files
        self._rg = rg
        self._query = query
        self._selection = selection
        self._context = context
        self._limit = limit
        self._skip = skip
        """The number of matches before the first one of the result."""
        self._deadline = deadline
        self._literal = query.literal

    def run(self) -> SearchResult:
        counts = self._count_paths() if self._rg.takes_paths else self._count_descriptors()
        first, skip = self._choose_first(counts)
        found = {} if self._literal is not None else self._find_hits(first, skip + self._limit)
        matches: list[SearchMatch] = []
        for path in first:
            file = self._open(path)
            if file is not None:
                with file:
                    matches += self._read_matches(path, file, found.get(path, []), skip, self._limit - len(matches))
            skip = 0
        total = sum(counts.values())
        return SearchResult(matches=matches, is_truncated=total > self._skip + len(matches), total_matches=total)

    def _read_matches(self, path: str, file: OpenFile, hits: list[Hit], skip: int, room: int) -> list[SearchMatch]:
        """Return up to `room` matches of a file after the first `skip` ones."""
        whole = file.read(BLOCK) if file.stat.size < BLOCK else None
        if self._literal is not None:
            data_blocks = self._blocks(file) if whole is None else [whole]
            hits = find_hits(data_blocks, self._literal, skip + room)
        else:
            hits = [_clamp(hit, file.stat.size) for hit in hits[: skip + room]]
        if whole is not None:
            matched = [MatchedLine(hit, compute_column(whole, hit)) for hit in hits[skip:]]
            return build_matches(path, whole, matched, self._context)
        matched = [MatchedLine(hit, read_column(file, hit, self._deadline.check)) for hit in hits[skip:]]
        return build_matches(path, self._blocks(file), matched, self._context, partial(_read_at, file))

    def _count_paths(self) -> dict[str, int]:
        selection = self._selection
        # Pruning is for speed: `selection` decides. rg gets only names that it cannot read as a pattern.
        pruned = [f"--glob=!**/{name}/" for name in sorted(selection.pruned) if _SAFE_NAME.fullmatch(name)]
        depth = [] if selection.recursive else ["--max-depth=1"]
        options = [*_make_globs(selection.rows), *pruned, *depth]  # the last glob that matches counts
        counts: dict[str, int] = {}
        # A bad query is an error even if there is nothing to search, so rg then gets its empty stdin.
        for names in _iterate_batches([_to_argument(path) for path in (*selection.folders, *selection.named)] or ["-"]):
            found = self._rg.count(self._query, names, self._deadline, options=options)
            by_path = {name[2:]: number for name, number in found.items()}
            counts |= {path: by_path[path] for path in selection.filter_paths(by_path, self._deadline)}
        for path in selection.named & counts.keys():  # rg searches a named file even if it is binary
            file = self._open(path)
            if file is None:
                del counts[path]
                continue
            with file:
                if self._is_binary(file):
                    del counts[path]
        return counts

    def _count_descriptors(self) -> dict[str, int]:
        def ask(names: list[str], fds: list[int]) -> dict[str, int]:
            return self._rg.count(self._query, names, self._deadline, fds=fds)

        ask(["-"], [])  # a bad query is an error even if there is nothing to search
        found = (join_path(folder, name) for folder, name in self._selection.walk(self._deadline))
        paths = sorted(set(self._selection.filter_paths(found, self._deadline)))
        return {path: n for path, n, file in self._ask_descriptors(paths, ask) if not self._is_binary(file)}

    def _find_hits(self, paths: list[str], limit: int) -> dict[str, list[Hit]]:
        """Return the first `limit` hits of each file."""
        large = {path for path in paths if self._is_large(path)}
        found = self._ask_hits([path for path in paths if path not in large], limit, with_columns=True)
        for path, numbered in self._ask_hits(sorted(large), limit, with_columns=False).items():
            file = self._open(path)
            if file is not None:
                with file:
                    found[path] = self._add_columns(file, numbered)
        return found

    def _ask_hits(self, paths: list[str], limit: int, *, with_columns: bool) -> dict[str, list[Hit]]:
        def ask(names: list[str], fds: list[int]) -> dict[str, list[Hit]]:
            return self._rg.hits(self._query, names, limit, self._deadline, fds=fds, with_columns=with_columns)

        if not self._rg.takes_paths:
            return {path: found for path, found, _ in self._ask_descriptors(paths, ask)}
        answers: dict[str, list[Hit]] = {}
        for names in _iterate_batches(map(_to_argument, paths)):
            answers.update((name[2:], found) for name, found in ask(names, []).items())
        return answers

    def _add_columns(self, file: OpenFile, numbered: list[Hit]) -> list[Hit]:
        """Return the hits with their columns, for a file that may have endless lines: rg gets their beginnings."""
        with open_memory_file() as lines:
            lengths = [lines.write(self._read_beginning(file, hit) + b"\n") - 1 for hit in numbered]
            lines.flush()
            name = f"/dev/fd/{lines.fileno()}"
            answers = self._rg.hits(self._query, [name], len(numbered), self._deadline, fds=[lines.fileno()])
        columns = {hit.line: hit.at for hit in answers.get(name, ())}
        return [
            hit._replace(at=columns.get(number, length))
            for number, (hit, length) in enumerate(zip(numbered, lengths, strict=True), 1)
        ]

    def _read_beginning(self, file: OpenFile, hit: Hit) -> bytes:
        self._deadline.check()
        file.seek(hit.start)
        line = file.read(_SHORT)
        if b"\n" not in line:
            line += file.read(LONG - _SHORT)
        return line.partition(b"\n")[0]

    def _is_large(self, path: str) -> bool:
        found = try_open(self._files.stat, path)
        return found is not None and found.size > LONG

    def _ask_descriptors(
        self, paths: list[str], ask: Callable[[list[str], list[int]], dict[str, T]]
    ) -> Iterator[tuple[str, T, OpenFile]]:
        """Yield path, answer and open file for each file that rg answers something for."""
        for begin in range(0, len(paths), DESCRIPTOR_BATCH):
            with ExitStack() as stack:
                files_by_name: dict[str, tuple[str, LocalFile]] = {}
                for path in paths[begin : begin + DESCRIPTOR_BATCH]:
                    file = self._open(path)
                    if file is None:
                        continue
                    stack.enter_context(file)
                    if not isinstance(file, LocalFile):
                        raise ProviderUnavailable("rg can search only files of this machine.")
                    files_by_name[f"/dev/fd/{file.fd}"] = (path, file)
                answers = ask(list(files_by_name), [file.fd for _, file in files_by_name.values()])
                for name, answer in answers.items():
                    yield files_by_name[name][0], answer, files_by_name[name][1]

    def _choose_first(self, counts: Mapping[str, int]) -> tuple[list[str], int]:
        """Return the files that contain the first matches, in order, and how many to skip in the first file."""
        first: list[str] = []
        skip, enough = self._skip, 0
        for path in nsmallest(self._skip + self._limit, counts, key=render_path):  # each has one match at least
            if enough >= self._limit:
                break
            if not first and skip >= counts[path]:
                skip -= counts[path]
                continue
            enough += counts[path] - (0 if first else skip)
            first.append(path)
        return first, skip

    def _open(self, path: str) -> OpenFile | None:
        """Return the file at the real path `path`, or None if it is gone, replaced or too large."""
        file = try_open(self._files.open, path)
        if file is None or (file.stat.path == path and file.stat.size <= self._selection.max_file_size):
            return file
        with file:  # a link has replaced it, or it is too large
            return None

    def _blocks(self, file: OpenFile) -> Iterator[bytes]:
        file.seek(0)
        return read_blocks(file, self._deadline.check)

    def _is_binary(self, file: OpenFile) -> bool:
        return any(b"\0" in block for block in self._blocks(file))


def _clamp(hit: Hit, size: int) -> Hit:
    """Return the hit with its match inside of the file: rg tells no column of an empty match where the file ends."""
    return hit._replace(at=min(hit.at, max(0, size - hit.start)))


def _read_at(file: OpenFile, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _to_argument(path: str) -> str:
    """Return a path as an argument of rg: never an option, and recognisable in the output."""
    return "./" if path == "." else f"./{path}"


def _make_globs(rows: Sequence[tuple[str, ...]] | None) -> list[str]:
    """Return options that leave out files which cannot be selected, if rg is sure to leave out no other."""
    if rows is None or len(rows) > MAX_RG_GLOBS or not all(_SAFE_GLOB.fullmatch(name) for row in rows for name in row):
        return []
    ended = [row[:-1] for row in rows if row[-1] == "**"]  # `a/**` selects `a` as well
    return [f"--glob=/{'/'.join(row)}" for row in sorted({*rows, *ended})]


def _iterate_batches(names: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for name in names:
        batch.append(name)
        size += 4 * len(name)
        if size >= ARGUMENT_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
