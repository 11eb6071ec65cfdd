"""A file for somebody who looks at it: lines that are very long are cut, and a binary file is described."""

from __future__ import annotations

from wap_kernel.files import content_hash
from wap_kernel.files.interface import Files
from wap_kernel.files.read import metadata, read_file
from wap_kernel.model.errors import BinaryFile
from wap_kernel.model.operations import ViewFile
from wap_kernel.model.results import FileContent, Limits


def view_file(files: Files, operation: ViewFile, limits: Limits, root_path: str) -> FileContent:
    """Of a binary file there is no content, and its encoding is said to be base64."""
    try:
        found = read_file(files, operation, limits, root_path)
    except BinaryFile:
        stat = files.stat(operation.path)
        return FileContent(
            content="",
            encoding="base64",
            metadata=metadata(stat, root_path),
            is_truncated=True,
            total_lines=0,
            returned_lines=0,
            hash=content_hash.of_file(files, operation.path),
        )
    if operation.max_line is None:
        return found
    content, is_cut = cut_lines(found.content, operation.max_line)
    return found.model_copy(update={"content": content, "is_truncated": found.is_truncated or is_cut})


def cut_lines(content: str, length: int) -> tuple[str, bool]:
    """The text with no line longer than `length`, but for the note at its end; and whether one was. Pure."""
    lines = content.split("\n")
    cut = [line if len(line) <= length else f"{line[:length]}... [{len(line) - length} more]" for line in lines]
    return "\n".join(cut), cut != lines
