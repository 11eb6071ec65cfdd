"""What the tools answer, with the catalog's names, made of the operation and the engine's result. Pure.

Fields that the catalog does not have (`durationMs`, the `hash` of what was written, and `truncated` with `total` where
something was cut) are ours.
"""

from __future__ import annotations

from typing import Any, Literal

from wap_kernel.dialects.coding_environment.workspace_root import shown
from wap_kernel.model.base import Model
from wap_kernel.model.limits import CODING_DEFAULT_TIMEOUT_SECONDS, CODING_MAX_READ_BYTES
from wap_kernel.model.operations import (
    DeleteFile,
    DescribeWorkspace,
    ListFiles,
    ModifyFile,
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
    SearchResult,
    WorkspaceDescription,
    WriteResult,
)


class FileRead(Model):
    path: str
    size: int
    mtime: str
    hash: str
    is_binary: bool
    content: str


class FileSaved(Model):
    path: str
    size: int
    hash: str


class Listed(Model):
    name: str
    path: str
    type: Literal["file", "dir", "link"]
    size: int | None = None
    mtime: str | None = None


class Listing(Model):
    path: str
    entries: list[Listed]
    count: int
    truncated: Literal[True] | None = None
    """There are more: `total`."""
    total: int | None = None


class Found(Model):
    path: str
    line: int
    column: int
    text: str


class Search(Model):
    query: str
    results: list[Found]
    count: int
    truncated: Literal[True] | None = None
    total: int | None = None


class CommandRun(Model):
    command: str
    args: list[str]
    exit_code: int
    stdout: str
    stderr: str
    duration_ms: int
    truncated: Literal[True] | None = None
    """The middle of the output was left out; of so many bytes:"""
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None


class FileEdited(Model):
    path: str
    hash: str
    diff: str
    diff_truncated: Literal[True] | None = None


class FileDeleted(Model):
    path: str
    deleted: Literal[True] = True


class Globbed(Model):
    pattern: str
    files: list[Listed]
    count: int
    truncated: Literal[True] | None = None
    total: int | None = None


class Bounds(Model):
    max_file_size: int
    max_output_size: int
    default_timeout: float
    max_timeout: float


class WorkspaceInfo(Model):
    root: str
    """Absolute."""
    workspace_root: str
    version: str
    provider: str
    confines_commands: bool
    default_exclusions: list[str]
    limits: Bounds
    """In bytes and seconds."""


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
    """Of a single call that a person had to agree to: its own answer."""


def read(operation: ReadFile, result: FileContent) -> FileRead:
    return FileRead(
        path=shown(operation.path, operation.within),
        size=result.metadata.size,
        mtime=result.metadata.last_modified,
        hash=result.hash,
        is_binary=result.encoding == "base64",
        content=result.content,
    )


def written(operation: WriteFile, result: WriteResult) -> FileSaved:
    assert result.hash is not None  # of a file that was written whole
    return FileSaved(path=shown(operation.path, operation.within), size=result.bytes_written, hash=result.hash)


def listed(operation: ListFiles, result: FileList) -> Listing:
    entries = [_entry(entry, operation.within) for entry in result.files]
    path = shown(operation.path, operation.within)
    return Listing(path=path, entries=entries, **_cut(len(entries), result.is_truncated, result.total_found))


def globbed(operation: ListFiles, result: FileList) -> Globbed:
    files = [_entry(entry, operation.within) for entry in result.files]
    pattern = (operation.include or ("",))[0]
    return Globbed(pattern=pattern, files=files, **_cut(len(files), result.is_truncated, result.total_found))


def _entry(entry: FileEntry, within: str) -> Listed:
    path, about = shown(entry.path, within), entry.metadata
    return Listed(
        name=path.rpartition("/")[2],
        path=path,
        type="link" if entry.is_symlink else "dir" if entry.is_directory else "file",
        size=None if about is None else about.size,
        mtime=None if about is None else about.last_modified,
    )


def found(operation: SearchFiles, result: SearchResult) -> Search:
    results = [
        Found(path=shown(match.path, operation.within), line=match.line, column=match.column, text=match.match_text)
        for match in result.matches
    ]
    return Search(
        query=operation.query, results=results, **_cut(len(results), result.is_truncated, result.total_matches)
    )


def ran(operation: RunCommand, result: CommandResult) -> CommandRun:
    is_cut = result.is_output_truncated
    return CommandRun(
        command=operation.command,
        args=list(operation.args or ()),
        exit_code=result.exit_code,
        stdout=result.stdout,
        stderr=result.stderr,
        duration_ms=result.duration_ms,
        truncated=is_cut or None,
        stdout_bytes=result.stdout_bytes if is_cut else None,
        stderr_bytes=result.stderr_bytes if is_cut else None,
    )


def edited(operation: ModifyFile, result: ModifyResult) -> FileEdited:
    return FileEdited(
        path=shown(operation.path, operation.within),
        hash=result.hash,
        diff=_from(operation.within, result.diff),
        diff_truncated=result.is_diff_truncated,
    )


def _from(within: str, diff: str) -> str:
    """The diff with the two paths at its head as the caller knows them, so that it can be applied from there."""
    if within == "." or not diff:
        return diff
    old, new, hunks = diff.split("\n", 2)
    return "\n".join((old.replace(f"a/{within}/", "a/", 1), new.replace(f"b/{within}/", "b/", 1), hunks))


def deleted(operation: DeleteFile, _: PathResult) -> FileDeleted:
    return FileDeleted(path=shown(operation.path, operation.within))


def described(operation: DescribeWorkspace, result: WorkspaceDescription) -> WorkspaceInfo:
    limits = result.limits
    return WorkspaceInfo(
        root=result.root,
        workspace_root=shown(operation.within, "."),
        version=result.version,
        provider=result.provider,
        confines_commands=result.confines_commands,
        default_exclusions=result.default_exclusions,
        limits=Bounds(
            max_file_size=min(CODING_MAX_READ_BYTES, limits.max_write_size),
            max_output_size=limits.max_output_size,
            default_timeout=min(CODING_DEFAULT_TIMEOUT_SECONDS, limits.max_timeout_ms / 1000),
            max_timeout=limits.max_timeout_ms / 1000,
        ),
    )


def _cut(count: int, is_truncated: bool, total: int) -> dict[str, Any]:
    return {"count": count, **({"truncated": True, "total": total} if is_truncated else {})}
