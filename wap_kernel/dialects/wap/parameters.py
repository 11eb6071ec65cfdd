"""Define the parameters of WAP's tools by the protocol's names, and translate them to operations of the engine."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import Field

from wap_kernel.dialects.tool import INTEGER, Parameters
from wap_kernel.files import content_hash
from wap_kernel.model import paths
from wap_kernel.model.edits import DeleteLines, InsertLines, RegexReplace, ReplaceLines
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import (
    MAX_CONTEXT_LINES,
    MAX_GLOBS,
    MAX_SEARCH_PATHS,
    WAP_DEFAULT_CONTEXT_LINES,
    WAP_DEFAULT_DEPTH,
)
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    Isolation,
    ListFiles,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    RunCommand,
    SearchFiles,
    WriteFile,
)

DECODE_STEP = 256 * 1024
"""Characters of base64 that are decoded at a time; a multiple of four."""

Positive = Annotated[int, Field(ge=1, le=2**31), INTEGER]
Path = Annotated[
    str, Field(min_length=1, description="Path relative to the workspace root (an absolute path inside it also works).")
]
Patterns = Annotated[
    list[str],
    Field(
        max_length=MAX_GLOBS,
        description='Glob patterns to leave out, read as .gitignore does, e.g. "**/node_modules/**".',
    ),
]
Hash = Annotated[
    str,
    Field(
        pattern=content_hash.HASH_PATTERN,
        description="Refuse unless the file still has this hash, of a read.",
    ),
]
CommandIsolation = Annotated[
    Isolation,
    Field(
        description='"shared" writes directly, for servers and watchers, and cannot be undone; otherwise changes are '
        "applied at the end.",
    ),
]
Cursor = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="nextCursor of the answer before, for the next page; the other fields stay the same.",
    ),
]
TextEncoding = Literal["utf-8", "base64"]


class ExploreFilesParameters(Parameters):
    path: Path
    recursive: bool = Field(False, description="Whether to explore recursively.")
    exclude_patterns: Patterns | None = None
    max_depth: Positive = Field(WAP_DEFAULT_DEPTH, description="Maximum recursion depth.")
    return_metadata: bool = Field(False, description="Whether to include size and modification time.")
    cursor: Cursor | None = None

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return ListFiles(
            path=paths.parse_path(self.path, names_of_root),
            recursive=self.recursive,
            max_depth=self.max_depth,
            exclude=_tuple(self.exclude_patterns),
            metadata=self.return_metadata,
            cursor=self.cursor,
        )


class ReadFileParameters(Parameters):
    path: Path
    start_line: Positive | None = Field(None, description="First line to read, 1-indexed.")
    end_line: Positive | None = Field(None, description="Last line to read, 1-indexed.")
    encoding: TextEncoding = Field("utf-8", description='"base64" reads anything, also binary files.')

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return ReadFile(
            path=paths.parse_path(self.path, names_of_root),
            start_line=self.start_line,
            end_line=self.end_line,
            encoding=self.encoding,
        )


class WriteFileParameters(Parameters):
    path: Path
    content: str = Field(description="Content to write.")
    mode: Literal["create", "overwrite", "append"] = Field(
        "overwrite", description='"create" fails if the file exists; "append" adds at the end.'
    )
    create_directories: bool = Field(False, description="Create parent directories if they do not exist.")
    encoding: TextEncoding = Field("utf-8", description='"base64": content is base64, for binary files.')
    expected_hash: Hash | None = None

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return WriteFile(
            path=_parse_new_file(self.path, names_of_root),
            content=decode_content(self.content, self.encoding),
            mode=self.mode,
            create_directories=self.create_directories,
            expected_hash=self.expected_hash,
        )


class Replace(Parameters):
    """Replace lines."""

    type: Literal["replace"]
    start_line: Positive
    end_line: Positive
    new_content: str

    def change(self) -> ReplaceLines:
        return ReplaceLines(start_line=self.start_line, end_line=self.end_line, new_content=self.new_content)


class Insert(Parameters):
    """Insert after a line; 0 inserts at the top."""

    type: Literal["insert"]
    after_line: Annotated[int, Field(ge=0, le=2**31), INTEGER]
    new_content: str

    def change(self) -> InsertLines:
        return InsertLines(after_line=self.after_line, new_content=self.new_content)


class Delete(Parameters):
    """Delete lines."""

    type: Literal["delete"]
    start_line: Positive
    end_line: Positive

    def change(self) -> DeleteLines:
        return DeleteLines(start_line=self.start_line, end_line=self.end_line)


class Regex(Parameters):
    """Replace what a JavaScript regular expression matches in the whole text; without "g" only the first match."""

    type: Literal["regexReplace"]
    pattern: str = Field(min_length=1)
    replacement: str = Field(description="$1, $<name>, $& and $$ as in JavaScript.")
    flags: str = Field("", description="Any of g, i, m, s, u.")

    def change(self) -> RegexReplace:
        return RegexReplace(pattern=self.pattern, replacement=self.replacement, flags=self.flags)


class ModifyFileParameters(Parameters):
    path: Path
    operations: list[Annotated[Replace | Insert | Delete | Regex, Field(discriminator="type")]] = Field(
        min_length=1,
        max_length=1000,
        description="Applied in order, each to the result of the one before; all or nothing.",
    )
    expected_hash: Hash | None = None

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return ModifyFile(
            path=paths.parse_path(self.path, names_of_root),
            edits=tuple(item.change() for item in self.operations),
            expected_hash=self.expected_hash,
        )


class SearchFilesParameters(Parameters):
    paths: list[Path] = Field(min_length=1, max_length=MAX_SEARCH_PATHS, description="Files and folders to search in.")
    query: str = Field(min_length=1, description="What to look for, within one line.")
    type: Literal["regex", "literal"] = Field(description='"regex" is Rust syntax: no look-around, no back-references.')
    recursive: bool = Field(True, description="Whether to search recursively.")
    exclude_patterns: Patterns | None = None
    context_lines: Annotated[int, Field(ge=0, le=MAX_CONTEXT_LINES), INTEGER] = Field(
        WAP_DEFAULT_CONTEXT_LINES, description="Lines of context around a match."
    )
    cursor: Cursor | None = None

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return SearchFiles(
            paths=tuple(paths.parse_path(path, names_of_root) for path in self.paths),
            query=self.query,
            regex=self.type == "regex",
            recursive=self.recursive,
            exclude=_tuple(self.exclude_patterns),
            context_lines=self.context_lines,
            cursor=self.cursor,
        )


class ExecuteCommandParameters(Parameters):
    command: str = Field(min_length=1, max_length=100_000, description="Command line for bash.")
    working_directory: str = Field(".", min_length=1, description="Folder to run in; the workspace root by default.")
    timeout: float | None = Field(None, gt=0, allow_inf_nan=False, description="Timeout in milliseconds.")
    environment: dict[str, str] = Field(
        default_factory=dict, max_length=1000, description="Further environment variables."
    )
    isolation: CommandIsolation = "layer"

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        if "\0" in self.command:
            raise InvalidArgument("The command contains a NUL character.")
        return RunCommand(
            command=self.command,
            cwd=paths.parse_path(self.working_directory, names_of_root),
            timeout_ms=self.timeout,
            environment=self.environment,
            isolation=self.isolation,
        )


class GetWorkspaceInfoParameters(Parameters):
    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return DescribeWorkspace()


class DeleteFileParameters(Parameters):
    path: Path
    recursive: bool = Field(False, description="Needed to delete a folder with everything in it.")
    expected_hash: Hash | None = None

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return DeleteFile(
            path=paths.parse_path(self.path, names_of_root), recursive=self.recursive, expected_hash=self.expected_hash
        )


class _FromTo(Parameters):
    source: Path
    destination: Path
    overwrite: bool = Field(False, description="Replace an existing file (never a folder).")
    create_directories: bool = Field(False, description="Create the destination's parent directories.")
    expected_hash: Hash | None = None

    def _fields(self, names_of_root: tuple[str, ...]) -> dict[str, Any]:
        return {
            "source": paths.parse_path(self.source, names_of_root),
            "destination": _parse_new_file(self.destination, names_of_root),
            "overwrite": self.overwrite,
            "create_directories": self.create_directories,
            "expected_hash": self.expected_hash,
        }


class MoveFileParameters(_FromTo):
    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return MoveFile(**self._fields(names_of_root))


class CopyFileParameters(_FromTo):
    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return CopyFile(**self._fields(names_of_root))


class CreateDirectoryParameters(Parameters):
    path: Path

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return CreateDirectory(path=paths.parse_path(self.path, names_of_root))


def _tuple(patterns: list[str] | None) -> tuple[str, ...] | None:
    return None if patterns is None else tuple(patterns)


def _parse_new_file(text: str, names_of_root: tuple[str, ...]) -> str:
    """Return the path of a file to create; refuse a path that ends in a slash, which names a folder."""
    path = paths.parse_path(text, names_of_root)
    if text.rpartition("/")[2] in ("", "."):
        raise InvalidArgument(
            f"The path names a folder: {text}", hint="Name the file itself, as in folder/file.txt.", path=text
        )
    return path


def decode_content(content: str, encoding: TextEncoding) -> bytes:
    if encoding == "utf-8":
        return content.encode("utf-8")
    try:
        # Padding before the end, which a step that ends there would accept, and Python 3.10 accepts padding alone.
        if content.find("=", 0, -2) >= 0 or len(content) % 4:
            raise ValueError
        # In steps: no other thread runs, the event loop's included, while one is decoded.
        return b"".join(
            base64.b64decode(content[start : start + DECODE_STEP], validate=True)
            for start in range(0, len(content), DECODE_STEP)
        )
    except (binascii.Error, ValueError):
        raise InvalidArgument("content: not valid base64.") from None
