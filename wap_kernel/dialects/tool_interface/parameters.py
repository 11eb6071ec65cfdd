"""Define the fields of bash, read, write, edit, glob and grep, and translate requests to operations of the engine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from wap_kernel.dialects.tool import INTEGER, Parameters
from wap_kernel.dialects.tool_interface import workspace_path
from wap_kernel.dialects.wap.parameters import CommandIsolation, Hash
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import (
    INTERFACE_DEFAULT_TIMEOUT_MS,
    INTERFACE_MAX_LINE_CHARACTERS,
    INTERFACE_MAX_MATCHES,
    INTERFACE_MAX_READ_LINES,
    MAX_CONTEXT_LINES,
    MAX_INTEGER,
)
from wap_kernel.model.operations import ListFiles, ModifyFile, Operation, RunCommand, SearchFiles, ViewFile, WriteFile

Positive = Annotated[int, Field(ge=1, le=MAX_INTEGER), INTEGER]
FilePath = Annotated[str, Field(min_length=1, description="Path of the file: /workspace/... or relative to that.")]
Folder = Annotated[str, Field(min_length=1, description="Folder to look in: /workspace/... or relative to that.")]


class InterfaceParameters(Parameters):
    """The parameters of a tool of the interface, whose fields are sent by their Python names."""

    model_config = ConfigDict(alias_generator=None)


class BashParameters(InterfaceParameters):
    command: str = Field(min_length=1, max_length=100_000, description="Command line for bash.")
    workdir: str = Field(workspace_path.WORKSPACE, min_length=1, description="Folder to run in.")
    timeout_ms: float = Field(
        INTERFACE_DEFAULT_TIMEOUT_MS, gt=0, allow_inf_nan=False, description="After how many milliseconds it is ended."
    )
    isolation: CommandIsolation = "layer"

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        if "\0" in self.command:
            raise InvalidArgument("The command contains a NUL character.")
        return RunCommand(
            command=self.command,
            cwd=workspace_path.parse_path(self.workdir, names_of_root),
            by_alias=True,
            timeout_ms=self.timeout_ms,
            is_timeout_default="timeout_ms" not in self.model_fields_set,
            isolation=self.isolation,
        )


class ReadParameters(InterfaceParameters):
    file_path: Annotated[
        str, Field(min_length=1, description="Path of the file or folder: /workspace/... or relative to that.")
    ]
    offset: Positive = Field(1, description="First line (of a folder: entry) to read, from 1.")
    limit: Positive | None = Field(
        None,
        description="How many lines (of a folder: entries) to read. "
        f"Without it at most {INTERFACE_MAX_READ_LINES}, each cut at "
        f"{INTERFACE_MAX_LINE_CHARACTERS} characters; with it lines are whole.",
    )

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return ViewFile(
            path=workspace_path.parse_path(self.file_path, names_of_root),
            start_line=self.offset,
            end_line=self.offset + (self.limit or INTERFACE_MAX_READ_LINES) - 1,
            max_line=INTERFACE_MAX_LINE_CHARACTERS if self.limit is None else None,
        )

    def listing(self, path: str) -> Operation:
        """Return the operation that reads a folder instead of a file."""
        return ListFiles(path=path, start_entry=self.offset, limit=self.limit or INTERFACE_MAX_READ_LINES)


class WriteParameters(InterfaceParameters):
    file_path: FilePath
    content: str = Field(description="What the file then holds.")
    expected_hash: Hash | None = None

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return WriteFile(
            path=workspace_path.parse_new_file(self.file_path, names_of_root),
            content=self.content.encode("utf-8"),
            create_directories=True,
            expected_hash=self.expected_hash,
        )


class EditParameters(InterfaceParameters):
    file_path: FilePath
    old_string: str = Field(
        min_length=1, description="Text of the file, character for character, indentation included."
    )
    new_string: str = Field(description="What takes its place.")
    replace_all: bool = Field(False, description="Replace every occurrence; without it there must be exactly one.")
    expected_hash: Hash | None = None

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        which: Literal["only", "every"] = "every" if self.replace_all else "only"
        change = ReplaceText(old_content=self.old_string, new_content=self.new_string, which=which)
        return ModifyFile(
            path=workspace_path.parse_path(self.file_path, names_of_root),
            edits=(change,),
            expected_hash=self.expected_hash,
        )


class GlobParameters(InterfaceParameters):
    pattern: str = Field(
        min_length=1, description='Relative to path, e.g. "src/**/*.{ts,tsx}". * does not cross a /, ** does.'
    )
    path: Folder = workspace_path.WORKSPACE

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        path, pattern = workspace_path.parse_path(self.path, names_of_root), self.pattern
        if path == ".":
            pattern = pattern.removeprefix(f"{workspace_path.WORKSPACE}/") or pattern
        return ListFiles(path=path, recursive=True, include=(pattern,), limit=INTERFACE_MAX_MATCHES, newest_first=True)


class GrepParameters(InterfaceParameters):
    pattern: str = Field(
        min_length=1, description="Regular expression in Rust's syntax: no look-around, no back-references."
    )
    path: Folder = workspace_path.WORKSPACE
    include: str | None = Field(
        None,
        min_length=1,
        description='Only files that match, e.g. "*.ts" (in any folder) or "src/**/*.ts" (relative to path).',
    )
    context: Annotated[int, Field(ge=0, le=MAX_CONTEXT_LINES), INTEGER] = Field(
        0, description="Lines to show before and after each match."
    )

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return SearchFiles(
            paths=(workspace_path.parse_path(self.path, names_of_root),),
            query=self.pattern,
            regex=True,
            include=None if self.include is None else (_match_in_any_folder(self.include),),
            limit=INTERFACE_MAX_MATCHES,
            context_lines=self.context,
        )


def _match_in_any_folder(include: str) -> str:
    return include if "/" in include else f"**/{include}"
