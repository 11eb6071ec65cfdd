"""Build the answers of bash, read, write, edit, glob and grep from the operation and the engine's result. Pure."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from wap_kernel.dialects.tool_interface.workspace_path import render_path
from wap_kernel.files.read import count_lines
from wap_kernel.model import results
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.limits import INTERFACE_MAX_STREAM_BYTES
from wap_kernel.model.operations import ListFiles, ModifyFile, SearchFiles, ViewFile, WriteFile
from wap_kernel.model.results import CommandResult, FileContent, FileList, ModifyResult, SearchResult, WriteResult
from wap_kernel.providers.process.output_buffer import OutputCollector

BOM = "\ufeff"


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ChangeAnswer(Answer):
    runId: str | None = None
    """Run that undoes the call when it is reverted; it has the same name in every REST dialect."""


class RefusedPath(Answer):
    path: str
    rule: str
    reason: str


class BashAnswer(ChangeAnswer):
    stdout: str
    stderr: str
    exit_code: int
    duration_ms: int
    truncated: bool
    """True when the middle of a stream was left out."""
    total_stdout_bytes: int
    total_stderr_bytes: int
    refused_changes: list[RefusedPath] | None = None
    """Changes that policy refuses; they were not applied."""
    conflicts: list[str] | None = None
    """Paths that were changed meanwhile, where the command's changes were not applied."""
    isolation: Literal["shared"] | None = None
    """`shared` for a command that wrote into the workspace directly, which cannot be undone."""


class ReadAnswer(Answer):
    content: str
    """Lines with their numbers, or the names in a folder; empty for a binary file."""
    total_lines: int
    """Lines of the whole file, or entries of the folder."""
    file_size: int
    is_dir: bool
    is_binary: bool
    truncated: bool
    hash: str | None = None
    file_type: str | None = None
    """Media type of a binary file."""
    is_lossy: Literal[True] | None = None
    """True when bytes that are not UTF-8 were replaced by U+FFFD."""
    note: str | None = None
    """Advice how to read the rest."""


class WriteAnswer(ChangeAnswer):
    success: Literal[True] = True
    file_path: str
    bytes_written: int
    hash: str | None = None


class EditAnswer(ChangeAnswer):
    success: Literal[True] = True
    file_path: str
    lines_changed: int
    replacements: int
    hash: str
    diff: str


class GlobAnswer(Answer):
    matches: list[str]
    """Newest first."""
    count: int
    """Number of all matches, including those left out."""
    truncated: bool


class GrepMatch(Answer):
    file_path: str
    line_number: int
    column: int
    """Column where the match begins in the whole line, in characters from 1."""
    line: str
    """The line; of a long one the part around the match, with `...` where it was cut."""
    context_before: list[str] | None = None
    context_after: list[str] | None = None


class GrepAnswer(Answer):
    matches: list[GrepMatch]
    """Matches, sorted by path and line."""
    count: int
    """Number of all matching lines, including those left out."""
    truncated: bool


def answer_bash(_: object, result: CommandResult) -> BashAnswer:
    stdout, first = truncate_stream(result.stdout, result.stdout_bytes)
    stderr, second = truncate_stream(result.stderr, result.stderr_bytes)
    return BashAnswer(
        stdout=stdout,
        stderr=stderr,
        exit_code=result.exit_code,
        duration_ms=result.duration_ms,
        truncated=first or second or result.is_output_truncated,
        total_stdout_bytes=result.stdout_bytes,
        total_stderr_bytes=result.stderr_bytes,
        refused_changes=_render_refused(result.refused_changes),
        conflicts=None if result.conflicts is None else [*map(render_path, result.conflicts)],
        isolation=result.isolation,
        runId=result.run_id,
    )


def _render_refused(refused: Sequence[results.RefusedPath] | None) -> list[RefusedPath] | None:
    if refused is None:
        return None
    return [RefusedPath(path=render_path(each.path), rule=each.rule, reason=each.reason) for each in refused]


def truncate_stream(text: str, total: int) -> tuple[str, bool]:
    """Return the beginning and the end of a stream that had `total` bytes, and whether the middle was left out."""
    data = text.encode("utf-8")
    if len(data) <= INTERFACE_MAX_STREAM_BYTES:
        return text, False
    buffer = OutputCollector(INTERFACE_MAX_STREAM_BYTES)
    buffer.feed(data)
    buffer.total = max(buffer.total, total)  # the engine may have left out some already, further in the middle
    return buffer.text(INTERFACE_MAX_STREAM_BYTES).text, True


def answer_read(operation: ViewFile | ListFiles, result: FileContent | FileList) -> ReadAnswer:
    if isinstance(operation, ListFiles) and isinstance(result, FileList):
        return _answer_folder(operation, result)
    assert isinstance(operation, ViewFile)
    assert isinstance(result, FileContent)
    return _answer_text_file(operation, result) if result.encoding == "utf-8" else _answer_binary_file(result)


def _answer_text_file(operation: ViewFile, result: FileContent) -> ReadAnswer:
    first = operation.start_line or 1
    content = result.content.removeprefix(BOM) if first == 1 else result.content
    lines = content.removesuffix("\n").split("\n") if result.returned_lines else []
    last = first + len(lines) - 1
    notes = []
    if last < result.total_lines:
        notes.append(f"Lines {first} to {last} of {result.total_lines}. Go on with offset {last + 1}.")
    if operation.max_line is not None and any(len(line) > operation.max_line for line in lines):
        notes.append(f"Lines over {operation.max_line} characters are cut. With a limit they are whole.")
    elif result.is_truncated and not content.endswith("\n"):
        notes.append("The last line is too long to be shown whole.")
    return ReadAnswer(
        content="\n".join(f"{number}: {line}" for number, line in enumerate(lines, first)),
        total_lines=result.total_lines,
        file_size=result.metadata.size,
        is_dir=False,
        is_binary=False,
        truncated=bool(notes),
        hash=result.hash,
        is_lossy=result.is_lossy,
        note=" ".join(notes) or None,
    )


def _answer_binary_file(result: FileContent) -> ReadAnswer:
    kind = mimetypes.guess_type(result.metadata.path)[0] or "application/octet-stream"
    return ReadAnswer(
        content="",
        total_lines=0,
        file_size=result.metadata.size,
        is_dir=False,
        is_binary=True,
        truncated=True,
        hash=result.hash,
        file_type=kind,
        note=f"The file is binary ({kind}, {result.metadata.size} bytes), so its content is not shown.",
    )


def _answer_folder(operation: ListFiles, result: FileList) -> ReadAnswer:
    names = [entry.path.rpartition("/")[2] + ("/" if entry.is_directory else "") for entry in result.files]
    first, last = operation.start_entry, operation.start_entry + len(names) - 1
    note = f"Entries {first} to {last} of {result.total_found}. Go on with offset {last + 1}."
    return ReadAnswer(
        content="\n".join(names),
        total_lines=result.total_found,
        file_size=0,
        is_dir=True,
        is_binary=False,
        truncated=result.is_truncated,
        note=note if result.is_truncated else None,
    )


def answer_write(_: WriteFile, result: WriteResult) -> WriteAnswer:
    return WriteAnswer(
        file_path=render_path(result.path),
        bytes_written=result.bytes_written,
        hash=result.hash,
        runId=result.run_id,
    )


def answer_edit(operation: ModifyFile, result: ModifyResult) -> EditAnswer:
    (change,) = operation.edits
    assert isinstance(change, ReplaceText)
    replacements = result.replacements or 1
    lines = max(count_lines(text.encode("utf-8")) for text in (change.old_content, change.new_content))
    return EditAnswer(
        file_path=render_path(result.path),
        lines_changed=lines * replacements,
        replacements=replacements,
        hash=result.hash,
        diff=result.diff,
        runId=result.run_id,
    )


def answer_glob(_: ListFiles, result: FileList) -> GlobAnswer:
    return GlobAnswer(
        matches=[render_path(entry.path) for entry in result.files],
        count=result.total_found,
        truncated=result.is_truncated,
    )


def answer_grep(operation: SearchFiles, result: SearchResult) -> GrepAnswer:
    has_context = operation.context_lines > 0
    return GrepAnswer(
        matches=[
            GrepMatch(
                file_path=render_path(match.path),
                line_number=match.line,
                column=match.column,
                line=match.match_text,
                context_before=match.context_before if has_context else None,
                context_after=match.context_after if has_context else None,
            )
            for match in result.matches
        ],
        count=result.total_matches,
        truncated=result.is_truncated,
    )
