"""readNotebook and editNotebook: WAP's tools for cells, with this dialect's paths and spelling."""

from __future__ import annotations

from pydantic import Field

from wap_kernel.dialects.coding_environment.parameters import Confirmed, Path, Placed, small
from wap_kernel.dialects.coding_environment.workspace_root import Place, shown
from wap_kernel.dialects.wap import notebook_parameters
from wap_kernel.dialects.wap.parameters import Hash
from wap_kernel.model.base import Model
from wap_kernel.model.operations import ModifyFile, Operation, ReadNotebook
from wap_kernel.model.results import NotebookCell, NotebookContent


class ReadNotebookParameters(Placed):
    path: Path
    cell_ids: notebook_parameters.CellIds | None = None
    include_outputs: notebook_parameters.IncludeOutputs = True

    def engine(self, place: Place) -> Operation:
        return ReadNotebook(
            path=notebook_parameters.named(place.path(self.path)),
            within=place.within,
            cells=None if self.cell_ids is None else tuple(self.cell_ids),
            outputs=self.include_outputs,
        )


class EditNotebookParameters(Placed):
    path: Path
    edits: notebook_parameters.CellEdits
    expected_hash: Hash | None = None
    confirmed: Confirmed = False

    def engine(self, place: Place) -> Operation:
        return small(
            ModifyFile(
                path=notebook_parameters.named(place.path(self.path)),
                within=place.within,
                edits=tuple(edit.change() for edit in self.edits),
                expected_hash=self.expected_hash,
                confirmed=self.confirmed,
            )
        )


class NotebookRead(Model):
    path: str
    hash: str
    language: str | None = None
    cells: list[NotebookCell]
    count: int
    truncated: bool | None = Field(None)
    """There are more, which did not fit; name those that are wanted."""
    total: int


def read(operation: ReadNotebook, result: NotebookContent) -> NotebookRead:
    return NotebookRead(
        path=shown(operation.path, operation.within),
        hash=result.hash,
        language=result.language,
        cells=result.cells,
        count=len(result.cells),
        truncated=result.is_truncated or None,
        total=result.total_cells,
    )
