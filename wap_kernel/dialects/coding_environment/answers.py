"""The answers of the tools, with the catalog's names, rendered from an operation and its result. Pure.

The catalog does not have the fields `durationMs`, `hash` of a written file, `runId`, `isolation` and those of changes
that were not applied, and `truncated` with `total`. The models have no docstrings, since those would become
descriptions in the tools' schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import PrivateAttr

from wap_kernel.dialects.coding_environment import images
from wap_kernel.dialects.coding_environment.workspace_root import render_reachable, render_relative
from wap_kernel.model.base import Model
from wap_kernel.model.limits import CODING_DEFAULT_TIMEOUT_SECONDS, CODING_MAX_READ_BYTES, CODING_MAX_TEXT_BYTES
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    Isolation,
    ListFiles,
    ModifyFile,
    MoveFile,
    ReadFile,
    RunCommand,
    SearchFiles,
    WriteFile,
)
from wap_kernel.model.results import (
    CommandResult,
    FileContent,
    FileEntry,
    FileList,
    ModifyResult,
    PathResult,
    RefusedPath,
    SearchResult,
    WorkspaceDescription,
    WriteResult,
)


class ReadAnswer(Model):
    path: str
    size: int
    mtime: str
    hash: str
    is_binary: bool
    content: str
    mime_type: str | None = None
    """The type of an image, which is in the content of the result."""
    start_line: int | None = None
    end_line: int | None = None
    total_lines: int | None = None
    truncated: Literal[True] | None = None
    """True when lines were left out because the answer would be too long."""
    note: str | None = None
    """The part that was left out, and how to get it."""
    _blocks: tuple[Mapping[str, Any], ...] = PrivateAttr(())

    @property
    def blocks(self) -> tuple[Mapping[str, Any], ...]:
        """The content besides the text: the image that the file is."""
        return self._blocks


class ChangeAnswer(Model):
    run_id: str | None = None
    """The run that a person reverts to undo the call; absent where nothing was changed."""


class WriteAnswer(ChangeAnswer):
    path: str
    size: int
    hash: str


class ListEntry(Model):
    name: str
    path: str
    type: Literal["file", "dir", "link"]
    size: int | None = None
    mtime: str | None = None


class ListAnswer(Model):
    path: str
    entries: list[ListEntry]
    count: int
    truncated: Literal[True] | None = None
    """True when there are more than are listed: `total` of them."""
    total: int | None = None
    next_cursor: str | None = None


class SearchMatch(Model):
    path: str
    line: int
    column: int
    text: str


class SearchAnswer(Model):
    query: str
    results: list[SearchMatch]
    count: int
    truncated: Literal[True] | None = None
    total: int | None = None
    next_cursor: str | None = None


class CommandAnswer(ChangeAnswer):
    command: str
    args: list[str]
    exit_code: int
    stdout: str
    stderr: str
    duration_ms: int
    truncated: Literal[True] | None = None
    """True when the middle of the output is left out; the two fields below then hold the full sizes."""
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None
    refused_changes: list[RefusedPath] | None = None
    """The changes that policy refuses; they were not applied."""
    conflicts: list[str] | None = None
    """The paths that were changed meanwhile, where the command's changes were not applied."""
    isolation: Literal["shared"] | None = None
    """`shared` where the command wrote into the workspace directly, which cannot be undone."""


class EditAnswer(ChangeAnswer):
    path: str
    hash: str
    diff: str
    diff_truncated: Literal[True] | None = None


class DeleteAnswer(ChangeAnswer):
    path: str
    deleted: Literal[True] = True


class MoveAnswer(ChangeAnswer):
    path: str
    """The new path."""
    hash: str | None = None


class FolderAnswer(ChangeAnswer):
    path: str


class OutputAnswer(Model):
    run_id: str
    operation_id: str
    stream: Literal["stdout", "stderr"]
    offset: int
    content: str
    total_bytes: int
    is_complete: bool
    next_offset: int | None = None
    """The beginning of the next page; absent at the end of a command that has ended."""
    is_truncated: Literal[True] | None = None


class GlobAnswer(Model):
    pattern: str
    files: list[ListEntry]
    count: int
    truncated: Literal[True] | None = None
    total: int | None = None
    next_cursor: str | None = None


class WorkspaceLimits(Model):
    max_file_size: int
    max_output_size: int
    default_timeout: float
    max_timeout: float


class WorkspaceInfo(Model):
    root: str
    """The absolute path of the server's root."""
    workspace_root: str
    version: str
    provider: str
    confines_commands: bool
    isolation: Isolation
    default_exclusions: list[str]
    limits: WorkspaceLimits
    """Limits in bytes and seconds."""


class RunReport(Model):
    """An events message of Agent Spaces."""

    protocol_version: str
    run_id: str
    status: Literal["running", "awaiting_approval", "completed", "cancelled", "error"]
    events: list[dict[str, Any]]
    started_at: str
    completed_at: str | None = None
    atomic: bool | None = None
    dry_run: bool | None = None
    reverts: str | None = None
    pending_approval: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    """The answer of a single call that waited for an approval."""
    output: list[OutputAnswer] | None = None
    """The output so far of a command that still runs."""


def render_read(operation: ReadFile, result: FileContent) -> ReadAnswer:
    path = render_relative(operation.path, operation.within)
    answer = ReadAnswer(
        path=path,
        size=result.metadata.size,
        mtime=result.metadata.last_modified,
        hash=result.hash,
        is_binary=result.encoding == "base64",
        content=result.content,
    )
    image = images.build_image(path, result)
    if image is not None:
        answer = answer.model_copy(update={"content": "", "mime_type": image.media_type, "note": image.note})
        answer._blocks = image.blocks
        return answer
    if operation.start_line is None and operation.end_line is None and not result.is_truncated:
        return answer
    return answer.model_copy(update=_describe_lines(operation, result))


def _describe_lines(operation: ReadFile, result: FileContent) -> dict[str, Any]:
    start = operation.start_line or 1
    end = start + result.returned_lines - 1
    fields: dict[str, Any] = {"start_line": start, "end_line": end, "total_lines": result.total_lines}
    if not result.is_truncated:
        return fields
    if result.encoding == "base64":
        note = f"The answer was truncated after {CODING_MAX_TEXT_BYTES} bytes; the rest is binary."
    elif result.content.endswith("\n"):
        note = f"Lines {end + 1} to {result.total_lines} were left out; read on with startLine {end + 1}."
    else:
        note = f"Line {end} was truncated after {CODING_MAX_TEXT_BYTES} bytes; a command can read the rest of it."
        if end < result.total_lines:
            note += f" Read on with startLine {end + 1}."
    return {**fields, "truncated": True, "note": note}


def render_move(operation: MoveFile | CopyFile, result: PathResult) -> MoveAnswer:
    path = render_relative(operation.destination, operation.within)
    return MoveAnswer(path=path, hash=result.hash, run_id=result.run_id)


def render_folder(operation: CreateDirectory, result: PathResult) -> FolderAnswer:
    return FolderAnswer(path=render_relative(operation.path, operation.within), run_id=result.run_id)


def render_write(operation: WriteFile, result: WriteResult) -> WriteAnswer:
    assert result.hash is not None  # the result of a whole write has one
    return WriteAnswer(
        path=render_relative(operation.path, operation.within),
        size=result.bytes_written,
        hash=result.hash,
        run_id=result.run_id,
    )


def render_list(operation: ListFiles, result: FileList) -> ListAnswer:
    entries = [_render_entry(entry, operation.within) for entry in result.files]
    path = render_relative(operation.path, operation.within)
    return ListAnswer(path=path, entries=entries, **_count_items(len(entries), result, result.total_found))


def render_glob(operation: ListFiles, result: FileList) -> GlobAnswer:
    files = [_render_entry(entry, operation.within) for entry in result.files]
    pattern = (operation.include or ("",))[0]
    return GlobAnswer(pattern=pattern, files=files, **_count_items(len(files), result, result.total_found))


def _render_entry(entry: FileEntry, within: str) -> ListEntry:
    path, metadata = render_relative(entry.path, within), entry.metadata
    return ListEntry(
        name=path.rpartition("/")[2],
        path=path,
        type="link" if entry.is_symlink else "dir" if entry.is_directory else "file",
        size=None if metadata is None else metadata.size,
        mtime=None if metadata is None else metadata.last_modified,
    )


def render_search(operation: SearchFiles, result: SearchResult) -> SearchAnswer:
    results = [
        SearchMatch(
            path=render_relative(match.path, operation.within),
            line=match.line,
            column=match.column,
            text=match.match_text,
        )
        for match in result.matches
    ]
    return SearchAnswer(
        query=operation.query, results=results, **_count_items(len(results), result, result.total_matches)
    )


def render_command(operation: RunCommand, result: CommandResult) -> CommandAnswer:
    is_truncated = result.is_output_truncated
    return CommandAnswer(
        command=operation.command,
        args=list(operation.args or ()),
        exit_code=result.exit_code,
        stdout=result.stdout,
        stderr=result.stderr,
        duration_ms=result.duration_ms,
        truncated=is_truncated or None,
        stdout_bytes=result.stdout_bytes if is_truncated else None,
        stderr_bytes=result.stderr_bytes if is_truncated else None,
        refused_changes=_relocate_refused(result.refused_changes, operation.within),
        conflicts=_relocate_paths(result.conflicts, operation.within),
        isolation=result.isolation,
        run_id=result.run_id,
    )


def _relocate_refused(refused: list[RefusedPath] | None, within: str) -> list[RefusedPath] | None:
    if refused is None:
        return None
    return [change.model_copy(update={"path": render_reachable(change.path, within)}) for change in refused]


def _relocate_paths(paths: list[str] | None, within: str) -> list[str] | None:
    return None if paths is None else [render_reachable(path, within) for path in paths]


def render_edit(operation: ModifyFile, result: ModifyResult) -> EditAnswer:
    return EditAnswer(
        path=render_relative(operation.path, operation.within),
        hash=result.hash,
        diff=_relocate_diff(operation.within, result.diff),
        diff_truncated=result.is_diff_truncated,
        run_id=result.run_id,
    )


def _relocate_diff(within: str, diff: str) -> str:
    """Make the two paths at the head of a diff relative to `within`, so that the diff can be applied there."""
    if within == "." or not diff:
        return diff
    old, new, hunks = diff.split("\n", 2)
    return "\n".join((old.replace(f"a/{within}/", "a/", 1), new.replace(f"b/{within}/", "b/", 1), hunks))


def render_deletion(operation: DeleteFile, result: PathResult) -> DeleteAnswer:
    return DeleteAnswer(path=render_relative(operation.path, operation.within), run_id=result.run_id)


def render_workspace(operation: DescribeWorkspace, result: WorkspaceDescription) -> WorkspaceInfo:
    limits = result.limits
    return WorkspaceInfo(
        root=result.root,
        workspace_root=render_relative(operation.within, "."),
        version=result.version,
        provider=result.provider,
        confines_commands=result.confines_commands,
        isolation=result.isolation,
        default_exclusions=result.default_exclusions,
        limits=WorkspaceLimits(
            max_file_size=min(CODING_MAX_READ_BYTES, limits.max_write_size),
            max_output_size=limits.max_output_size,
            default_timeout=min(CODING_DEFAULT_TIMEOUT_SECONDS, limits.max_timeout_ms / 1000),
            max_timeout=limits.max_timeout_ms / 1000,
        ),
    )


def _count_items(count: int, result: FileList | SearchResult, total: int) -> dict[str, Any]:
    if not result.is_truncated and result.next_cursor is None:
        return {"count": count}
    return {"count": count, "truncated": True, "total": total, "next_cursor": result.next_cursor}
