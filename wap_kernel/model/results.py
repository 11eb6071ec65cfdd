"""One model per result of an operation, shared by every dialect.

Results serialise by camelCase aliases, the names that WAP gives the fields. Dialects omit a field that is None.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wap_kernel.model.base import Model
from wap_kernel.model.operations import Encoding, Isolation


class Result(Model):
    """The base of all results."""


class FileMetadata(Model):
    """Size, type and time of a file or a folder."""

    path: str
    """The absolute path, as WAP requires."""
    size: int
    is_directory: bool
    last_modified: str


class FileEntry(Model):
    """One entry of a listing."""

    path: str
    is_directory: bool
    """True for a folder, and for a link to a folder of the workspace; a recursive listing does not follow links."""
    is_symlink: Literal[True] | None = None
    metadata: FileMetadata | None = None


class FileList(Result):
    """The result of a listing."""

    files: list[FileEntry]
    is_truncated: bool
    """True if entries follow that are not in the result."""
    total_found: int
    next_cursor: str | None = None
    """The cursor of the next page; None for the last page."""


class FileContent(Result):
    """The result of a read."""

    content: str
    encoding: Encoding
    metadata: FileMetadata
    is_truncated: bool
    total_lines: int
    returned_lines: int
    hash: str
    is_lossy: Literal[True] | None = None
    """True if bytes that are not UTF-8 were replaced by U+FFFD in `content`."""


class CellOutput(Model):
    """One output of a notebook cell, as text."""

    type: str
    """The type in nbformat: `stream`, `execute_result`, `display_data`, `error`."""
    text: str
    mime_types: list[str] | None = None
    """The MIME types of the output besides its text."""
    is_truncated: Literal[True] | None = None


class NotebookCell(Model):
    """One cell of a notebook."""

    id: str
    type: str
    source: str
    execution_count: int | None = None
    outputs: list[CellOutput] | None = None
    outputs_left_out: int | None = None
    """The number of outputs that the result omits."""


class NotebookContent(Result):
    """The result of reading a notebook."""

    cells: list[NotebookCell]
    total_cells: int
    is_truncated: bool
    language: str | None = None
    metadata: FileMetadata
    hash: str


class ChangeResult(Result):
    """The base of the results of operations that change the workspace."""

    run_id: str | None = None
    """The run that undoes a single call when it is reverted; None for a step of a batch."""


class WriteResult(ChangeResult):
    """The result of a write."""

    path: str
    bytes_written: int
    hash: str | None = None


class ModifyResult(ChangeResult):
    """The result of edits."""

    path: str
    hash: str
    diff: str
    is_diff_truncated: Literal[True] | None = None
    replacements: int | None = Field(None, exclude=True)
    """The number of replacements of a single literal edit. Not among WAP's fields."""


CUT_MARK = "..."
"""The mark where a line of a search result was cut."""


class SearchMatch(Model):
    """One line that a search matched."""

    path: str
    line: int
    column: int
    """The column where the first match begins in the whole line, in characters from 1."""
    match_text: str
    """The line; of a long one the part around the match, with `...` where it was cut."""
    context_before: list[str]
    context_after: list[str]


class SearchResult(Result):
    """The result of a search."""

    matches: list[SearchMatch]
    is_truncated: bool
    """True if matches follow that are not in the result."""
    total_matches: int
    next_cursor: str | None = None
    """The cursor of the next page; None for the last page."""


class RefusedPath(Model):
    """A change of a command that policy does not apply."""

    path: str
    rule: str
    reason: str


class CommandResult(ChangeResult):
    """The result of a command."""

    stdout: str
    stderr: str
    exit_code: int
    duration_ms: int
    stdout_bytes: int
    stderr_bytes: int
    is_output_truncated: bool
    refused_changes: list[RefusedPath] | None = None
    """The changes that policy refuses; they were not applied."""
    conflicts: list[str] | None = None
    """The paths that another process changed meanwhile; the workspace has its version, the layer the command's."""
    isolation: Literal["shared"] | None = None
    """`shared` for a command that wrote into the workspace directly: a revert does not undo it."""


class PathResult(ChangeResult):
    """The result of a deletion, a move, a copy or a new folder: the changed path, the new one where there are two."""

    path: str
    hash: str | None = None


class RevertResult(Result):
    """The result of a revert: the paths that were restored and those that were left unchanged."""

    restored: list[str]
    left: list[str] | None = None


class AppliedChanges(Result):
    """The result of applying what a run had left in its layer."""

    applied: list[str]
    refused_changes: list[RefusedPath] | None = None


class Limits(Model):
    """Limits of one result and of one write, with the values that WAP recommends; a policy may set lower ones."""

    max_file_size: int = Field(1024 * 1024, gt=0)
    max_directory_entries: int = Field(500, gt=0)
    max_search_results: int = Field(100, gt=0)
    max_output_size: int = Field(1024 * 1024, gt=0)
    max_write_size: int = Field(100 * 1024 * 1024, gt=0)
    default_timeout_ms: int = Field(30_000, gt=0)
    max_timeout_ms: int = Field(3_600_000, gt=0)


class WorkspaceDescription(Result):
    """The workspace, its provider and its limits."""

    root: str
    default_exclusions: list[str]
    limits: Limits
    version: str
    dialects: list[str]
    provider: str
    confines_commands: bool
    isolation: Isolation
    """`layer` where policy judges the changes of a command before they reach the workspace."""
