"""Search file contents: one match per line, sorted by path and line, with the exact total.

A literal (or a pattern that is one) in a small workspace is searched for in process, which is faster than starting rg,
unless it turns out to be nearly everywhere or, where case does not matter, to need more than ASCII. Otherwise rg
counts, and then finds the lines of the files that come first. The texts of a result are always read through the file
primitives, so everything that is returned came through containment.

A file with a NUL byte is binary and skipped, and so is one over 256 MiB, even if it is named. Of a line with more than
2,000 characters the result has the part around the match, with `...` where it was cut. In a line of more than 1 MiB a
pattern's column is that of a match in the first MiB, or where that ends.
The regular expressions are Rust's, and run in rg only: `re` would hold the interpreter's lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from wap_kernel.files.interface import Files, Guard
from wap_kernel.files.page_cursor import decode_cursor, encode_cursor
from wap_kernel.files.search import ripgrep_program
from wap_kernel.files.search.literal_search import FILE_BUDGET, Literal, search_literal
from wap_kernel.files.search.match_rows import truncate_result
from wap_kernel.files.search.ripgrep import Ripgrep
from wap_kernel.files.search.ripgrep_program import RipgrepProgram
from wap_kernel.files.search.ripgrep_search import RipgrepSearch
from wap_kernel.files.search.search_query import SearchQuery
from wap_kernel.files.search.selection import Selection
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MAX_CONTEXT_LINES, MAX_MATCHES, MAX_QUERY_CHARACTERS, MAX_SEARCHED_FILE_BYTES
from wap_kernel.model.operations import SearchFiles
from wap_kernel.model.results import Limits, SearchResult

_META = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""Characters without which a Rust pattern is a literal."""


class Searcher:
    """Searches below one root.

    Without `root_fd` rg gets descriptors only; with a `file_budget` of 0 rg does every search. rg is found when the
    first search needs it, never below `root`. `guard` holds for every caller; a search may get a stricter one.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        root: str | None = None,
        root_fd: int | None = None,
        find_program: Callable[[], RipgrepProgram | None] | None = None,
        file_budget: int = FILE_BUDGET,
    ) -> None:
        self._rg = Ripgrep(find_program or partial(ripgrep_program.find_program, root), guard, root_fd)
        self._file_budget = file_budget

    def close(self) -> None:
        """End the running searches; call it before waiting for the threads that search."""
        self._rg.close()

    def search(
        self,
        files: Files,
        guard: Guard,
        operation: SearchFiles,
        limits: Limits,
        deadline: Deadline,
        *,
        max_file_size: int = MAX_SEARCHED_FILE_BYTES,
    ) -> SearchResult:
        _validate(operation)
        is_regex = operation.regex and _META.search(operation.query) is not None
        query = SearchQuery(operation.query, is_regex, operation.case_sensitive, max_file_size)
        selection = Selection(files, guard, operation, max_file_size)
        context = operation.context_lines
        limit = limits.max_search_results if operation.limit is None else min(operation.limit, MAX_MATCHES)
        skip = decode_cursor(operation)
        literal = query.literal or query.folded
        if literal is not None:
            found = search_literal(
                files,
                selection,
                Literal(literal, folded=not query.case_sensitive),
                deadline,
                context=context,
                limit=limit,
                skip=skip,
                file_budget=self._file_budget,
            )
            if found is not None:
                return _finish_page(operation, found, skip)
        search = RipgrepSearch(files, self._rg, query, selection, context, limit, deadline, skip)
        return _finish_page(operation, search.run(), skip)


def _finish_page(operation: SearchFiles, found: SearchResult, skip: int) -> SearchResult:
    """Return as many of the matches as fit, with the cursor of the next page."""
    page = truncate_result(found)
    if not page.is_truncated or not page.matches:
        return page
    return page.model_copy(update={"next_cursor": encode_cursor(operation, skip + len(page.matches))})


def _validate(operation: SearchFiles) -> None:
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
    if operation.limit is not None and operation.limit < 1:
        raise InvalidArgument("The limit must be at least 1.", hint=f"At most {MAX_MATCHES} matches are returned.")
