"""The arguments of the catalog's five tools, with its names and defaults, and the operation that each stands for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from wap_kernel.dialects.coding_environment.images import is_image
from wap_kernel.dialects.coding_environment.workspace_root import RootFolder
from wap_kernel.dialects.tool import INTEGER, Parameters
from wap_kernel.dialects.wap.parameters import CommandIsolation, Cursor, Hash
from wap_kernel.model.errors import InvalidArgument, TooLarge
from wap_kernel.model.limits import (
    CODING_DEFAULT_TIMEOUT_SECONDS,
    CODING_MAX_ARGUMENTS,
    CODING_MAX_COMMAND_CHARACTERS,
    CODING_MAX_EDIT_BYTES,
    CODING_MAX_READ_BYTES,
    CODING_MAX_TEXT_BYTES,
    MAX_GLOBS,
    MAX_INTEGER,
)
from wap_kernel.model.operations import ListFiles, Operation, ReadFile, RunCommand, SearchFiles, WriteFile

DEFAULT_MAX_ENTRIES, DEFAULT_MAX_RESULTS = 10_000, 1_000
"""The limits of a listing and a search where the caller sets none."""

Positive = Annotated[int, Field(ge=1, le=MAX_INTEGER), INTEGER]
Path = Annotated[str, Field(min_length=1, description="Relative to workspaceRoot.")]
Globs = Annotated[
    list[str],
    Field(
        max_length=MAX_GLOBS,
        description='Only such files, e.g. "**/*.py".',
    ),
]
Confirmed = Annotated[
    bool,
    Field(description="The user has agreed to exactly this call; never set it on your own."),
]


class RootedParameters(Parameters):
    """Arguments of a tool that stays in a folder."""

    workspace_root: str = Field(
        ".",
        min_length=1,
        description="Folder that paths are relative to; default: the server's root.",
    )

    def build_operation(self, root: RootFolder) -> Operation:
        raise NotImplementedError


class ReadFileParameters(RootedParameters):
    path: Path
    start_line: Positive | None = Field(None, description="First line, from 1.")
    end_line: Positive | None = Field(None, description="Last line, included.")

    def build_operation(self, root: RootFolder) -> Operation:
        path = root.resolve(self.path)
        # A file that is not all UTF-8 comes as bytes: an agent would write replaced characters back with its edit.
        return ReadFile(
            path=path,
            within=root.within,
            start_line=self.start_line,
            end_line=self.end_line,
            encoding="auto",
            max_size=CODING_MAX_READ_BYTES,
            max_text=None if is_image(path) else CODING_MAX_TEXT_BYTES,
        )


class WriteOptions(Parameters):
    atomic: bool = Field(True, description="By a rename; false writes in place.")
    create_if_missing: bool = Field(True, description="Make missing parent folders.")
    expected_hash: Hash | None = None
    confirmed: Confirmed = False


class WriteFileParameters(RootedParameters):
    path: Path
    contents: str = Field(description="The whole new content.")
    options: WriteOptions = Field(default_factory=lambda: WriteOptions())

    def build_operation(self, root: RootFolder) -> Operation:
        return check_size(
            WriteFile(
                path=root.resolve_new_file(self.path),
                within=root.within,
                content=self.contents.encode("utf-8"),
                create_directories=self.options.create_if_missing,
                atomic=self.options.atomic,
                expected_hash=self.options.expected_hash,
                confirmed=self.options.confirmed,
            )
        )


class ListOptions(Parameters):
    recursive: bool = Field(False, description="List everything below.")
    globs: Globs | None = None
    max_entries: Positive = Field(DEFAULT_MAX_ENTRIES, description="Entries of a page.")
    cursor: Cursor | None = None


class ListFilesParameters(RootedParameters):
    path: Path = "."
    options: ListOptions = Field(default_factory=lambda: ListOptions())

    def build_operation(self, root: RootFolder) -> Operation:
        return ListFiles(
            path=root.resolve(self.path),
            within=root.within,
            recursive=self.options.recursive,
            include=to_include(self.options.globs),
            limit=self.options.max_entries,
            cursor=self.options.cursor,
            metadata=True,
        )


class SearchOptions(Parameters):
    regex: bool = Field(False, description="The query is a regular expression of Rust.")
    case_sensitive: bool = Field(False, description="Tell a from A.")
    globs: Globs | None = None
    max_results: Positive = Field(DEFAULT_MAX_RESULTS, description="Matching lines of a page.")
    cursor: Cursor | None = None


class SearchFilesParameters(RootedParameters):
    query: str = Field(min_length=1, description="Text or pattern, within one line.")
    options: SearchOptions = Field(default_factory=lambda: SearchOptions())

    def build_operation(self, root: RootFolder) -> Operation:
        return SearchFiles(
            paths=(root.within,),
            within=root.within,
            query=self.query,
            regex=self.options.regex,
            case_sensitive=self.options.case_sensitive,
            include=to_include(self.options.globs),
            limit=self.options.max_results,
            cursor=self.options.cursor,
            context_lines=0,
        )


class CommandOptions(Parameters):
    cwd: str = Field(".", min_length=1, description="Folder to run in, relative to workspaceRoot.")
    env: dict[str, str] = Field(default_factory=dict, max_length=1000, description="Environment variables.")
    timeout: float = Field(
        CODING_DEFAULT_TIMEOUT_SECONDS,
        gt=0,
        allow_inf_nan=False,
        description="Seconds.",
    )
    isolation: CommandIsolation = "layer"
    confirmed: Confirmed = False


class RunCommandParameters(RootedParameters):
    command: str = Field(min_length=1, description="The program; no shell reads it.")
    args: list[str] = Field(
        default_factory=list,
        max_length=CODING_MAX_ARGUMENTS,
        description='Its arguments, one each; no quoting, no "&&".',
    )
    options: CommandOptions = Field(default_factory=lambda: CommandOptions())

    def build_operation(self, root: RootFolder) -> Operation:
        words = (self.command, *self.args)
        program, *more = self.command.split()[:2] or [""]
        if not program:
            raise InvalidArgument("command: It names no program.", hint='As in {"command": "ls", "args": ["-l"]}.')
        if more and "/" not in program:  # no program has such a name, and policy would have a person asked about it
            raise InvalidArgument(
                "command: It names one program, and no shell reads it.",
                hint='Put each argument into args, as in {"command": "ls", "args": ["-l", "src"]}.',
            )
        if any("\0" in word for word in words):
            raise InvalidArgument("The command contains a NUL character.")
        if sum(map(len, words)) > CODING_MAX_COMMAND_CHARACTERS:
            raise InvalidArgument(
                f"command and args hold more than {CODING_MAX_COMMAND_CHARACTERS} characters.",
                hint="Put the data into a file.",
            )
        return RunCommand(
            command=self.command,
            args=tuple(self.args),
            cwd=root.resolve(self.options.cwd),
            within=root.within,
            timeout_ms=min(self.options.timeout * 1000, MAX_INTEGER),
            is_timeout_default="timeout" not in self.options.model_fields_set,
            environment=self.options.env,
            isolation=self.options.isolation,
            confirmed=self.options.confirmed,
        )


def check_size(operation: Operation) -> Operation:
    """Return the write or edit; raise TooLarge when its content is over the limit."""
    size = operation.content_size
    if size > CODING_MAX_EDIT_BYTES:
        raise TooLarge(
            f"The content has {size} bytes, and {CODING_MAX_EDIT_BYTES} are allowed at once.",
            hint="Write less at once, or have a command make the file.",
            size=size,
            maxEditSize=CODING_MAX_EDIT_BYTES,
        )
    return operation


def to_include(globs: list[str] | None) -> tuple[str, ...] | None:
    return None if globs is None else tuple(globs)
