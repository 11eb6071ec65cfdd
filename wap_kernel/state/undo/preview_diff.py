"""Preview a file operation for people: the resolved path and a unified diff, or a note."""

from __future__ import annotations

import posixpath
from typing import Any

from wap_kernel.files.edit import apply, unified_diff
from wap_kernel.files.interface import FileKind, Files
from wap_kernel.files.read import read_up_to
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import InvalidArgument, WapError
from wap_kernel.model.operations import DeleteFile, ModifyFile, Operation, WriteFile
from wap_kernel.model.paths import Access, render_path

MAX_DIFF_BYTES = 1024 * 1024
"""Size of the largest file that gets a diff."""
EDIT_SECONDS = 5.0


def find_written_path(files: Files, operation: Operation) -> str | None:
    """Return the real path that the operation would change."""
    named = next((path_access for path_access in operation.path_accesses() if path_access.access is Access.WRITE), None)
    if named is None:
        return None
    try:
        return files.resolve(named.path, follow=named.follow)
    except (OSError, WapError):
        return posixpath.normpath(named.path)


def preview_difference(files: Files, operation: Operation) -> dict[str, Any]:
    path = find_written_path(files, operation)
    if path is None:
        return {}
    return {"path": render_path(path), **_difference(files, operation, path)}


def _difference(files: Files, operation: Operation, path: str) -> dict[str, Any]:
    try:
        old = _content(files, path)
        new = _result(operation, old)
    except (OSError, WapError) as error:
        # The operation would fail, or the file cannot be read; the person should know that too.
        return {"note": error.text if isinstance(error, WapError) else f"{type(error).__name__}"}
    if new is None:
        return {}
    if b"\0" in old or b"\0" in new:
        return {"note": f"Binary: {len(old)} bytes now, {len(new)} bytes then."}
    diff, is_truncated = unified_diff.render_diff(render_path(path), old, new)
    return {"diff": diff, **({"isDiffTruncated": True} if is_truncated else {})}


def _content(files: Files, path: str) -> bytes:
    try:
        if files.stat(path, follow=False).kind is FileKind.FOLDER:
            return b""
        with files.open(path) as file:
            data = read_up_to(file, MAX_DIFF_BYTES)
    except FileNotFoundError:
        return b""
    if len(data) > MAX_DIFF_BYTES:
        raise InvalidArgument(f"The file is too large to show a difference ({MAX_DIFF_BYTES} bytes).")
    return data


def _result(operation: Operation, old: bytes) -> bytes | None:
    if isinstance(operation, WriteFile):
        return old + operation.content if operation.mode == "append" else operation.content
    if isinstance(operation, ModifyFile):
        return apply.apply_edits(old, operation.edits, max_size=2 * MAX_DIFF_BYTES, deadline=Deadline(EDIT_SECONDS))
    return b"" if isinstance(operation, DeleteFile) else None
