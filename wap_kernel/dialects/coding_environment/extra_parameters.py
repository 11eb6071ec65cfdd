"""The arguments of the extra tools, and the operation or run that each stands for."""

from __future__ import annotations

import posixpath
from typing import Annotated, Literal

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
from wap_kernel.dialects.tool import Parameters
from wap_kernel.dialects.wap.parameters import Hash
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import CODING_DEFAULT_WAIT_SECONDS, CODING_MAX_EDITS, CODING_MAX_WAIT_SECONDS
from wap_kernel.model.operations import DeleteFile, DescribeWorkspace, ListFiles, ModifyFile, Operation

Seconds = Annotated[float, Field(ge=0, le=CODING_MAX_WAIT_SECONDS, allow_inf_nan=False)]


class TextEdit(Parameters):
    """One replacement."""

    old_text: str = Field(min_length=1, description="Text of the file, character for character, indentation included.")
    new_text: str = Field(description="What takes its place.")
    replace_all: bool = Field(False, description="Replace every occurrence; without it there must be exactly one.")

    def change(self) -> ReplaceText:
        which: Literal["only", "every"] = "every" if self.replace_all else "only"
        return ReplaceText(old_content=self.old_text, new_content=self.new_text, which=which)


class EditFileParameters(RootedParameters):
    path: Path
    edits: list[TextEdit] | None = Field(
        None,
        min_length=1,
        max_length=CODING_MAX_EDITS,
        description="Applied in order, each to the result of the one before; all or nothing.",
    )
    old_text: str | None = Field(None, min_length=1, description="For a single edit, instead of edits.")
    new_text: str | None = Field(None, description="For a single edit, instead of edits.")
    replace_all: bool = Field(False, description="For a single edit: replace every occurrence.")
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
    recursive: bool = Field(False, description="Needed to delete a folder with everything in it.")
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


class GlobFilesParameters(RootedParameters):
    pattern: str = Field(
        min_length=1, description='Relative to path, e.g. "src/**/*.{ts,tsx}". * does not cross a /, ** does.'
    )
    path: Path = "."
    max_results: Positive = Field(DEFAULT_MAX_RESULTS, description="How many files are answered at most.")

    def build_operation(self, root: RootFolder) -> Operation:
        return ListFiles(
            path=root.resolve(self.path),
            within=root.within,
            recursive=True,
            include=(self.pattern,),
            limit=self.max_results,
            newest_first=True,
            metadata=True,
        )


class GetWorkspaceInfoParameters(RootedParameters):
    def build_operation(self, root: RootFolder) -> Operation:
        return DescribeWorkspace(within=root.within)


class RunOperationsParameters(OperationsMessage):
    """An Agent Spaces message, and how long its end is waited for."""

    protocol_version: Literal["1.0"] = "1.0"
    wait: Seconds = Field(
        CODING_DEFAULT_WAIT_SECONDS, description="Seconds to wait for the end. A run goes on after that; see getRun."
    )


class GetRunParameters(Parameters):
    run_id: str = Field(min_length=1, max_length=100, description="As another call or error named it.")
    wait: Seconds = Field(0, description="Seconds to wait for it to end or to be decided on.")
