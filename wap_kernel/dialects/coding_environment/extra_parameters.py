"""The arguments of the extra tools, and the operation or run that each stands for."""

from __future__ import annotations

import posixpath
from typing import Annotated, Any, Literal

from pydantic import Field

from wap_kernel.dialects.agent_spaces.operations import OperationsMessage
from wap_kernel.dialects.coding_environment.parameters import (
    DEFAULT_MAX_RESULTS,
    Confirmed,
    Path,
    Positive,
    RootedParameters,
    check_size,
)
from wap_kernel.dialects.coding_environment.workspace_root import RootFolder
from wap_kernel.dialects.tool import INTEGER, Parameters
from wap_kernel.dialects.wap.parameters import Cursor, Hash
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import (
    CODING_DEFAULT_WAIT_SECONDS,
    CODING_MAX_EDITS,
    CODING_MAX_WAIT_SECONDS,
    DEFAULT_OUTPUT_PAGE_BYTES,
    MAX_OUTPUT_OFFSET,
    MAX_OUTPUT_PAGE_BYTES,
)
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    ListFiles,
    ModifyFile,
    MoveFile,
    Operation,
)

Seconds = Annotated[float, Field(ge=0, le=CODING_MAX_WAIT_SECONDS, allow_inf_nan=False)]


class TextEdit(Parameters):
    """One replacement."""

    old_text: str = Field(min_length=1, description="Exact text of the file.")
    new_text: str = Field(description="Its replacement.")
    replace_all: bool = Field(False, description="Replace every occurrence.")

    def change(self) -> ReplaceText:
        which: Literal["only", "every"] = "every" if self.replace_all else "only"
        return ReplaceText(old_content=self.old_text, new_content=self.new_text, which=which)


class EditFileParameters(RootedParameters):
    path: Path
    edits: list[TextEdit] | None = Field(
        None,
        min_length=1,
        max_length=CODING_MAX_EDITS,
        description="Applied in order, all or none.",
    )
    old_text: str | None = Field(
        None, min_length=1, description="A single edit, instead of edits.", json_schema_extra={"deprecated": True}
    )
    new_text: str | None = Field(
        None, description="A single edit, instead of edits.", json_schema_extra={"deprecated": True}
    )
    replace_all: bool = Field(False, description="Of a single edit.", json_schema_extra={"deprecated": True})
    expected_hash: Hash | None = None
    confirmed: Confirmed = False

    def build_operation(self, root: RootFolder) -> Operation:
        return check_size(
            ModifyFile(
                path=root.resolve(self.path),
                within=root.within,
                edits=tuple(edit.change() for edit in self._edits()),
                expected_hash=self.expected_hash,
                confirmed=self.confirmed,
            )
        )

    def _edits(self) -> list[TextEdit]:
        single = self.old_text is not None or self.new_text is not None or self.replace_all
        if self.edits is not None and not single:
            return self.edits
        if self.edits is None and self.old_text is not None and self.new_text is not None:
            return [TextEdit(oldText=self.old_text, newText=self.new_text, replaceAll=self.replace_all)]
        raise InvalidArgument(
            "It takes either edits, or oldText and newText.",
            hint='As in {"edits": [{"oldText": ..., "newText": ...}]}.',
        )


class DeleteFileParameters(RootedParameters):
    path: Path
    recursive: bool = Field(False, description="For a folder with everything in it.")
    expected_hash: Hash | None = None
    confirmed: Confirmed = False

    def build_operation(self, root: RootFolder) -> Operation:
        path = root.resolve(self.path)
        if root.within != "." and posixpath.normpath(path) == root.within:
            raise InvalidArgument("workspaceRoot itself cannot be deleted.", hint="Name something inside it.")
        return DeleteFile(
            path=path,
            within=root.within,
            recursive=self.recursive,
            expected_hash=self.expected_hash,
            confirmed=self.confirmed,
        )


class _TransferParameters(RootedParameters):
    source: Path
    destination: Path
    overwrite: bool = Field(False, description="Replace a file.")
    create_if_missing: bool = Field(True, description="Make missing parent folders.")
    confirmed: Confirmed = False

    def build_fields(self, root: RootFolder) -> dict[str, Any]:
        return {
            "source": root.resolve(self.source),
            "destination": root.resolve_new_file(self.destination),
            "within": root.within,
            "overwrite": self.overwrite,
            "create_directories": self.create_if_missing,
            "confirmed": self.confirmed,
        }


class MoveFileParameters(_TransferParameters):
    def build_operation(self, root: RootFolder) -> Operation:
        return MoveFile(**self.build_fields(root))


class CopyFileParameters(_TransferParameters):
    def build_operation(self, root: RootFolder) -> Operation:
        return CopyFile(**self.build_fields(root))


class CreateDirectoryParameters(RootedParameters):
    path: Path
    confirmed: Confirmed = False

    def build_operation(self, root: RootFolder) -> Operation:
        return CreateDirectory(path=root.resolve(self.path), within=root.within, confirmed=self.confirmed)


class GlobFilesParameters(RootedParameters):
    pattern: str = Field(min_length=1, description='Relative to path, e.g. "src/**/*.{ts,tsx}".')
    path: Path = "."
    max_results: Positive = Field(DEFAULT_MAX_RESULTS, description="Files of a page.")
    cursor: Cursor | None = None

    def build_operation(self, root: RootFolder) -> Operation:
        return ListFiles(
            path=root.resolve(self.path),
            within=root.within,
            recursive=True,
            include=(self.pattern,),
            limit=self.max_results,
            cursor=self.cursor,
            newest_first=True,
            metadata=True,
        )


class GetWorkspaceInfoParameters(RootedParameters):
    def build_operation(self, root: RootFolder) -> Operation:
        return DescribeWorkspace(within=root.within)


class RunOperationsParameters(OperationsMessage):
    """An Agent Spaces message, and how long its end is waited for."""

    protocol_version: Literal["1.0"] = Field("1.0", json_schema_extra={"deprecated": True})
    wait: Seconds = Field(CODING_DEFAULT_WAIT_SECONDS, description="Seconds to wait for the end.")


RunId = Annotated[str, Field(min_length=1, max_length=100, description="Of another call or error.")]


class CancelRunParameters(Parameters):
    run_id: RunId


class GetOutputParameters(Parameters):
    run_id: RunId
    operation_id: str | None = Field(None, min_length=1, description="Default: the last command.")
    stream: Literal["stdout", "stderr"] = Field("stdout", description="Which output.")
    offset: Annotated[int, Field(ge=0, le=MAX_OUTPUT_OFFSET), INTEGER] = Field(0, description="Byte to begin at.")
    limit: Annotated[int, Field(ge=1, le=MAX_OUTPUT_PAGE_BYTES), INTEGER] = Field(
        DEFAULT_OUTPUT_PAGE_BYTES, description="Bytes of a page."
    )


class GetRunParameters(Parameters):
    run_id: RunId
    wait: Seconds = Field(0, description="Seconds to wait for its end or a decision.")
