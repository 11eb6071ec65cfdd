"""What operations answer: one model per result, shared by every dialect.

They serialise by camelCase aliases, which is what WAP calls the fields. A field that is None is absent from an answer.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wap_kernel.model.base import Model
from wap_kernel.model.operations import Encoding


class Result(Model):
    """What an operation answers."""


class FileMetadata(Model):
    path: str
    """Absolute, as WAP says."""
    size: int
    is_directory: bool
    last_modified: str


class FileEntry(Model):
    path: str
    is_directory: bool
    is_symlink: Literal[True] | None = None
    metadata: FileMetadata | None = None


class FileList(Result):
    files: list[FileEntry]
    is_truncated: bool
    total_found: int


class FileContent(Result):
    content: str
    encoding: Encoding
    metadata: FileMetadata
    is_truncated: bool
    total_lines: int
    returned_lines: int
    hash: str
    is_lossy: Literal[True] | None = None
    """Bytes that are not UTF-8 were replaced by U+FFFD in `content`."""


class CellOutput(Model):
    type: str
    """As nbformat calls it: `stream`, `execute_result`, `display_data`, `error`."""
    text: str
    mime_types: list[str] | None = None
    """What else there is of it."""
    is_truncated: Literal[True] | None = None


class NotebookCell(Model):
    id: str
    type: str
    source: str
    execution_count: int | None = None
    outputs: list[CellOutput] | None = None
    outputs_left_out: int | None = None
    """How many it has besides."""


class NotebookContent(Result):
    cells: list[NotebookCell]
    total_cells: int
    is_truncated: bool
    language: str | None = None
    metadata: FileMetadata
    hash: str


class WriteResult(Result):
    path: str
    bytes_written: int
    hash: str | None = None


class ModifyResult(Result):
    path: str
    hash: str
    diff: str
    is_diff_truncated: Literal[True] | None = None
    replacements: int | None = Field(None, exclude=True)
    """Of a single literal replacement: how often. Not among WAP's fields."""


class SearchMatch(Model):
    path: str
    line: int
    column: int = Field(exclude=True)
    """Where the first match in the line begins: characters of `match_text`, from 1, counted on where that is cut. Not
    among WAP's fields, so it is left out where this is serialised."""
    match_text: str
    context_before: list[str]
    context_after: list[str]


class SearchResult(Result):
    matches: list[SearchMatch]
    is_truncated: bool
    total_matches: int


class CommandResult(Result):
    stdout: str
    stderr: str
    exit_code: int
    duration_ms: int
    stdout_bytes: int
    stderr_bytes: int
    is_output_truncated: bool


class PathResult(Result):
    """Deleted, moved, copied or made: the path that is affected (the new one where there are two)."""

    path: str
    hash: str | None = None


class RevertResult(Result):
    """What a revert did: the paths that are again as they were, and those that were left as they are."""

    restored: list[str]
    left: list[str] | None = None
    not_undone: list[str] | None = None
    """What the run changed, or may have changed, where nothing is ever undone: `.git`, installed packages, and `.` for
    all that a command did which was interrupted with the server."""


class Limits(Model):
    """Bounds of one answer, WAP's recommended values, and of what may be written; a policy may set lower ones."""

    max_file_size: int = Field(1024 * 1024, gt=0)
    max_directory_entries: int = Field(500, gt=0)
    max_search_results: int = Field(100, gt=0)
    max_output_size: int = Field(1024 * 1024, gt=0)
    max_write_size: int = Field(100 * 1024 * 1024, gt=0)
    default_timeout_ms: int = Field(30_000, gt=0)
    max_timeout_ms: int = Field(3_600_000, gt=0)


class WorkspaceDescription(Result):
    root: str
    default_exclusions: list[str]
    limits: Limits
    version: str
    dialects: list[str]
    provider: str
    confines_commands: bool
