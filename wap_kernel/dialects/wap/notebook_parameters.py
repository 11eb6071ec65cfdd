"""Define the parameters of the notebook tools in WAP's form, and translate them to operations of the engine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wap_kernel.dialects.tool import Parameters
from wap_kernel.dialects.wap.parameters import Hash, Path
from wap_kernel.files.notebooks import validation
from wap_kernel.model import paths
from wap_kernel.model.edits import CellType, DeleteCell, InsertCell, MoveCell, ReplaceCell
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.operations import ModifyFile, Operation, ReadNotebook

CellId = Annotated[str, Field(min_length=1, max_length=64, description="Id of a cell, of readNotebook.")]
NewId = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$", description="Id for the new cell.")]
Source = Annotated[str, Field(description="The whole source.")]
AfterCell = Annotated[CellId, Field(description="The cell before it.")]
BeforeCell = Annotated[CellId, Field(description="The cell after it; with neither, it goes to the end.")]


CellIds = Annotated[list[CellId], Field(min_length=1, max_length=1000, description="Only these cells.")]
IncludeOutputs = Annotated[bool, Field(description="Include outputs, as text.")]


class ReadNotebookParameters(Parameters):
    path: Path
    cell_ids: CellIds | None = None
    include_outputs: IncludeOutputs = True

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return ReadNotebook(
            path=check_notebook_path(paths.parse_path(self.path, names_of_root)),
            cells=None if self.cell_ids is None else tuple(self.cell_ids),
            outputs=self.include_outputs,
        )


class Insert(Parameters):
    """Insert a cell; at the end unless a place is named."""

    type: Literal["insert"] = Field(description="Insert a cell.")
    cell_type: CellType = Field("code", description="What it is.")
    source: Source
    cell_id: NewId | None = None
    after_cell: AfterCell | None = None
    before_cell: BeforeCell | None = None

    def change(self) -> InsertCell:
        return InsertCell(
            cell_type=self.cell_type,
            source=self.source,
            cell_id=self.cell_id,
            after_cell=self.after_cell,
            before_cell=self.before_cell,
        )


class Replace(Parameters):
    """Give a cell another source. What a code cell has put out is cleared: it came of another source."""

    type: Literal["replace"] = Field(description="Give a cell another source.")
    cell_id: CellId
    source: Source
    cell_type: CellType | None = Field(None, description="What it becomes; left out: what it is.")

    def change(self) -> ReplaceCell:
        return ReplaceCell(cell_id=self.cell_id, source=self.source, cell_type=self.cell_type)


class Delete(Parameters):
    """Delete a cell."""

    type: Literal["delete"] = Field(description="Delete a cell.")
    cell_id: CellId

    def change(self) -> DeleteCell:
        return DeleteCell(cell_id=self.cell_id)


class Move(Parameters):
    """Move a cell; to the end unless a place is named."""

    type: Literal["move"] = Field(description="Move a cell.")
    cell_id: CellId
    after_cell: AfterCell | None = None
    before_cell: BeforeCell | None = None

    def change(self) -> MoveCell:
        return MoveCell(cell_id=self.cell_id, after_cell=self.after_cell, before_cell=self.before_cell)


CellEdits = Annotated[
    list[Annotated[Insert | Replace | Delete | Move, Field(discriminator="type")]],
    Field(
        min_length=1,
        max_length=1000,
        description="Applied in order, all or none.",
    ),
]


class ModifyNotebookParameters(Parameters):
    path: Path
    operations: CellEdits
    expected_hash: Hash | None = None

    def operation(self, names_of_root: tuple[str, ...]) -> Operation:
        return ModifyFile(
            path=check_notebook_path(paths.parse_path(self.path, names_of_root)),
            edits=tuple(item.change() for item in self.operations),
            expected_hash=self.expected_hash,
        )


def check_notebook_path(path: str) -> str:
    """Return the path if it names a notebook; raise InvalidArgument otherwise."""
    if not validation.is_notebook(path):
        raise InvalidArgument(f"Not the name of a notebook: {path}", hint="Its name has to end in .ipynb.", path=path)
    return path
