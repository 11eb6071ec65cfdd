"""Searching file contents: one match per line, sorted by path and line, with the exact total.

A literal in a small workspace is looked for in process, which is faster than starting rg. Otherwise rg counts, and
only the files that come first are asked for line numbers. The texts of an answer are always read through the file
primitives, so whatever is returned came through containment, whoever found it.

A file with a NUL byte is binary and skipped, and so is one over 256 MiB, even when it is named. Lines are cut at 2,000
characters. The regular expressions are Rust's, and run in rg only: `re` would hold the interpreter's lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from heapq import nsmallest
from itertools import islice
from typing import TypeVar

from wap_kernel.errors import InvalidArgument, ProviderUnavailable
from wap_kernel.files import ripgrep
from wap_kernel.files.deadline import Deadline
from wap_kernel.files.handles import LocalFile
from wap_kernel.files.paths import display
from wap_kernel.files.primitives import Files, Guard, OpenFile
from wap_kernel.files.ripgrep import MAX_FILE_SIZE, Query, Ripgrep
from wap_kernel.files.scanning import BLOCK, blocks, count_lines_with, lines_with, texts_of
from wap_kernel.files.selection import Selection
from wap_kernel.files.trees import GONE, is_gone
from wap_kernel.operations import Limits, Match, SearchFiles, SearchResult

TIMEOUT = 30.0
MAX_QUERY_CHARACTERS = 10_000
MAX_CONTEXT_LINES = 100

FILE_BUDGET = 500
BYTE_BUDGET = 16 * 1024 * 1024
"""What is searched in process before rg is faster."""

DESCRIPTOR_BATCH = 200
ARGUMENT_BYTES = 128 * 1024
"""Of paths in one command line; systems allow far more."""

T = TypeVar("T")

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class Searcher:
    """Searches below one root. `root_fd` None keeps rg to descriptors; `file_budget` 0 keeps everything to rg."""

    def __init__(
        self,
        files: Files,
        guard: Guard,
        *,
        root_fd: int | None = None,
        program: str | None = None,
        file_budget: int = FILE_BUDGET,
        timeout: float = TIMEOUT,
    ) -> None:
        self._files = files
        self._guard = guard
        self._rg = Ripgrep(program or ripgrep.find_program(), guard, root_fd)
        self._file_budget = file_budget
        self._timeout = timeout

    def close(self) -> None:
        """Stop what is running; call it before waiting for the threads that search."""
        self._rg.close()

    def search(self, operation: SearchFiles, limits: Limits) -> SearchResult:
        deadline = Deadline(self._timeout)
        _check(operation)
        query = Query(operation.query, operation.regex, operation.case_sensitive)
        selection = Selection(self._files, self._guard, operation)
        search = _Search(self._files, self._rg, query, selection, operation.context_lines, limits, deadline)
        return search.in_process(self._file_budget) or search.by_rg()


class _Search:
    """One search. `_literal` is what to look for when that can be done without rg."""

    def __init__(
        self,
        files: Files,
        rg: Ripgrep,
        query: Query,
        selection: Selection,
        context: int,
        limits: Limits,
        deadline: Deadline,
    ) -> None:
        self._files = files
        self._rg = rg
        self._query = query
        self._selection = selection
        self._context = context
        self._limit = limits.max_search_results
        self._deadline = deadline
        self._literal = query.text.encode() if not query.regex and query.case_sensitive else None

    # -- in process

    def in_process(self, file_budget: int) -> SearchResult | None:
        """The whole search, or None when there is more to read than pays."""
        literal = self._literal
        if literal is None:
            return None
        with closing(self._selection.walk()) as walk:
            paths = set(islice(walk, file_budget + 1))
        if len(paths) > file_budget:
            return None
        budget = BYTE_BUDGET
        matches: list[Match] = []
        total = 0
        for path in sorted(paths, key=display):
            self._deadline.check()
            file = self._open(path)
            if file is None:
                continue
            with file:
                if file.stat.size > budget:
                    return None
                data = file.read(file.stat.size + 1)
            budget -= len(data)
            if literal not in data or b"\0" in data:
                continue
            total += count_lines_with(data, literal)
            if wanted := self._limit - len(matches):
                matches += self._rows(path, [data], lines_with([data], literal, wanted))
        return SearchResult(matches=matches, is_truncated=total > len(matches), total_matches=total)

    # -- by rg

    def by_rg(self) -> SearchResult:
        counts = self._count_paths() if self._rg.takes_paths else self._count_descriptors()
        first = self._first_files(counts)
        numbers = {} if self._literal is not None else self._line_numbers(first)
        matches: list[Match] = []
        for path in first:
            file = self._open(path)
            if file is None:
                continue
            with file:
                wanted = self._limit - len(matches)
                whole = [file.read(BLOCK)] if file.stat.size < BLOCK else None
                if self._literal is not None:
                    lines = lines_with(whole or self._blocks(file), self._literal, wanted)
                else:
                    lines = numbers.get(path, [])[:wanted]
                matches += self._rows(path, whole or self._blocks(file), lines)
        total = sum(counts.values())
        return SearchResult(matches=matches, is_truncated=total > len(matches), total_matches=total)

    def _count_paths(self) -> dict[str, int]:
        selection = self._selection
        # Pruning is for speed: `selection` decides. Given are only names that rg cannot read as more than a name.
        pruned = [f"--glob=!**/{name}/" for name in sorted(selection.pruned) if _PLAIN_NAME.fullmatch(name)]
        options = pruned if selection.recursive else [*pruned, "--max-depth=1"]
        counts: dict[str, int] = {}
        for names in _batches(map(_argument, [*selection.folders, *selection.named])):
            found = self._rg.count(self._query, names, self._deadline, options=options)
            counts.update((path, number) for name, number in found.items() if (path := name[2:]) in selection)
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
        paths = {path for path in self._selection.walk() if path in self._selection}
        return {path: n for path, n, file in self._ask_descriptors(sorted(paths), ask) if not self._is_binary(file)}

    def _line_numbers(self, paths: list[str]) -> dict[str, list[int]]:
        def ask(names: list[str], fds: list[int]) -> dict[str, list[int]]:
            return self._rg.lines(self._query, names, self._limit, self._deadline, fds=fds)

        if not self._rg.takes_paths:
            return {path: lines for path, lines, _ in self._ask_descriptors(paths, ask)}
        found: dict[str, list[int]] = {}
        for names in _batches(map(_argument, paths)):
            found.update((name[2:], lines) for name, lines in ask(names, []).items())
        return found

    def _ask_descriptors(
        self, paths: list[str], ask: Callable[[list[str], list[int]], dict[str, T]]
    ) -> Iterator[tuple[str, T, OpenFile]]:
        """What rg says of each file that it says something of, together with the open file."""
        for begin in range(0, len(paths), DESCRIPTOR_BATCH):
            with ExitStack() as stack:
                opened: dict[str, tuple[str, LocalFile]] = {}
                for path in paths[begin : begin + DESCRIPTOR_BATCH]:
                    file = self._open(path)
                    if file is None:
                        continue
                    stack.enter_context(file)
                    if not isinstance(file, LocalFile):
                        raise ProviderUnavailable("rg can search only files of this machine.")
                    opened[f"/dev/fd/{file.fd}"] = (path, file)
                answers = ask(list(opened), [file.fd for _, file in opened.values()])
                for name, answer in answers.items():
                    yield opened[name][0], answer, opened[name][1]

    # -- both

    def _first_files(self, counts: Mapping[str, int]) -> list[str]:
        """The files that hold the first matches, in order."""
        first = []
        enough = 0
        for path in nsmallest(self._limit, counts, key=display):  # each has one match at least
            if enough >= self._limit:
                break
            enough += counts[path]
            first.append(path)
        return first

    def _rows(self, path: str, found: Iterable[bytes], lines: list[int]) -> list[Match]:
        reach = self._context
        texts = texts_of(found, (near for line in lines for near in range(line - reach, line + reach + 1)))
        return [
            Match(
                path=display(path),
                line=line,
                match_text=texts[line],
                context_before=[texts[near] for near in range(max(1, line - reach), line)],
                context_after=[texts[near] for near in range(line + 1, line + reach + 1) if near in texts],
            )
            for line in lines
            if line in texts  # the file may have changed since it was counted
        ]

    def _open(self, path: str) -> OpenFile | None:
        """The file at the real path `path`, or None if the search has to do without it."""
        try:
            file = self._files.open(path)
        except GONE:
            return None
        except OSError as error:
            if is_gone(error):
                return None
            raise
        if file.stat.path == path and file.stat.size <= MAX_FILE_SIZE:
            return file
        with file:  # a link has taken its place, or it is too big
            return None

    def _blocks(self, file: OpenFile) -> Iterator[bytes]:
        file.seek(0)
        return blocks(file, self._deadline.check)

    def _is_binary(self, file: OpenFile) -> bool:
        return any(b"\0" in block for block in self._blocks(file))


def _argument(path: str) -> str:
    """A path as rg is given it: never an option, and recognisable in the output."""
    return "./" if path == "." else f"./{path}"


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
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


def _check(operation: SearchFiles) -> None:
    query = operation.query
    if not query:
        raise InvalidArgument("The query is empty.", hint="Name a text or a pattern to search for.")
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InvalidArgument(f"The query is too long: {len(query)} characters, at most {MAX_QUERY_CHARACTERS}.")
    if any(character in query for character in "\n\r\0"):
        raise InvalidArgument(
            "The query contains a line ending or a NUL character.",
            hint="Lines are searched one by one; use a part of one line.",
        )
    try:
        query.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("The query is not valid Unicode (it contains a lone surrogate).") from None
    if not 0 <= operation.context_lines <= MAX_CONTEXT_LINES:
        raise InvalidArgument(f"contextLines must be between 0 and {MAX_CONTEXT_LINES}.")
