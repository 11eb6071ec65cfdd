"""Read a whole file, or a range of its lines in one pass that never holds the whole file; view files."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
from datetime import datetime, timezone
from typing import Literal, NamedTuple

from wap_kernel.files.content_hash import hash_bytes, hash_file
from wap_kernel.files.interface import FileKind, Files, OpenFile, Stat
from wap_kernel.model.errors import BinaryFile, InvalidArgument, TooLarge
from wap_kernel.model.hints import READ_BASE64, READ_LINES
from wap_kernel.model.limits import MAX_RANGE_FILE_BYTES
from wap_kernel.model.operations import Encoding, ReadFile, ViewFile
from wap_kernel.model.paths import render_path
from wap_kernel.model.results import FileContent, FileMetadata, Limits

_RequestedEncoding = Encoding | Literal["auto"]
CHUNK = 1024 * 1024


class WholeFile(NamedTuple):
    """The content of a whole file."""

    content: str
    encoding: Encoding
    size: int
    lines: int
    hash: str
    is_lossy: bool
    """True if bytes that are not UTF-8 were replaced."""


def read_file(files: Files, operation: ReadFile, limits: Limits, root_path: str) -> FileContent:
    start, end = operation.start_line, operation.end_line
    if start is not None and end is not None and start > end:
        raise InvalidArgument(f"startLine {start} is after endLine {end}.")
    with files.open(operation.path) as file:
        most = operation.max_size or limits.max_file_size
        is_long = operation.max_text is not None and operation.max_text < file.stat.size <= most
        if start is None and end is None and not is_long:
            whole = read_whole(file, operation.encoding, most)
            return build_content(whole, file.stat, root_path)
        limit = operation.max_text or limits.max_file_size
        return _read_range(file, start or 1, end, operation.encoding, limit, root_path)


def view_file(files: Files, operation: ViewFile, limits: Limits, root_path: str) -> FileContent:
    """Read a file for display: long lines are truncated, and a binary file has an empty content in base64."""
    try:
        found = read_file(files, operation, limits, root_path)
    except BinaryFile:
        stat = files.stat(operation.path)
        return FileContent(
            content="",
            encoding="base64",
            metadata=build_metadata(stat, root_path),
            is_truncated=True,
            total_lines=0,
            returned_lines=0,
            hash=hash_file(files, operation.path),
        )
    if operation.max_line is None:
        return found
    content, is_cut = cut_lines(found.content, operation.max_line)
    return found.model_copy(update={"content": content, "is_truncated": found.is_truncated or is_cut})


def cut_lines(content: str, length: int) -> tuple[str, bool]:
    """Truncate the lines of `content` to `length` characters and a mark; return also whether one was longer."""
    lines = content.split("\n")
    cut = [line if len(line) <= length else f"{line[:length]}... [{len(line) - length} more]" for line in lines]
    return "\n".join(cut), cut != lines


def build_metadata(stat: Stat, root_path: str) -> FileMetadata:
    return FileMetadata(
        path=render_path(root_path if stat.path == "." else f"{root_path.rstrip('/')}/{stat.path}"),
        size=stat.size,
        is_directory=stat.kind is FileKind.FOLDER,
        last_modified=format_mtime(stat.mtime_ns),
    )


def format_mtime(mtime_ns: int) -> str:
    try:
        moment = datetime.fromtimestamp(mtime_ns / 1e9, timezone.utc)
    except (ValueError, OverflowError, OSError):  # a file's date may be beyond the range of datetime
        moment = (datetime.max if mtime_ns > 0 else datetime.min).replace(tzinfo=timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_up_to(file: OpenFile, limit: int) -> bytes:
    """Read the whole content, or more than `limit` bytes of a file that is, or grows, larger."""
    size = min(file.stat.size, limit) + 1
    data = file.read(size)
    while size <= limit and len(data) == size:  # it has grown since it was opened
        size = min(2 * size, limit + 1)
        data += file.read(size - len(data))
    return data


def count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def read_whole(file: OpenFile, requested: _RequestedEncoding, limit: int) -> WholeFile:
    stat = file.stat
    data = read_up_to(file, limit)
    if len(data) > limit:
        raise TooLarge(
            f"The file has {max(stat.size, len(data))} bytes, more than the limit of {limit}: {stat.path}",
            hint=READ_LINES,
            size=stat.size,
            maxFileSize=limit,
        )
    if requested == "utf-8" and b"\0" in data:
        raise _build_binary_error(stat)
    content, encoding, lossy = _encode(data, requested)
    return WholeFile(content, encoding, stat.size, count_lines(data), hash_bytes(data), lossy)


def build_content(whole: WholeFile, stat: Stat, root_path: str) -> FileContent:
    return FileContent(
        content=whole.content,
        encoding=whole.encoding,
        metadata=build_metadata(stat, root_path),
        is_truncated=False,
        total_lines=whole.lines,
        returned_lines=whole.lines,
        hash=whole.hash,
        is_lossy=whole.is_lossy or None,
    )


def _read_range(
    file: OpenFile, start: int, end: int | None, requested: _RequestedEncoding, limit: int, root_path: str
) -> FileContent:
    stat = file.stat
    if stat.size > MAX_RANGE_FILE_BYTES:
        raise TooLarge(
            f"The file has {stat.size} bytes; files over {MAX_RANGE_FILE_BYTES} are not read, "
            f"not even by range: {stat.path}",
            hint=f"Run a command that shows a part, such as: sed -n '{start},{end or start + 99}p' FILE",
            size=stat.size,
        )
    digest = hashlib.sha256()
    span = _Span(start, end, limit)
    while chunk := file.read(CHUNK):
        if requested == "utf-8" and b"\0" in chunk:
            raise _build_binary_error(stat)
        digest.update(chunk)
        span.feed(chunk)
    if start > max(span.total_lines, 1):
        raise InvalidArgument(
            f"startLine {start} is past the end: the file has {span.total_lines} lines.", totalLines=span.total_lines
        )
    data, truncated = span.cut()
    content, encoding, lossy = _encode(data, requested)
    return FileContent(
        content=content,
        encoding=encoding,
        metadata=build_metadata(stat, root_path),
        is_truncated=truncated,
        total_lines=span.total_lines,
        returned_lines=count_lines(data),
        hash=f"sha256:{digest.hexdigest()}",
        is_lossy=lossy or None,
    )


class _Span:
    """The bytes of lines `start` to `end`, collected from chunks up to a limit, and the number of all lines."""

    def __init__(self, start: int, end: int | None, limit: int) -> None:
        self._to_skip = start - 1
        self._to_take = None if end is None else end - start + 1
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._newlines = 0
        self._last = b""

    @property
    def total_lines(self) -> int:
        return self._newlines + (self._last not in (b"", b"\n"))

    def feed(self, chunk: bytes) -> None:
        newlines = chunk.count(b"\n")
        self._newlines += newlines
        self._last = chunk[-1:]
        if self._to_skip > 0:
            if newlines < self._to_skip:
                self._to_skip -= newlines
                return
            chunk = chunk[_after_newlines(chunk, self._to_skip) :]
            newlines -= self._to_skip
            self._to_skip = 0
        if self._to_take is not None:
            if self._to_take == 0:
                return
            if newlines >= self._to_take:
                chunk = chunk[: _after_newlines(chunk, self._to_take)]
                newlines = self._to_take
            self._to_take -= newlines
        if self._size <= self._limit:
            self._parts.append(chunk)
            self._size += len(chunk)

    def cut(self) -> tuple[bytes, bool]:
        """Return the bytes, truncated at the limit after a whole line if there is one, never inside a character."""
        data = b"".join(self._parts)
        if len(data) <= self._limit:
            return data, False
        line_end = data.rfind(b"\n", 0, self._limit) + 1
        if line_end:
            return data[:line_end], True
        end = self._limit
        while end > self._limit - 4 and data[end] & 0xC0 == 0x80:
            end -= 1
        return data[:end], True


def _after_newlines(chunk: bytes, count: int) -> int:
    """Return the offset after the `count`-th newline."""
    return len(chunk) - len(chunk.split(b"\n", count)[count])


def _encode(data: bytes, requested: _RequestedEncoding) -> tuple[str, Encoding, bool]:
    """Return `data` as text, the encoding of that text, and whether bytes were lost."""
    if requested != "base64" and not (requested == "auto" and b"\0" in data):
        try:
            return data.decode("utf-8"), "utf-8", False
        except UnicodeDecodeError:
            if requested == "utf-8":
                return data.decode("utf-8", "replace"), "utf-8", True
    return base64.b64encode(data).decode("ascii"), "base64", False


def _build_binary_error(stat: Stat) -> BinaryFile:
    kind = mimetypes.guess_type(stat.path)[0] or "application/octet-stream"
    return BinaryFile(
        f"The file is binary ({kind}, {stat.size} bytes): {stat.path}",
        hint=READ_BASE64,
        size=stat.size,
        type=kind,
    )
